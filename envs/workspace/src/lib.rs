//! Workspaces: the files that a task begins with, and how what an attempt left of them is graded.
//!
//! Knows sandboxes, checks and verifiers, and not what an agent does in between: environments that share nothing else
//! share this. [`grade`] keeps the order in which an agent cannot tamper; [`evaluate`] turns the evidence that an attempt
//! left into a grade.

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
