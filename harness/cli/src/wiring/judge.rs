//! The judges of plans: each is looked at once, before anything starts, and shared by the plans that name it.

use std::sync::Arc;

use clawrl_core::{Judge, RemoteSpec, RunPlan};
use clawrl_judge::ModelJudge;

use super::remote::remote_model;
use crate::failure::Failure;

/// Judges by what plans say of them.
#[derive(Default)]
pub(crate) struct Judges(Vec<(RemoteSpec, Arc<dyn Judge>)>);

impl Judges {
    /// Those of the plans, and one more of a training's turns.
    ///
    /// # Errors
    /// A server that is not there, refuses the key or lacks the model.
    pub(crate) fn of(plans: &[&RunPlan], of_turns: Option<&RemoteSpec>) -> Result<Self, Failure> {
        let mut judges = Self::default();
        for named in plans.iter().filter_map(|plan| plan.judge.as_deref()).chain(of_turns) {
            if judges.find(named).is_none() {
                let policy = remote_model(named, "judge")?;
                judges.0.push((named.clone(), Arc::new(ModelJudge::new(policy))));
            }
        }
        Ok(judges)
    }

    /// The judge of a plan.
    pub(crate) fn of_plan(&self, plan: &RunPlan) -> Option<Arc<dyn Judge>> {
        plan.judge.as_deref().and_then(|named| self.find(named))
    }

    /// The one with these settings, if a plan names it.
    pub(crate) fn find(&self, named: &RemoteSpec) -> Option<Arc<dyn Judge>> {
        self.0.iter().find(|(spec, _)| spec == named).map(|(_, judge)| Arc::clone(judge))
    }
}
