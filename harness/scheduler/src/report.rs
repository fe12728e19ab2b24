//! What a run says at its end.

use std::collections::BTreeMap;
use std::time::Duration;

use clawrl_core::{Boundary, Fault, Limit, SinkError, SlotId};

/// Most leftovers that are listed; of more, only the number goes to the log.
const LEFTOVERS_LISTED: usize = 1_000;

/// The end of a run. The record has the results; this has what they do not say.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// Why it ended.
    pub end: RunEnd,
    /// Slots that were open at the start.
    pub slots: u32,
    /// Of those, closed.
    pub closed: u32,
    /// Of the closed, passed.
    pub passed: u32,
    /// Of the closed, by a fault.
    pub faulted: u32,
    /// Attempts started.
    pub attempts: u32,
    /// Of those, retries.
    pub retries: u32,
    /// Attempts cancelled.
    pub cancelled: u32,
    /// Results that came after their attempt had been resolved without them.
    pub discarded: u32,
    /// Attempts taken from executors that gave no sign of life.
    pub reaped: u32,
    /// Turns that reached an environment.
    pub steps: u64,
    /// Slots that are still open, in plan order. A resume runs them.
    pub left_open: Vec<SlotId>,
    /// Of those, never wanted. 0 without [`crate::SchedulerConfig::demand`].
    pub withheld: u32,
    /// Faulted attempts by kind, retried ones included.
    pub faults: BTreeMap<FaultKind, u32>,
    /// What closing and shutting down could not remove, one sentence each.
    pub leftovers: Vec<String>,
    /// Executors that were still busy when the run gave up waiting for them.
    pub lost_executors: u32,
    /// Environments of all kinds, at most, at once (sum of the kinds' peaks).
    pub peak_environments: u32,
    /// From the start of the run to the end of the providers.
    pub elapsed: Duration,
}

impl RunReport {
    pub(crate) fn count_fault(&mut self, fault: &Fault) {
        let kind = FaultKind { boundary: fault.boundary, code: fault.code.clone(), limit: fault.limit };
        *self.faults.entry(kind).or_default() += 1;
    }

    pub(crate) fn note_leftovers(&mut self, leftovers: Vec<String>) {
        let room = LEFTOVERS_LISTED.saturating_sub(self.leftovers.len());
        let more = leftovers.len().saturating_sub(room);
        self.leftovers.extend(leftovers.into_iter().take(room));
        if more > 0 {
            tracing::warn!(more, "leftovers are no longer listed");
        }
    }
}

/// What faults are counted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultKind {
    /// Where it broke.
    pub boundary: Boundary,
    /// Stable name.
    pub code: String,
    /// The time limit that fired, if one did.
    pub limit: Option<Limit>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunEnd {
    /// Every slot is closed.
    #[default]
    Completed,
    /// No more was wanted ([`crate::Demand::closed`]): what ran has finished, other slots are open.
    Sated,
    /// It was asked to finish what ran and start nothing.
    Drained,
    /// It was asked to cancel what ran.
    Cancelled,
    /// The plan's number of faulted slots was reached.
    TooManyFaults,
    /// Our own code broke a rule; see [`RunError::Harness`].
    HarnessFault,
    /// Records could not be kept; see [`RunError::Sink`].
    SinkFailed,
}

/// A run that could not go on. Everything is closed all the same, and what was recorded is valid.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Records could not be kept.
    #[error("results can no longer be recorded: {source}")]
    Sink {
        /// What the sink said.
        source: SinkError,
        /// What was done until then.
        report: Box<RunReport>,
    },
    /// Our own code broke a rule.
    #[error("harness fault: {fault}")]
    Harness {
        /// The first one.
        fault: Fault,
        /// What was done until then.
        report: Box<RunReport>,
    },
}

impl RunError {
    /// What was done until the error.
    #[must_use]
    pub fn report(&self) -> &RunReport {
        match self {
            Self::Sink { report, .. } | Self::Harness { report, .. } => report,
        }
    }
}
