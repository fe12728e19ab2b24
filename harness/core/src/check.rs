//! Checks of a task, and the map from score to reward.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{AnswerCheck, CallPattern, ExpectedCall, PageCheck};

/// A check with its place in the grade.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckSpec {
    /// Shown in reports.
    pub label: String,
    /// Weight in the mean.
    pub weight: f64,
    /// The check itself.
    pub check: Check,
}

/// A check. Paths are relative to the workspace; symbolic links are never followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Check {
    /// The file's bytes are exactly these.
    FileEquals {
        /// Relative path.
        path: String,
        /// All of the content.
        expected: String,
    },
    /// The file contains this text.
    FileContains {
        /// Relative path.
        path: String,
        /// The text.
        text: String,
    },
    /// The file's text matches this regular expression somewhere.
    FileMatches {
        /// Relative path.
        path: String,
        /// In the syntax of the `regex` crate.
        regex: String,
    },
    /// Nothing is at this path.
    FileAbsent {
        /// Relative path.
        path: String,
    },
    /// The permission bits are exactly these.
    FileMode {
        /// Relative path.
        path: String,
        /// For example 0o644.
        mode: u32,
    },
    /// The owner, as seen inside the sandbox.
    FileOwner {
        /// Relative path.
        path: String,
        /// User id inside the sandbox.
        uid: u32,
    },
    /// Hash over names, kinds, modes' executable bits, contents and link targets of a folder.
    TreeHash {
        /// Relative path of a folder; `.` for the workspace.
        path: String,
        /// Hex SHA-256, as `clawrl validate` prints it.
        sha256: String,
    },
    /// A command run by `sh -c` in a fresh sandbox on a copy of the workspace.
    Command {
        /// The command.
        run: String,
        /// Expected exit code.
        exit_code: i32,
        /// Expected standard output, exactly.
        stdout_equals: Option<String>,
        /// Text that standard output contains.
        stdout_contains: Option<String>,
        /// Time limit of the command.
        timeout: Duration,
    },
    /// A probe of the live sandbox, before processes are stopped: processes whose command line matches.
    Process {
        /// Over the command line, arguments joined by spaces.
        regex: String,
        /// Whether at least one process must match, or none may.
        running: bool,
    },
    /// A value inside a JSON file.
    JsonValue {
        /// Relative path.
        path: String,
        /// JSON pointer (RFC 6901).
        pointer: String,
        /// Expected value; numbers compare by value.
        equals: serde_json::Value,
    },
    /// The submitted answer.
    Answer(AnswerCheck),
    /// A command run by `sh -c` in a fresh sandbox on a copy of the workspace, with the answer as standard input.
    AnswerCommand {
        /// The command.
        run: String,
        /// Expected exit code.
        exit_code: i32,
        /// Time limit of the command.
        timeout: Duration,
    },
    /// A judge says that the answer meets a rubric. No answer meets any.
    Rubric {
        /// The rubric that the answer has to meet.
        rubric: String,
        /// Votes to be cast; the strict majority decides.
        votes: u32,
    },
    /// The calls of the whole episode, `submit` left aside, against expected ones; each of these is found by another call.
    CallsMatch {
        /// The expected calls.
        calls: Vec<ExpectedCall>,
        /// Whether the matching calls must come in this order.
        ordered: bool,
        /// Whether other calls, of any tool, are forbidden.
        exactly: bool,
    },
    /// Number of calls of a tool.
    Called {
        /// The calls that count.
        call: CallPattern,
        /// Fewest that pass.
        at_least: u32,
        /// Most that pass.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at_most: Option<u32>,
    },
    /// Calls in this order, others in between allowed. The score is the part of them that was found, from the first on.
    CalledInOrder {
        /// The calls, in order.
        calls: Vec<CallPattern>,
    },
    /// State of the browser's pages, checked before the browser is closed.
    Page(PageCheck),
    /// Final value in a store tool.
    Stored {
        /// Name of the tool.
        tool: String,
        /// The key.
        key: String,
        /// Expected value; `None` if the key must not exist.
        equals: Option<String>,
    },
}

/// From score in [0, 1] to reward: `scale * score + offset`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RewardMap {
    /// Factor.
    pub scale: f64,
    /// Summand.
    pub offset: f64,
}

impl Default for RewardMap {
    /// -1 to 1.
    fn default() -> Self {
        Self { scale: 2.0, offset: -1.0 }
    }
}

impl RewardMap {
    /// Applies the map.
    #[must_use]
    pub fn apply(self, score: f64) -> f64 {
        self.scale * score + self.offset
    }
}
