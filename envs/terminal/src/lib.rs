//! Terminal environment: tasks in a persistent sandboxed shell.
//!
//! [`TerminalProvider`] is the pool; each environment drives one shell, and is graded where the agent cannot
//! tamper. Grading stands apart from running: [`evaluate`] turns the evidence that an attempt left into a grade.

mod checks;
mod env;
mod fixtures;
mod grading;
mod observe;
mod provider;
mod tools;
mod verifier;

pub use checks::{
    CheckLimits, CommandEnd, CommandError, CommandOutput, CommandRequest, CommandRunner, Evidence, UidMap,
    evaluate,
};
pub use provider::{TerminalConfig, TerminalProvider};
