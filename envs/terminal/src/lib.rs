//! Terminal environment: tasks in a persistent sandboxed shell.
//!
//! Grading stands apart from running: [`evaluate`] turns the evidence that an attempt left into a grade.

mod checks;

pub use checks::{
    CheckLimits, CommandEnd, CommandError, CommandOutput, CommandRequest, CommandRunner, Evidence, UidMap,
    evaluate,
};
