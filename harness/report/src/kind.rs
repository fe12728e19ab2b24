//! How an attempt ended, as the page sorts and filters by it.

use clawrl_core::{CancelReason, StopReason};
use clawrl_record::{AttemptSummary, Ending};
use serde::Serialize;

/// In reading order: faulted attempts first, passed ones last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Something broke.
    Faulted,
    /// Graded, and some check did not pass.
    Failed,
    /// We chose to stop it.
    Cancelled,
    /// Graded, and every check passed.
    Passed,
}

impl Kind {
    /// Kind of an attempt.
    #[must_use]
    pub(crate) fn of(summary: &AttemptSummary) -> Self {
        match summary.ending {
            Ending::Faulted { .. } => Self::Faulted,
            Ending::Finished { passed: true, .. } => Self::Passed,
            Ending::Finished { .. } => Self::Failed,
            Ending::Cancelled(_) => Self::Cancelled,
        }
    }

    /// Name in filters.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Faulted => "fault",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Passed => "passed",
        }
    }
}

/// A stop reason in words.
#[must_use]
pub fn stop_text(stop: &StopReason) -> String {
    match stop {
        StopReason::Submitted => "submitted".to_owned(),
        StopReason::Ended(reason) => format!("ended by the environment: {reason}"),
        StopReason::MaxTurns => "truncated: all turns used".to_owned(),
        StopReason::TimeLimit(limit) => format!("truncated: {}", limit.key()),
        StopReason::MalformedActions => "truncated: malformed actions".to_owned(),
    }
}

/// Why we stopped it, in words.
#[must_use]
pub fn cancel_text(reason: CancelReason) -> &'static str {
    match reason {
        CancelReason::Interrupted => "interrupted",
        CancelReason::GroupAbandoned => "its group was given up",
        CancelReason::RunEnded => "the run ended",
    }
}
