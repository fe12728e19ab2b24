//! Makes the policy of a plan.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clawrl_cassette::Recorder;
use clawrl_core::{AgentSpec, Policy, PolicySpec, RunId, RunPlan};
use clawrl_record::{LockFile, Redactor, RunStore, redaction_mark};
use clawrl_scripted::{Demonstrator, Noop, Oracle, Random, Replay, ReplayKey, recorded_action};

use super::cassette::played;
use super::programs::Programs;
use super::remote::{remote_model, remote_policy};
use crate::agent::{AgentConfig, AgentPolicy, PerAttempt};
use crate::environment;
use crate::error::RuntimeError;

/// Resources of a policy beside its plan.
#[derive(Default)]
pub struct PolicyResources {
    /// Redacts secrets in cassettes, in both stored and compared requests.
    pub redactor: Option<Arc<Redactor>>,
    /// The recorder of replies, if they are recorded.
    pub recorder: Option<Arc<Recorder>>,
    /// The spawner of programs; the machine of the run lends it ([`super::Machine::lending`]).
    pub programs: Programs,
    /// Loads models that this process runs itself. `None`: a plan that names one is refused.
    pub models: Option<Arc<dyn PolicyLoader>>,
}

/// Loads policies that this process runs itself.
pub trait PolicyLoader: Send + Sync {
    /// The policy in a folder, of a model or of an adapter. `temperature_milli`: thousandths of the temperature; 0 is greedy.
    /// `max_new_tokens`: maximum tokens of a reply.
    ///
    /// # Errors
    /// The folder does not hold a model, or this host cannot run it.
    fn load_policy(
        &self,
        folder: &Path,
        temperature_milli: u32,
        max_new_tokens: u32,
    ) -> Result<Arc<dyn Policy>, RuntimeError>;
}

/// The policy of a plan. `store`: the recorded runs.
///
/// # Errors
/// A recorded run or a cassette cannot be read, or this program does not support the policy.
pub fn policy_of(
    plan: &RunPlan,
    store: &RunStore,
    resources: &PolicyResources,
) -> Result<Arc<dyn Policy>, RuntimeError> {
    if let PolicySpec::Agent(spec) = &plan.policy {
        return agent(spec, plan, store, resources);
    }
    let policy = speaking(&plan.policy, plan, store, resources)?;
    Ok(resources.recording(policy, &plan.policy))
}

/// A policy that is not an agent program.
fn speaking(
    spec: &PolicySpec,
    plan: &RunPlan,
    store: &RunStore,
    resources: &PolicyResources,
) -> Result<Arc<dyn Policy>, RuntimeError> {
    let impossible = |what: &str| RuntimeError::refused(format!("the plan's policy is none: {what}"));
    Ok(match spec {
        PolicySpec::Noop => Arc::new(Noop),
        PolicySpec::Oracle => Arc::new(Oracle::new(plan.into())),
        PolicySpec::Demonstrator { oracle_percent } => {
            let demonstrator = Demonstrator::new(*oracle_percent, plan.seed, plan.into());
            Arc::new(demonstrator.ok_or_else(|| impossible("an oracle share above 100 %"))?)
        }
        PolicySpec::Random { actions } => {
            Arc::new(Random::new(actions.clone()).ok_or_else(|| impossible("an empty list of actions"))?)
        }
        PolicySpec::Torch { path, temperature_milli, max_new_tokens } => {
            refuse_unseen_pictures(plan)?;
            let models = resources.models.as_deref().ok_or_else(|| {
                RuntimeError::unavailable("this program runs no models by itself")
                    .with_help("link it to libtorch")
            })?;
            models.load_policy(path, *temperature_milli, *max_new_tokens)?
        }
        PolicySpec::Remote(settings) => remote_policy(settings, plan)?,
        PolicySpec::Replay { run } => Arc::new(Replay::new(recordings(run, store)?)),
        PolicySpec::Cassette { path, sha256, recorded } => played(path, sha256, recorded, resources)?,
        other => return Err(impossible(&format!("{other:?} is not known here"))),
    })
}

/// Agent programs with their model. The cassette records the model's replies.
fn agent(
    spec: &AgentSpec,
    plan: &RunPlan,
    store: &RunStore,
    resources: &PolicyResources,
) -> Result<Arc<dyn Policy>, RuntimeError> {
    for name in &spec.secrets {
        if environment::named(name).is_none() {
            let help = format!("export {name}=..., or leave it out of `secrets` in the agent file");
            let message = format!("{name}, which the agent program is given, is not set");
            return Err(RuntimeError::refused(message).with_help(help));
        }
    }
    let model = spec.model.as_deref().map(|model| -> Result<Arc<dyn Policy>, RuntimeError> {
        let policy = match model {
            PolicySpec::Remote(settings) => remote_model(settings, "model of the agent program")?,
            other => speaking(other, plan, store, resources)?,
        };
        let policy: Arc<dyn Policy> = match model {
            PolicySpec::Torch { .. } => Arc::new(PerAttempt::new(policy)),
            _ => policy,
        };
        Ok(resources.recording(policy, model))
    });
    Ok(Arc::new(AgentPolicy::new(AgentConfig {
        spec: spec.clone(),
        run: plan.run.clone(),
        determinism: plan.determinism.clone(),
        model: model.transpose()?,
        programs: resources.programs.clone(),
    })))
}

/// Refuses a plan whose policy reads only text if observations are pictures.
///
/// # Errors
/// Names the task and a fix.
pub fn refuse_unseen_pictures(plan: &RunPlan) -> Result<(), RuntimeError> {
    let reads = matches!(plan.policy, PolicySpec::Torch { .. });
    match plan.tasks.iter().find(|task| task.env.shows_pictures()) {
        Some(task) if reads => {
            let message = format!("task {} shows pictures, and the embedded policy reads text only", task.id);
            let help =
                "write `screenshots: recorded` to have them in the report, or let a policy act that sees";
            Err(RuntimeError::refused(message).with_help(help))
        }
        _ => Ok(()),
    }
}

/// The replies of the attempts that closed a run's slots.
///
/// # Errors
/// The run cannot be read.
fn recordings(
    run: &RunId,
    store: &RunStore,
) -> Result<BTreeMap<ReplayKey, Vec<clawrl_core::Action>>, RuntimeError> {
    let recorded = store.run(run)?;
    let plan = recorded.plan();
    let lock = recorded.lock_file()?;
    let mut replies = BTreeMap::new();
    for record in recorded.trajectories()? {
        let record = record?;
        let slot = record.attempt.slot;
        if let (true, Some(spec)) = (record.closes_slot, plan.slots.get(slot.0 as usize)) {
            for turn in &record.trajectory.turns {
                refuse_redacted(run, &lock, &turn.reply)?;
            }
            let key = ReplayKey { task: plan.task_of(spec).id.clone(), slot };
            replies.insert(key, record.trajectory.turns.iter().map(recorded_action).collect());
        }
    }
    Ok(replies)
}

/// Refuses to replay replies from which a secret was redacted.
///
/// # Errors
/// A reply contains a redaction mark.
fn refuse_redacted(
    run: &RunId,
    lock: &LockFile,
    replies: &impl serde::Serialize,
) -> Result<(), RuntimeError> {
    if lock.redacted.is_empty() {
        return Ok(());
    }
    // Marks contain no character that JSON escapes.
    let text = serde_json::to_string(replies).unwrap_or_default();
    match lock.redacted.iter().find(|name| text.contains(&redaction_mark(name))) {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("run {run} cannot be replayed: the value of {name} was struck out of its replies");
            let help = "a recording without secrets in what the policy said can be replayed";
            Err(RuntimeError::refused(message).with_help(help))
        }
    }
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

    #[test]
    fn redacted_replies_are_not_replayed() {
        let check = |redacted: &[&str], reply: &str, refused: bool| {
            let lock = serde_json::json!({
                "format": 1, "program": "", "host": {}, "determinism": clawrl_core::Determinism::default(),
                "suites": {}, "limits_not_set": [], "redacted": redacted,
            });
            let lock: LockFile = serde_json::from_value(lock).expect("a lock file");
            let run = RunId::new("first").expect("a name");
            let reply = clawrl_core::Message::text(clawrl_core::Role::Assistant, reply);
            assert_eq!(refuse_redacted(&run, &lock, &reply).is_err(), refused, "{redacted:?}, {reply:?}");
        };
        check(&["KEY"], "login [redacted KEY]", true);
        check(&["OTHER", "KEY"], "login [redacted KEY]", true);
        check(&["KEY"], "login", false);
        // The policy wrote this text itself, in a run without secrets.
        check(&[], "login [redacted KEY]", false);
    }
}
