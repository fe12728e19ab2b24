//! Software engineering tasks: a repository, an issue, and tests that say whether it is resolved.
//!
//! So far: what the log of a test run says of each test, and what follows for a task. No environment yet.

mod resolution;
mod results;

pub use resolution::{ExpectedTests, Resolution, TestOutcome};
pub use results::{LogParser, TestResults, TestStatus};
