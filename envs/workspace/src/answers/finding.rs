//! Result of one check.

use std::fmt::Display;

use clawrl_core::{Boundary, CheckReport, CheckSpec, Fault, printable_line};

/// Maximum characters of a message (C4).
const MESSAGE_CHARS: usize = 200;

/// Score and reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// From 0 to 1.
    pub score: f64,
    /// One line.
    pub message: String,
}

impl Finding {
    /// The check passes.
    pub fn pass(message: impl Display) -> Self {
        Self { score: 1.0, message: printable_line(&message.to_string(), MESSAGE_CHARS) }
    }

    /// The check fails.
    pub fn fail(message: impl Display) -> Self {
        Self { score: 0.0, ..Self::pass(message) }
    }

    /// Passes or fails, with the same reason.
    pub fn of(passed: bool, message: impl Display) -> Self {
        if passed { Self::pass(message) } else { Self::fail(message) }
    }

    /// Converts it to a report of its check.
    #[must_use]
    pub fn report(self, spec: &CheckSpec) -> CheckReport {
        let Self { score, message } = self;
        CheckReport { label: spec.label.clone(), score, weight: spec.weight, message }
    }
}

/// C3. Suites are checked before they run, so this plan was made by another program.
pub fn check_invalid(reason: impl Display) -> Fault {
    Fault::permanent(Boundary::Grader, "check-invalid", format!("this check cannot be evaluated: {reason}"))
}
