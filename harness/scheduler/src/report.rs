//! The report at the end of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use clawrl_core::{Boundary, Fault, Limit, SinkError, SlotId};

/// Most leftovers that are listed; of more, only the number goes to the log.
const LEFTOVERS_LISTED: usize = 1_000;

/// The end of a run. It complements the results in the record.
#[derive(Debug, Clone, Default)]
pub struct RunReport {
    /// Why it ended.
    pub end: RunEnd,
    /// Slots that were open at the start.
    pub slots: u32,
    /// Slots that were closed.
    pub closed: u32,
    /// Closed slots that passed.
    pub passed: u32,
    /// Slots closed by a fault.
    pub faulted: u32,
    /// Attempts started.
    pub attempts: u32,
    /// Attempts that were retries.
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
    /// Open slots that were never in demand. 0 without [`crate::SchedulerConfig::demand`].
    pub withheld: u32,
    /// Faulted attempts by kind, retried ones included.
    pub faults: BTreeMap<FaultKind, u32>,
    /// Leftovers of closing and shutting down, one sentence each.
    pub leftovers: Vec<String>,
    /// Executors that were still busy when the run gave up waiting for them.
    pub lost_executors: u32,
    /// Maximum number of environments of all kinds at once (sum of the kinds' peaks).
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
            tracing::warn!(more, "further leftovers are not listed");
        }
    }
}

/// Key for counting faults.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultKind {
    /// Boundary of the fault.
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
    /// The demand was closed ([`crate::Demand::closed`]): live attempts finished, other slots are open.
    DemandClosed,
    /// Drained on request: live attempts finished, no others started.
    Drained,
    /// Cancelled on request.
    Cancelled,
    /// The plan's number of faulted slots was reached.
    TooManyFaults,
    /// Our own code broke a rule; see [`RunError::Harness`].
    HarnessFault,
    /// Records could not be kept; see [`RunError::Sink`].
    SinkFailed,
}

/// A run that had to stop. Everything is closed all the same, and recorded results are valid.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Records could not be kept.
    #[error("failed to record results: {source}")]
    Sink {
        /// The error of the sink.
        source: SinkError,
        /// Report up to the error.
        report: Box<RunReport>,
    },
    /// Our own code broke a rule.
    #[error("harness fault: {fault}")]
    Harness {
        /// The first one.
        fault: Fault,
        /// Report up to the error.
        report: Box<RunReport>,
    },
}

impl RunError {
    /// Report up to the error.
    #[must_use]
    pub fn report(&self) -> &RunReport {
        match self {
            Self::Sink { report, .. } | Self::Harness { report, .. } => report,
        }
    }
}
