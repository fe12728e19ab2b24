//! Settings of a software engineering environment, as written.

use std::borrow::Cow;
use std::fmt;

use clawrl_core::{LogParser, TestScore};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::files::FilesFile;
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

/// Names of tests.
#[derive(Debug, Clone)]
pub(crate) enum NamesFile {
    List(Vec<Text>),
    From(NamesFrom),
}

/// Names of tests in a file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TestNamesFrom")]
pub(crate) struct NamesFrom {
    /// A file beside the suite: a JSON list of names.
    pub(crate) from: Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum ParserFile {
    Pytest,
    Unittest,
    Cargo,
    Go,
    Jest,
}

impl From<ParserFile> for LogParser {
    fn from(parser: ParserFile) -> Self {
        match parser {
            ParserFile::Pytest => Self::Pytest,
            ParserFile::Unittest => Self::Unittest,
            ParserFile::Cargo => Self::Cargo,
            ParserFile::Go => Self::Go,
            ParserFile::Jest => Self::Jest,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum ScoreFile {
    Resolved,
    Fraction,
}

impl From<ScoreFile> for TestScore {
    fn from(score: ScoreFile) -> Self {
        match score {
            ScoreFile::Resolved => Self::Resolved,
            ScoreFile::Fraction => Self::Fraction,
        }
    }
}

impl<'de> Deserialize<'de> for NamesFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamesVisitor;

        impl<'de> Visitor<'de> for NamesVisitor {
            type Value = NamesFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of names, or `{ from: FILE }`")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(NamesFile::List)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(NamesFile::From)
            }
        }

        deserializer.deserialize_any(NamesVisitor)
    }
}

impl JsonSchema for NamesFile {
    fn schema_name() -> Cow<'static, str> {
        "TestNames".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Names of tests: a list, or a map with the file that holds one.",
            "oneOf": [generator.subschema_for::<Vec<String>>(), generator.subschema_for::<NamesFrom>()]
        })
    }
}
