//! Checks, as written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::forms::two_forms;
use super::gui::{
    DownloadedFile, PageCookieFile, PageElementFile, PageRewardFile, PageScriptFile, PageStorageFile,
    PatternFile, RequestedFile,
};
use super::located::{JsonObject, Located, Scalar, Text};
use crate::bounds;
use crate::source::Span;

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
    /// The answer is exactly this.
    pub(crate) answer_equals: Option<Located<Scalar>>,
    /// The answer is this, when case, white space and punctuation at the ends are left aside.
    pub(crate) answer_normalised: Option<Located<Scalar>>,
    /// The answer is a number near this one.
    pub(crate) answer_number: Option<AnswerNumberFile>,
    /// The answer matches this regular expression somewhere.
    pub(crate) answer_matches: Option<Text>,
    /// The answer is a JSON document that this JSON schema accepts.
    pub(crate) answer_schema: Option<Located<Value>>,
    /// The answer is this list.
    pub(crate) answer_list: Option<AnswerListFile>,
    /// A command that gets the answer as standard input, in a fresh sandbox on a copy of the workspace.
    pub(crate) answer_command: Option<AnswerCommandFile>,
    /// A judge, which is a model that is named when a run starts, says that the answer meets this rubric.
    pub(crate) answer_rubric: Option<Text>,
    /// How often the judge of an `answer_rubric` is asked; the strict majority decides. Default: 3.
    #[schemars(range(min = 1, max = bounds::MAX_VOTES))]
    pub(crate) votes: Option<Located<i64>>,
    /// How often a tool was called.
    pub(crate) called: Option<CalledFile>,
    /// A tool that was never called.
    pub(crate) not_called: Option<Text>,
    /// Calls in this order, others in between allowed.
    pub(crate) called_in_order: Option<Located<Vec<Located<CallFile>>>>,
    /// All calls of the episode, against expected ones.
    pub(crate) calls_match: Option<Located<CallsMatchFile>>,
    /// What a store holds at the end.
    pub(crate) stored: Option<Located<StoredFile>>,
    /// What a script in the active page comes to.
    pub(crate) page_script: Option<PageScriptFile>,
    /// The page's own reward; between its two ends the score is its place between them.
    pub(crate) page_reward: Option<Located<PageRewardFile>>,
    /// Elements of the active page.
    pub(crate) page_element: Option<PageElementFile>,
    /// The address of the active page.
    pub(crate) page_url: Option<Located<PatternFile>>,
    /// What a site keeps in the browser.
    pub(crate) page_storage: Option<Located<PageStorageFile>>,
    /// A cookie.
    pub(crate) page_cookie: Option<Located<PageCookieFile>>,
    /// How often the sites were asked for something.
    pub(crate) requested: Option<Located<RequestedFile>>,
    /// A file that was downloaded.
    pub(crate) downloaded: Option<DownloadedFile>,
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

/// A number, plainly, or at the end after `####` or in `\boxed{}`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AnswerNumber")]
pub(crate) struct AnswerNumberFile {
    /// The number.
    pub(crate) expected: Located<Scalar>,
    /// Largest absolute difference that passes. Default: 0.
    pub(crate) tolerance: Option<Located<Scalar>>,
}

/// A JSON array, or entries between commas or line ends. Entries compare normalised.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AnswerList")]
pub(crate) struct AnswerListFile {
    /// The entries: a list, or a template that is one.
    pub(crate) expected: Located<Value>,
    /// Whether order counts. Default: false.
    #[serde(default)]
    pub(crate) ordered: bool,
}

/// A command run by `sh -c` after everything of the agent was stopped.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AnswerCommand")]
pub(crate) struct AnswerCommandFile {
    /// The command.
    pub(crate) run: Text,
    /// Expected exit code. Default: 0.
    #[schemars(range(min = 0, max = 255))]
    pub(crate) exit_code: Option<Located<i64>>,
    /// Its time limit. Default: 10, or the task's `grade_timeout_secs` if that is shorter.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) timeout_secs: Option<Located<f64>>,
}

/// Only calls that were run count, not refused ones.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Called")]
pub(crate) struct CalledFile {
    /// Name of the tool.
    pub(crate) tool: Text,
    /// Arguments that the call has at least. A string that is one `{{ expression }}` takes the type of the expression.
    pub(crate) arguments: Option<Located<JsonObject>>,
    /// Fewest calls that pass. Default: 1.
    #[schemars(range(min = 0, max = bounds::MAX_CALLS))]
    pub(crate) at_least: Option<Located<i64>>,
    /// Most calls that pass. Default: no limit.
    #[schemars(range(min = 0, max = bounds::MAX_CALLS))]
    pub(crate) at_most: Option<Located<i64>>,
}

two_forms! {
    /// A call that is looked for.
    enum CallFile as "Call" { Tool(String), Fields(CallFields) }
    expects "the name of a tool, or a map with `tool:`";
    described "A call that is looked for: the name of its tool, or a map.";
}

/// A call with arguments.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CallMap")]
pub(crate) struct CallFields {
    /// Name of the tool.
    pub(crate) tool: Text,
    /// Arguments that the call has at least. A string that is one `{{ expression }}` takes the type of the expression.
    pub(crate) arguments: Option<Located<JsonObject>>,
}

/// Every expected call is found by another call; `submit` is none of them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CallsMatch")]
pub(crate) struct CallsMatchFile {
    /// The calls; none with `exactly: true` for no call at all.
    pub(crate) calls: Located<Vec<ExpectedCallFile>>,
    /// Whether they stand in this order. Default: false.
    #[serde(default)]
    pub(crate) ordered: bool,
    /// Whether there may be no other call. Default: true.
    pub(crate) exactly: Option<bool>,
}

/// A call with these arguments and no others.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ExpectedCall")]
pub(crate) struct ExpectedCallFile {
    /// Name of the tool.
    pub(crate) tool: Text,
    /// What each argument may be. Default: the call has none.
    #[schemars(with = "Option<BTreeMap<String, ValuePatternFile>>")]
    pub(crate) arguments: Option<Located<JsonObject>>,
}

/// For the schema only: what is written is read as JSON, so that templates in it keep their types.
#[derive(JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "ValuePattern")]
#[expect(dead_code, reason = "read as JSON")]
pub(crate) enum ValuePatternFile {
    /// What it may be.
    Fields(ValuePatternFields),
    /// This value.
    Text(String),
    /// This value.
    Number(f64),
    /// This value.
    Bool(bool),
    /// This value.
    List(Vec<Value>),
}

#[derive(JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ValuePatternMap")]
#[expect(dead_code, reason = "read as JSON")]
pub(crate) struct ValuePatternFields {
    /// One of these values.
    any_of: Option<Vec<Value>>,
    /// An object: one of these maps from its keys to what is under them.
    any_object: Option<Vec<BTreeMap<String, ValuePatternFile>>>,
    /// A list: one of these lists of what its entries may be.
    any_list: Option<Vec<Vec<ValuePatternFile>>>,
    /// Whether it may be left out. Default: false.
    optional: Option<bool>,
    /// `loose`: texts compare in lower case, without spaces and `, . / - _ * ^`. Default: `exact`.
    text: Option<TextMatchFile>,
}

#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[expect(dead_code, reason = "read as JSON")]
pub(crate) enum TextMatchFile {
    Exact,
    Loose,
}

/// One of `equals` and `absent`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Stored")]
pub(crate) struct StoredFile {
    /// Name of the tool, which is a store.
    pub(crate) tool: Text,
    /// The key.
    pub(crate) key: Text,
    /// Its value.
    pub(crate) equals: Option<Located<Scalar>>,
    /// `true`: there is no such key.
    pub(crate) absent: Option<Located<bool>>,
}

impl CheckFile {
    /// Whether the check needs a sandbox.
    pub(crate) fn needs_sandbox(&self) -> bool {
        let kinds = self.kinds();
        let needs =
            |&(key, subject): &(&str, Subject)| subject == Subject::Workspace || key == "answer_command";
        kinds.iter().any(needs)
    }

    /// The given kinds, each with its subject; a valid check has exactly one.
    pub(crate) fn kinds(&self) -> Vec<(&'static str, Subject)> {
        macro_rules! given {
            ($($subject:ident: $($key:ident)*;)*) => {
                [$($((self.$key.is_some(), stringify!($key), Subject::$subject),)*)*]
            };
        }
        let kinds = given! {
            Workspace: file_equals file_contains file_matches file_absent file_mode file_owner tree_hash command;
            Processes: process;
            Workspace: json_value;
            Answer: answer_equals answer_normalised answer_number answer_matches answer_schema answer_list;
            Tools: answer_command;
            Answer: answer_rubric;
            Tools: called not_called called_in_order calls_match stored;
            Pages: page_script page_reward page_element page_url page_storage page_cookie requested downloaded;
        };
        kinds.into_iter().filter(|(given, ..)| *given).map(|(_, key, subject)| (key, subject)).collect()
    }
}

/// What a check asks about, which not every environment can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Files of the workspace.
    Workspace,
    /// Processes of the sandbox.
    Processes,
    /// The answer.
    Answer,
    /// Calls of tools, what a tool holds, and the answer as a file.
    Tools,
    /// Pages, what the browser keeps, and requests to sites.
    Pages,
}

impl Located<CallFile> {
    /// The tool's name, and its place.
    pub(crate) fn tool(call: &Self) -> (&str, Span) {
        match &call.value {
            CallFile::Tool(tool) => (tool, call.span),
            CallFile::Fields(fields) => (&fields.tool.value, fields.tool.span),
        }
    }
}
