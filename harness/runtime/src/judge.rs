//! The judges of plans: each is checked once, before anything starts, and shared by the plans that name it.

use std::sync::Arc;

use clawrl_config::{JudgingPlan, RuleTarget};
use clawrl_core::{Judge, RemoteSpec, RunPlan, VoteValue};
use clawrl_judge::{ModelJudge, PausingJudge, RuleJudge, TurnRule};
use regex::Regex;

use super::remote::remote_model;
use crate::error::RuntimeError;

/// The judge of turns of a plan: its rules, then the voting model, if there is one.
///
/// # Errors
/// A pattern does not compile; a checked plan has none of these.
pub fn turn_judge(plan: &JudgingPlan, model: Option<Arc<dyn Judge>>) -> Result<Arc<dyn Judge>, RuntimeError> {
    let model = model.map(|model| Arc::new(PausingJudge::new(model, plan.concurrency)) as Arc<dyn Judge>);
    let rules = plan.rules.iter().map(|rule| {
        Ok(TurnRule {
            place: match rule.place {
                RuleTarget::Reply => clawrl_judge::RuleTarget::Reply,
                RuleTarget::NextState => clawrl_judge::RuleTarget::NextState,
                RuleTarget::User => clawrl_judge::RuleTarget::User,
            },
            matches: Regex::new(&rule.matches)?,
            verdict: rule.verdict.map(|verdict| match verdict.signum() {
                1 => VoteValue::Met,
                -1 => VoteValue::NotMet,
                _ => VoteValue::Undecided,
            }),
            hint: rule.hint.clone(),
        })
    });
    let rules: Result<Vec<TurnRule>, regex::Error> = rules.collect();
    let rules = rules.map_err(|error| RuntimeError::storage(format!("a rule of `judging`: {error}")))?;
    Ok(Arc::new(RuleJudge::new(rules, model)))
}

/// The model of a plan, if it names one, after a check of its server.
///
/// # Errors
/// The server does not answer, refuses the key or lacks the model.
pub fn model_of(plan: &JudgingPlan) -> Result<Option<Arc<dyn Judge>>, RuntimeError> {
    let Some(named) = plan.judge.as_deref() else { return Ok(None) };
    Ok(Some(Arc::new(ModelJudge::new(remote_model(named, "judge")?))))
}

/// Judges by their settings.
#[derive(Default)]
pub(crate) struct Judges(Vec<(RemoteSpec, Arc<dyn Judge>)>);

impl Judges {
    /// The judges of the plans, and the judge of a training's turns.
    ///
    /// # Errors
    /// The server does not answer, refuses the key or lacks the model.
    pub(crate) fn of(plans: &[&RunPlan], of_turns: Option<&RemoteSpec>) -> Result<Self, RuntimeError> {
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

    /// The judge with these settings, if a plan names it.
    pub(crate) fn find(&self, named: &RemoteSpec) -> Option<Arc<dyn Judge>> {
        self.0.iter().find(|(spec, _)| spec == named).map(|(_, judge)| Arc::clone(judge))
    }
}
