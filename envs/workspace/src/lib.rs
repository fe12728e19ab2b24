//! Workspaces: a task's initial files, and grading of the result.
//!
//! This crate handles sandboxes, checks and verifiers, but not the agent's actions, so that different environments
//! share it. [`grade`] keeps an order in which an agent cannot tamper; [`evaluate`] turns the evidence of an attempt
//! into a grade.

mod answers;
mod checks;
mod fixtures;
mod fresh;
mod grade;
mod schema;
mod verifier;

pub use answers::{Finding, JudgeContext, JudgeReports, check_answer, check_invalid};
pub use checks::{
    Answer, CheckLimits, CommandEnd, CommandError, CommandOutput, CommandRequest, CommandRunner, Evidence,
    UidMap, equal_json, evaluate, quote,
};
pub use fixtures::FixtureReader;
pub use fresh::{FreshSandboxes, refuse_lost};
pub use grade::{GradeRequest, grade};
pub use schema::{Schema, SchemaCache};
