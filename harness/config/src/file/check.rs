//! Checks, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::located::{Located, Text};
use crate::bounds;

/// One check: exactly one kind, and optionally a label and a weight. Paths are relative to the workspace.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Check")]
pub(crate) struct CheckFile {
    /// The file's content is exactly this.
    pub(crate) file_equals: Option<FileEqualsFile>,
    /// The file contains this text.
    pub(crate) file_contains: Option<FileContainsFile>,
    /// The file matches this regular expression somewhere.
    pub(crate) file_matches: Option<FileMatchesFile>,
    /// Nothing is at this path.
    pub(crate) file_absent: Option<FileAbsentFile>,
    /// The permission bits are exactly these.
    pub(crate) file_mode: Option<FileModeFile>,
    /// The owner is this user.
    pub(crate) file_owner: Option<FileOwnerFile>,
    /// A hash over a whole folder.
    pub(crate) tree_hash: Option<TreeHashFile>,
    /// A command in a fresh sandbox on a copy of the workspace.
    pub(crate) command: Option<CommandFile>,
    /// A process runs, or none does, at the end of the episode.
    pub(crate) process: Option<ProcessFile>,
    /// A value inside a JSON file.
    pub(crate) json_value: Option<JsonValueFile>,
    /// Shown in reports. Default: the kind and its subject.
    pub(crate) label: Option<Text>,
    /// Weight in the mean that is the score. Default: 1.
    #[schemars(range(min = 0.0))]
    pub(crate) weight: Option<Located<f64>>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FileEquals")]
pub(crate) struct FileEqualsFile {
    /// The file.
    pub(crate) path: Text,
    /// All of its content. End it with "\n" if the file ends its last line.
    pub(crate) expected: Text,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FileContains")]
pub(crate) struct FileContainsFile {
    /// The file.
    pub(crate) path: Text,
    /// A text that is somewhere in it.
    pub(crate) text: Text,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FileMatches")]
pub(crate) struct FileMatchesFile {
    /// The file.
    pub(crate) path: Text,
    /// A regular expression in the syntax of Rust's regex crate. Quote it with single quotes.
    pub(crate) regex: Text,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FileAbsent")]
pub(crate) struct FileAbsentFile {
    /// Where nothing may be.
    pub(crate) path: Text,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FileMode")]
pub(crate) struct FileModeFile {
    /// The file.
    pub(crate) path: Text,
    /// Permission bits in octal, for example "0644".
    pub(crate) mode: Text,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FileOwner")]
pub(crate) struct FileOwnerFile {
    /// The file.
    pub(crate) path: Text,
    /// User id as seen inside the sandbox.
    #[schemars(range(min = 0, max = bounds::MAX_UID))]
    pub(crate) uid: Located<i64>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TreeHash")]
pub(crate) struct TreeHashFile {
    /// The folder; `.` for the workspace.
    pub(crate) path: Text,
    /// Hex SHA-256, as `clawrl validate` prints it.
    pub(crate) sha256: Text,
}

/// A command run by `sh -c` after everything of the agent was stopped.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Command")]
pub(crate) struct CommandFile {
    /// The command.
    pub(crate) run: Text,
    /// Expected exit code. Default: 0.
    #[schemars(range(min = 0, max = 255))]
    pub(crate) exit_code: Option<Located<i64>>,
    /// Standard output is exactly this.
    pub(crate) stdout_equals: Option<Text>,
    /// Standard output contains this.
    pub(crate) stdout_contains: Option<Text>,
    /// Its time limit. Default: 10, or the task's `grade_timeout_secs` if that is shorter.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) timeout_secs: Option<Located<f64>>,
}

/// Looked up in the sandbox before anything is stopped.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Process")]
pub(crate) struct ProcessFile {
    /// A regular expression over the command line, arguments joined by spaces.
    pub(crate) regex: Text,
    /// Whether one must be there (the default) or none may be.
    pub(crate) running: Option<bool>,
}

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "JsonValue")]
pub(crate) struct JsonValueFile {
    /// The file.
    pub(crate) path: Text,
    /// A JSON pointer (RFC 6901): "" for the whole file, "/a/0" for the first entry of `a`.
    pub(crate) pointer: Text,
    /// The expected value. A string that is one `{{ expression }}` takes the type of the expression.
    pub(crate) equals: Located<serde_json::Value>,
}
