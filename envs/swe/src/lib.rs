//! Software engineering environment: a repository, an issue, and tests that decide whether it is resolved.
//!
//! The agent works in a persistent shell of `clawrl-terminal`. Its tree is compared with the repository's own history
//! in a sandbox that the agent never used; the changes are applied to a fresh repository, and tested there.
//!
//! S1. When the agent starts, the repository has no object, reference or log from after the base commit.
//! S2. Nothing of the agent is run, read as configuration or trusted before its tree has become a list of changed
//! files: its hooks, filters, configuration and history stay behind.
//! S3. Deciding files are restored to the task's versions, whatever the agent made of them; an attempt that touched
//! them is flagged `tampered`.
//! S4. If the tests could not be run, the result is a fault or a score, depending on the cause, and never an
//! unexplained score.

mod editing;
mod env;
mod expected;
mod grading;
mod imports;
mod prepare;
mod protection;
mod provider;
mod repository;
mod resolution;
mod results;
mod runner_config;
mod submission;
mod suspicion;
mod test_command;
mod tools;

pub use clawrl_core::LogParser;
pub use provider::{SweConfig, SweProvider};
pub use resolution::{ExpectedTests, Resolution, TestOutcome};
pub use results::{TestResults, TestStatus};
