//! From a plan's policy to whatever acts.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_core::{Policy, PolicySpec, RunId, RunPlan};
use clawrl_record::RunStore;
use clawrl_scripted::{Demonstrator, Noop, Oracle, Random, Replay, ReplayKey, recorded_action};

use super::cassette::{Taping, played};
use super::remote::remote_policy;
use crate::exit_code::Exit;
use crate::failure::Failure;

/// The policy of a plan. `store` is where recorded runs are.
///
/// # Errors
/// A recorded run or a cassette that cannot be read, or a policy that this program does not know.
pub(crate) fn policy_of(
    plan: &RunPlan,
    store: &RunStore,
    taping: &Taping,
) -> Result<Arc<dyn Policy>, Failure> {
    let policy = untaped(plan, store, taping)?;
    Ok(taping.recording(policy, &plan.policy))
}

fn untaped(plan: &RunPlan, store: &RunStore, taping: &Taping) -> Result<Arc<dyn Policy>, Failure> {
    let impossible = |what: &str| Failure::new(Exit::Refused, format!("the plan's policy is none: {what}"));
    Ok(match &plan.policy {
        PolicySpec::Noop => Arc::new(Noop),
        PolicySpec::Oracle => Arc::new(Oracle),
        PolicySpec::Demonstrator { oracle_percent } => {
            let demonstrator = Demonstrator::new(*oracle_percent, plan.seed);
            Arc::new(demonstrator.ok_or_else(|| impossible("an oracle share above 100 %"))?)
        }
        PolicySpec::Random { actions } => {
            Arc::new(Random::new(actions.clone()).ok_or_else(|| impossible("an empty list of actions"))?)
        }
        PolicySpec::Torch { path, temperature_milli, max_new_tokens } => {
            refuse_unseen_pictures(plan)?;
            crate::training::embedded_policy(path, *temperature_milli, *max_new_tokens)?
        }
        PolicySpec::Remote(settings) => remote_policy(settings, plan)?,
        PolicySpec::Replay { run } => Arc::new(Replay::new(recordings(run, store)?)),
        PolicySpec::Cassette { path, sha256, recorded } => played(path, sha256, recorded, taping)?,
        other => return Err(impossible(&format!("{other:?} is not known here"))),
    })
}

/// Refuses a plan whose policy reads text where observations are pictures.
///
/// # Errors
/// Which task it is, and what to write instead.
pub(crate) fn refuse_unseen_pictures(plan: &RunPlan) -> Result<(), Failure> {
    let reads = matches!(plan.policy, PolicySpec::Torch { .. });
    match plan.tasks.iter().find(|task| task.env.shows_pictures()) {
        Some(task) if reads => {
            let message = format!("task {} shows pictures, and the embedded policy reads text only", task.id);
            let help =
                "write `screenshots: recorded` to have them in the report, or let a policy act that sees";
            Err(Failure::with_help(Exit::Refused, message, help))
        }
        _ => Ok(()),
    }
}

/// The replies of the attempts that closed a run's slots.
///
/// # Errors
/// A run that cannot be read.
fn recordings(
    run: &RunId,
    store: &RunStore,
) -> Result<BTreeMap<ReplayKey, Vec<clawrl_core::Action>>, Failure> {
    let recorded = store.run(run)?;
    let plan = recorded.plan();
    let lock = recorded.lock_file()?;
    let mut replies = BTreeMap::new();
    for record in recorded.trajectories()? {
        let record = record?;
        let slot = record.attempt.slot;
        if let (true, Some(spec)) = (record.closes_slot, plan.slots.get(slot.0 as usize)) {
            for turn in &record.trajectory.turns {
                crate::redaction::refuse_changed(run, &lock, &turn.reply)?;
            }
            let key = ReplayKey { task: plan.task_of(spec).id.clone(), slot };
            replies.insert(key, record.trajectory.turns.iter().map(recorded_action).collect());
        }
    }
    Ok(replies)
}

#[cfg(test)]
mod tests {
    use clawrl_core::{EnvSpec, GuiSpec, Screenshots, TaskSpec};
    use clawrl_testkit::{PlanShape, task};

    use super::*;

    #[test]
    fn pictures_are_for_policies_that_see() {
        let torch =
            || PolicySpec::Torch { path: "policy".into(), temperature_milli: 1_000, max_new_tokens: 8 };
        let check = |policy: PolicySpec, screenshots: Screenshots, refused: bool| {
            let env = EnvSpec::Gui(Box::new(GuiSpec { screenshots, ..GuiSpec::default() }));
            let mut plan = PlanShape::flat(1, 1).build();
            plan.tasks = vec![Arc::new(TaskSpec { env, ..task("a") })];
            plan.policy = policy;
            assert_eq!(refuse_unseen_pictures(&plan).is_err(), refused, "{screenshots:?}");
        };
        check(torch(), Screenshots::Shown, true);
        check(torch(), Screenshots::Recorded, false);
        check(torch(), Screenshots::OnRequest, false);
        check(PolicySpec::Oracle, Screenshots::Shown, false);
    }
}
