//! The result of one check, without its label and weight.

use std::fmt::Display;

use clawrl_core::{Boundary, CheckReport, CheckSpec, Fault, printable_line};
use clawrl_sandbox::{SafeReadError, TreeError};

/// Maximum characters of a message (I5).
const MESSAGE_CHARS: usize = 200;

/// Whether it passed, the reason, and flags for a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckOutcome {
    passed: bool,
    message: String,
    pub(super) flags: Vec<&'static str>,
}

impl CheckOutcome {
    pub(super) fn pass(message: impl Display) -> Self {
        Self { passed: true, message: printable_line(&message.to_string(), MESSAGE_CHARS), flags: Vec::new() }
    }

    pub(super) fn fail(message: impl Display) -> Self {
        Self { passed: false, ..Self::pass(message) }
    }

    pub(super) fn holds(&self) -> bool {
        self.passed
    }

    pub(super) fn flagged(mut self, flag: Option<&'static str>) -> Self {
        self.flags.extend(flag);
        self
    }

    pub(super) fn into_report(self, spec: &CheckSpec) -> CheckReport {
        CheckReport {
            label: spec.label.clone(),
            score: if self.passed { 1.0 } else { 0.0 },
            weight: spec.weight,
            message: self.message,
        }
    }
}

/// I2 for content that could not be read.
pub(super) fn read_failure(error: &SafeReadError) -> Result<CheckOutcome, Fault> {
    if !error.is_infrastructure() {
        return Ok(CheckOutcome::fail(error).flagged(error.flag()));
    }
    Err(match error {
        SafeReadError::NoOpenat2 => Fault::permanent(Boundary::Grader, "openat2-missing", error.to_string()),
        other => Fault::transient(Boundary::Grader, "workspace-unreadable", other.to_string()),
    })
}

/// I2 for a tree that could not be hashed or copied.
pub(super) fn walk_failure(error: &TreeError) -> Result<CheckOutcome, Fault> {
    match error {
        TreeError::Read(error) => read_failure(error),
        error if error.is_infrastructure() => {
            Err(copy_fault("workspace-copy-failed", error, error.to_string()))
        }
        error => Ok(CheckOutcome::fail(error).flagged(error.flag())),
    }
}

/// The fault for a copy that the machine prevented. A permanent obstacle is not retried.
pub(crate) fn copy_fault(code: &str, error: &TreeError, message: String) -> Fault {
    if error.is_lasting() {
        return Fault::permanent(Boundary::Grader, code, message);
    }
    Fault::transient(Boundary::Grader, code, message)
}

/// A check that cannot be evaluated for a workspace. Suites are checked before they run, so this plan was made by
/// another program.
pub(super) fn invalid(reason: impl Display) -> Fault {
    Fault::permanent(Boundary::Grader, "check-invalid", format!("this check cannot be evaluated: {reason}"))
}
