//! Settings of a software engineering environment, as written.

use clawrl_core::{LogParser, TestScore};
use schemars::JsonSchema;
use serde::Deserialize;

use super::files::FilesFile;
use super::forms::{two_forms, words};
use super::image::ImageFile;
use super::located::{Entries, Located, Text};
use super::workspace::{NetworkFile, SandboxFile, with_workspace};
use crate::bounds;

with_workspace! {
    /// A repository with an issue, and tests that decide. Its `files` are the repository without its history.
    #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "Swe")]
    struct SweFile {
        /// The commit that the issue was raised against, in an image that has the repository in its `workdir`. Default:
        /// a commit of what is in the workspace.
        base_commit: Option<Text>,
        /// Unified diffs beside the suite that belong to the base commit, in this order.
        apply: Option<Vec<Text>>,
        /// Commands for `bash -c` in the repository before the base commit is made, for the agent as for the tests. One
        /// that fails is a setup fault.
        setup: Option<Vec<Text>>,
        /// A line of bash before the agent's first command and before the tests.
        activate: Option<Text>,
        /// The command that runs the tests, for `bash -c` in the repository.
        test: Option<Text>,
        /// The runner that it starts.
        parser: Option<ParserFile>,
        /// Files laid over the repository once the agent is done: a folder beside the suite, or a map of paths to contents.
        /// The agent sees none of them, and cannot change them.
        test_files: Option<Located<FilesFile>>,
        /// A unified diff beside the suite that is applied once the agent is done. What it touches the agent cannot change.
        test_patch: Option<Text>,
        /// Tests that fail before the fix and pass with it.
        fail_to_pass: Option<Located<NamesFile>>,
        /// Tests that pass before the fix and have to pass still. Those of `fail_to_pass` in it do not count.
        pass_to_pass: Option<Located<NamesFile>>,
        /// Patterns of paths, from the repository's root, that a submission cannot change: `*`, `**` and `?`. What it
        /// changed there is restored, and it is flagged. Files of the runner and of the tests are always protected.
        protected: Option<Vec<Text>>,
        /// How long the tests may run; longer has not passed. Default: 600.
        #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
        test_timeout_secs: Option<Located<f64>>,
        /// `resolved`: 1 when every test is as it has to be. `fraction`: the part of them that is. Default: resolved.
        score: Option<ScoreFile>,
        /// Most characters of output that an observation shows. Default: 10000.
        #[schemars(range(min = bounds::MIN_OBSERVATION, max = bounds::MAX_OBSERVATION))]
        observation_chars: Option<Located<i64>>,
    }
}

two_forms! {
    /// Names of tests.
    enum NamesFile as "TestNames" { List(Vec<Text>), From(NamesFrom) }
    expects "a list of names, or `{ from: FILE }`";
    described "Names of tests: a list, or a map with the file that holds one.";
}

/// Names of tests in a file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TestNamesFrom")]
pub(crate) struct NamesFrom {
    /// A file beside the suite: a JSON list of names.
    pub(crate) from: Text,
}

words! {
    enum ParserFile for LogParser {
        Pytest,
        Unittest,
        Cargo,
        Go,
        Jest,
    }
}

words! {
    enum ScoreFile for TestScore {
        Resolved,
        Fraction,
    }
}
