//! Reasons for which two runs cannot be compared.

use clawrl_core::RunId;
use clawrl_gates::PairingError;
use clawrl_record::RecordError;
use thiserror::Error;

/// Reason for which two runs cannot be compared.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A run cannot be read; a damaged frame is named.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The runs have no common tasks.
    #[error(
        "runs {baseline} and {candidate} have no task in common: one is of {baseline_suites}, the other of {candidate_suites}"
    )]
    NoCommonTasks {
        /// The first run.
        baseline: RunId,
        /// The second one.
        candidate: RunId,
        /// Suites of the first.
        baseline_suites: String,
        /// Suites of the second.
        candidate_suites: String,
    },
    /// One run has no graded attempts yet.
    #[error("run {run} has no graded attempt to compare: {why}")]
    NothingGraded {
        /// The run.
        run: RunId,
        /// State of its attempts.
        why: String,
    },
    /// A record contains invalid values.
    #[error("{metric} cannot be compared: {source}")]
    Pairing {
        /// The metric.
        metric: String,
        /// Cause.
        source: PairingError,
    },
}
