//! The tasks of a plan, oracles included, for the policies that play them.

use std::sync::Arc;

use clawrl_core::{Boundary, Fault, PolicyRequest, RunPlan, TaskSpec};

/// The task of each slot. Requests hold no oracles, so scripted policies take this when they are built.
#[derive(Debug, Clone)]
pub struct SlotTasks(Vec<Arc<TaskSpec>>);

impl SlotTasks {
    /// The task that a request is about.
    ///
    /// # Errors
    /// A permanent fault if the slot is not part of the plan.
    pub(crate) fn of(&self, request: &PolicyRequest<'_>) -> Result<&TaskSpec, Fault> {
        let slot = request.attempt.slot;
        self.0.get(slot.0 as usize).map(|task| task.as_ref()).ok_or_else(|| {
            let message = format!("slot {slot} is not part of the plan that the policy was built for");
            Fault::permanent(Boundary::Harness, "unknown-slot", message)
        })
    }
}

impl From<&RunPlan> for SlotTasks {
    fn from(plan: &RunPlan) -> Self {
        plan.slots.iter().map(|slot| Arc::clone(plan.task_of(slot))).collect()
    }
}

impl FromIterator<Arc<TaskSpec>> for SlotTasks {
    /// Tasks in the order of their slots, from slot 0.
    fn from_iter<I: IntoIterator<Item = Arc<TaskSpec>>>(tasks: I) -> Self {
        Self(tasks.into_iter().collect())
    }
}
