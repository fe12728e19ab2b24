//! Software engineering environment: a repository, an issue, and tests that say whether it is resolved.
//!
//! The agent works in a persistent shell of `clawrl-terminal`. What it leaves is compared with the repository's own
//! history where the agent has never been, laid over a fresh repository, and tested there.
//!
//! S1. No object, reference or log of the repository that came after the base commit is there when the agent begins.
//! S2. Nothing of the agent's is run, read as configuration or believed before its tree has become a list of changed
//! files: hooks, filters, configuration and history of its own stay behind. S3. Files that decide are as the task has
//! them, whatever the agent made of them; whoever touched them carries `tampered`. S4. What kept the tests from being
//! run is a fault or a score, by whose doing it was: never a score that nobody can explain.

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
