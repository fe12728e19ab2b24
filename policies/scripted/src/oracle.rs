//! The policy that knows the answers: it plays the oracles of the tasks.

use clawrl_core::{Action, Boundary, BoxFuture, Fault, Policy, PolicyRequest, Script, TaskSpec};

use crate::script::scripted_action;
use crate::slot_tasks::SlotTasks;

/// Plays the task's oracle, one call a turn, then submits.
///
/// A task without an oracle is a permanent policy fault `no-oracle`.
#[derive(Debug, Clone)]
pub struct Oracle {
    tasks: SlotTasks,
}

impl Oracle {
    /// A policy that plays the oracles of these tasks.
    #[must_use]
    pub fn new(tasks: SlotTasks) -> Self {
        Self { tasks }
    }
}

impl Policy for Oracle {
    fn name(&self) -> &str {
        "oracle"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        let action = || {
            let task = self.tasks.of(&request)?;
            Ok(scripted_action(oracle_of(task)?, task, &request))
        };
        Box::pin(std::future::ready(action()))
    }
}

/// The oracle of a task, or the fault that names the task.
pub(crate) fn oracle_of(task: &TaskSpec) -> Result<&Script, Fault> {
    task.oracle.as_ref().ok_or_else(|| {
        let message =
            format!("task `{}` has no oracle; add `oracle: {{ commands: [...] }}` to the task", task.id);
        Fault::permanent(Boundary::Policy, "no-oracle", message)
    })
}
