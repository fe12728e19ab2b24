//! Configuration of a run, and its validation.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_core::{EnvProvider, EpisodeSink, Epoch, Policy, RunPlan, SlotId};
use rustc_hash::FxHashSet;
use tokio::sync::watch;

use crate::demand::Demand;
use crate::limits::SchedulerTimeouts;
use crate::share::{Claim, FairShare, KindIndex, SuiteIndex};

/// Everything a [`crate::Scheduler`] needs.
pub struct SchedulerConfig {
    /// The plan to run.
    pub plan: Arc<RunPlan>,
    /// The slots to fill: all slots of the plan, or those that a resume found open.
    pub open_slots: Vec<SlotId>,
    /// Epoch of the first lease: above every epoch in the journal.
    pub first_epoch: Epoch,
    /// Number of the next attempt at a slot, above every number in the journal; 0 for slots not listed.
    pub attempt_numbers: BTreeMap<SlotId, u32>,
    /// By [`clawrl_core::EnvSpec::kind`].
    pub providers: BTreeMap<&'static str, ProviderConfig>,
    /// The acting policy.
    pub policy: Arc<dyn Policy>,
    /// Receiver of records.
    pub sink: Arc<dyn EpisodeSink>,
    /// Raised by the Ctrl-C handler. Dropping the sender means that no interrupt will come.
    pub interrupts: watch::Receiver<Interrupt>,
    /// Releases the plan's groups as they are wanted; `None` for all at once. While it is open and groups are
    /// withheld, the run waits for it. Dropping the sender means that no more is wanted.
    pub demand: Option<watch::Receiver<Demand>>,
    /// [`SchedulerTimeouts::default`] but in tests.
    pub timeouts: SchedulerTimeouts,
}

/// A provider with its permits.
pub struct ProviderConfig {
    /// The pool.
    pub provider: Arc<dyn EnvProvider>,
    /// Most environments of this kind at once; `None` for as many as the run has attempts.
    pub permits: Option<u32>,
}

impl From<Arc<dyn EnvProvider>> for ProviderConfig {
    fn from(provider: Arc<dyn EnvProvider>) -> Self {
        Self { provider, permits: None }
    }
}

/// Interrupt of a running run. Later variants are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Interrupt {
    /// Continue.
    #[default]
    None,
    /// Finish live attempts, start none (first Ctrl-C).
    Drain,
    /// Cancel live attempts; everything is closed and recorded as cancelled (second Ctrl-C).
    CancelAll,
}

/// A configuration that cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The plan's concurrency is 0.
    #[error("the plan's concurrency is 0")]
    NoConcurrency,
    /// Permits of a kind are 0.
    #[error("provider `{kind}` has 0 permits")]
    NoPermits {
        /// The kind.
        kind: &'static str,
    },
    /// No provider for an environment of the plan.
    #[error("no provider for environments of kind `{kind}`, which task `{task}` needs")]
    MissingProvider {
        /// The kind.
        kind: &'static str,
        /// The first task that needs it.
        task: String,
    },
    /// An open slot is not in the plan, or is listed twice.
    #[error("open slot {slot} is not in the plan, or is listed twice")]
    BadSlot {
        /// The slot.
        slot: SlotId,
    },
    /// A slot of the plan refers to a task or suite that is not there, or is not at its place.
    #[error("the plan is inconsistent at slot {slot}")]
    InconsistentPlan {
        /// The slot.
        slot: SlotId,
    },
}

/// Result of the validation: claims by slot, and the permits they compete for.
pub(crate) struct Claims {
    pub(crate) by_slot: Vec<Claim>,
    pub(crate) share: FairShare,
}

/// Validates a configuration once, so that the run does not have to.
pub(crate) fn check(config: &SchedulerConfig) -> Result<Claims, SetupError> {
    let plan = &config.plan;
    if plan.limits.concurrency == 0 {
        return Err(SetupError::NoConcurrency);
    }
    let (kinds, permits): (Vec<&'static str>, Vec<Option<u32>>) =
        config.providers.iter().map(|(&kind, config)| (kind, config.permits)).unzip();
    if let Some(at) = permits.iter().position(|&permits| permits == Some(0)) {
        return Err(SetupError::NoPermits { kind: kinds[at] });
    }
    let mut by_slot = Vec::with_capacity(plan.slots.len());
    for (position, slot) in plan.slots.iter().enumerate() {
        let inconsistent = SetupError::InconsistentPlan { slot: slot.id };
        if slot.id.0 as usize != position || slot.suite as usize >= plan.suites.len() {
            return Err(inconsistent);
        }
        let task = plan.tasks.get(slot.task.0 as usize).ok_or(inconsistent)?;
        let kind = task.env.kind();
        let at = kinds
            .binary_search(&kind)
            .map_err(|_| SetupError::MissingProvider { kind, task: task.id.to_string() })?;
        by_slot.push(Claim { suite: SuiteIndex(slot.suite as usize), kind: KindIndex(at) });
    }
    let mut seen = FxHashSet::default();
    for &slot in &config.open_slots {
        if slot.0 as usize >= by_slot.len() || !seen.insert(slot) {
            return Err(SetupError::BadSlot { slot });
        }
    }
    let weights: Vec<u32> = plan.suites.iter().map(|suite| suite.weight).collect();
    Ok(Claims { by_slot, share: FairShare::new(&weights, &permits, plan.limits.concurrency) })
}
