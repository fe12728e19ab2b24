//! From a plan's policy to whatever acts.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_core::{Policy, PolicySpec, RunId, RunPlan};
use clawrl_record::RunStore;
use clawrl_scripted::{Demonstrator, Noop, Oracle, Random, Replay, ReplayKey, recorded_action};

use super::remote::remote_policy;
use crate::exit_code::Exit;
use crate::failure::Failure;

/// The policy of a plan. `store` is where recorded runs are.
///
/// # Errors
/// A recorded run that cannot be read, or a policy that this program does not know.
pub(crate) fn policy_of(plan: &RunPlan, store: &RunStore) -> Result<Arc<dyn Policy>, Failure> {
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
            crate::training::embedded_policy(path, *temperature_milli, *max_new_tokens)?
        }
        PolicySpec::Remote(settings) => remote_policy(settings, plan)?,
        PolicySpec::Replay { run } => Arc::new(Replay::new(recordings(run, store)?)),
        other => return Err(impossible(&format!("{other:?} is not known here"))),
    })
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
