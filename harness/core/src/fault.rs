//! Faults: something broke. Never a reward, never part of a baseline (I2).
//!
//! A limit that the agent ran into is a [`crate::StopReason`]; a choice of ours is a
//! [`crate::CancelReason`]. Only the rest is here.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Component that broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Boundary {
    /// An environment could not be provided: pool, sandbox, container, browser.
    Provider,
    /// A leased environment failed.
    Env,
    /// A tool behind an environment failed.
    Tool,
    /// Grading failed; the episode itself may have been fine.
    Grader,
    /// The policy failed to act.
    Policy,
    /// Our own code broke a rule. Only these end a run.
    Harness,
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Provider => "provider",
            Self::Env => "env",
            Self::Tool => "tool",
            Self::Grader => "grader",
            Self::Policy => "policy",
            Self::Harness => "harness",
        })
    }
}

/// A time limit. Each has its own clock and its own name in faults and stop reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Waiting for an environment after a slot was dispatched.
    Lease,
    /// Reset: files, setup commands, first observation.
    Setup,
    /// One step of the environment.
    Step,
    /// One reply of the policy.
    Policy,
    /// Grading.
    Grade,
    /// Closing.
    Close,
    /// The whole attempt, from the grant of the lease to the end of the last step.
    Attempt,
}

impl Limit {
    /// The key that sets it in a suite file.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Lease => "lease_timeout_secs",
            Self::Setup => "setup_timeout_secs",
            Self::Step => "step_timeout_secs",
            Self::Policy => "policy_timeout_secs",
            Self::Grade => "grade_timeout_secs",
            Self::Close => "close_timeout_secs",
            Self::Attempt => "attempt_timeout_secs",
        }
    }
}

/// Whether a retry with a fresh environment can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// The cause is outside the task: a fresh environment may do.
    Sound,
    /// A retry would fail in the same way.
    Never,
}

/// Something broke, where, and whether a retry is sound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{boundary} fault `{code}`: {message}")]
pub struct Fault {
    /// The component that broke.
    pub boundary: Boundary,
    /// Stable kebab-case name, for counting: `bwrap-missing`, `shell-lost`, `limit`.
    pub code: String,
    /// The time limit that fired, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The cause and, if known, the remedy. One paragraph for people.
    pub message: String,
    /// Whether a retry may help.
    pub retry: Retry,
}

impl Fault {
    /// A fault that a fresh environment may cure.
    #[must_use]
    pub fn transient(boundary: Boundary, code: &str, message: impl Into<String>) -> Self {
        Self { boundary, code: code.to_owned(), limit: None, message: message.into(), retry: Retry::Sound }
    }

    /// A fault that would come back.
    #[must_use]
    pub fn permanent(boundary: Boundary, code: &str, message: impl Into<String>) -> Self {
        Self { retry: Retry::Never, ..Self::transient(boundary, code, message) }
    }

    /// A time limit fired.
    #[must_use]
    pub fn limit(boundary: Boundary, limit: Limit, after: std::time::Duration) -> Self {
        let message = format!(
            "no result within {:.1} s; raise `{}` if it needs longer",
            after.as_secs_f64(),
            limit.key()
        );
        Self { limit: Some(limit), ..Self::transient(boundary, "limit", message) }
    }
}
