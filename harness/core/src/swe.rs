//! Software engineering tasks: a repository, an issue, and tests that say whether it is resolved.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{FixtureContent, FixtureFile, WorkspaceSpec};

/// Settings of a software engineering environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweSpec {
    /// The sandbox. Its files, if it has any, are the repository without its history.
    pub workspace: WorkspaceSpec,
    /// The commit that the issue was raised against, if the image has the repository. Otherwise the base commit is
    /// made from the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_commit: Option<String>,
    /// Unified diffs that belong to the base commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub apply: Vec<FixtureContent>,
    /// Commands for `bash -c` in the repository, before the base commit is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<String>,
    /// A line of bash before the agent's first command and before the tests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activate: Option<String>,
    /// The tests that decide.
    pub tests: TestSpec,
    /// Most characters of output an observation shows.
    pub observation_chars: u32,
}

/// The tests that decide, and how they are run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TestSpec {
    /// For `bash -c` in the repository.
    pub run: String,
    /// Parser of the test output.
    pub parser: LogParser,
    /// Laid over the repository once the agent is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FixtureFile>,
    /// A unified diff that is applied once the agent is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<FixtureContent>,
    /// They fail before the fix and pass with it.
    pub fail_to_pass: TestNames,
    /// They pass before the fix and have to pass still. Those of `fail_to_pass` in it do not count.
    pub pass_to_pass: TestNames,
    /// Patterns of paths that a submission cannot change, beyond those of the runner and of the tests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protected: Vec<String>,
    /// A run that takes longer has not passed.
    pub timeout: Duration,
    /// Map from test results to the score.
    pub score: TestScore,
}

/// Names of tests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestNames {
    /// In the plan itself.
    Inline(Vec<String>),
    /// In a file on the host, a JSON list, with the SHA-256 (hex) it had when the plan was made.
    Host {
        /// Absolute path.
        path: PathBuf,
        /// Hex SHA-256.
        sha256: String,
    },
}

/// Map from test results to the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestScore {
    /// 1 when every test is as it has to be, else 0.
    #[default]
    Resolved,
    /// The part of the tests that are.
    Fraction,
}

/// Test runner that wrote a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogParser {
    /// `pytest -rA` or `pytest -v`, also under xdist.
    Pytest,
    /// `python -m unittest -v`, and the runner of Django.
    Unittest,
    /// `cargo test`.
    Cargo,
    /// `go test -v`.
    Go,
    /// `jest --verbose`.
    Jest,
}
