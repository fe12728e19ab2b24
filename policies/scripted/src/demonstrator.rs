//! The imperfect demonstrator: right with a known probability, and wrong in plausible ways otherwise.
//!
//! A policy that is warm-started from clean oracles alone leaves nothing for reinforcement to improve;
//! one that has also seen confusable commands, swapped arguments and missing steps does.
//!
//! I1. One choice per slot, the same at every turn and for every attempt at the slot: a retry after an
//! infrastructure fault must not draw again, else slow or fragile scripts would be under-represented.
//!
//! Source: the recipe for learning from nothing (an oracle share of 0.35).

use clawrl_core::{
    Action, Boundary, BoxFuture, Fault, Policy, PolicyRequest, Script, SlotId, SplitMix64, TaskSpec,
    derive_seed, stable_hash,
};

use crate::oracle::oracle_of;
use crate::script::scripted_action;
use crate::slot_tasks::SlotTasks;

/// Plays the oracle with a given probability, otherwise one of the task's mistakes with equal probability; then submits.
///
/// The choice is a function of the seed given at construction, the task's id and the slot. A request's own
/// seed differs from turn to turn, so it is not used. A task without an oracle or mistakes that the percentage requires
/// is a permanent policy fault, `no-oracle` or `no-mistakes`, on every slot: a fallback would silently change
/// the share.
#[derive(Debug, Clone)]
pub struct Demonstrator {
    oracle_percent: u8,
    seed: u64,
    tasks: SlotTasks,
}

impl Demonstrator {
    /// `oracle_percent` is the probability of the oracle in percent; `None` above 100. `seed` is usually
    /// the plan's.
    #[must_use]
    pub fn new(oracle_percent: u8, seed: u64, tasks: SlotTasks) -> Option<Self> {
        (oracle_percent <= 100).then_some(Self { oracle_percent, seed, tasks })
    }

    fn script_for<'a>(&self, task: &'a TaskSpec, slot: SlotId) -> Result<&'a Script, Fault> {
        if self.oracle_percent < 100 && task.mistakes.is_empty() {
            let message = format!(
                "task `{}` has no mistakes to demonstrate; add `mistakes:` to the task, or demonstrate with \
                 an oracle share of 100 %",
                task.id
            );
            return Err(Fault::permanent(Boundary::Policy, "no-mistakes", message));
        }
        let oracle = if self.oracle_percent > 0 { Some(oracle_of(task)?) } else { None };
        let slot = [stable_hash(task.id.0.as_bytes()), u64::from(slot.0)];
        let mut draw = SplitMix64::new(derive_seed(self.seed, "demonstrator", &slot));
        let right = draw.below(100) < u64::from(self.oracle_percent);
        let mistake = draw.below(task.mistakes.len() as u64) as usize;
        match oracle {
            Some(oracle) if right => Ok(oracle),
            _ => Ok(&task.mistakes[mistake]),
        }
    }
}

impl Policy for Demonstrator {
    fn name(&self) -> &str {
        "demonstrator"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        let action = || {
            let task = self.tasks.of(&request)?;
            Ok(scripted_action(self.script_for(task, request.attempt.slot)?, task, &request))
        };
        Box::pin(std::future::ready(action()))
    }
}
