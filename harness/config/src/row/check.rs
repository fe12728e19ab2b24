//! Checks.

use std::time::Duration;

use super::gui::PageCheckRow;
use super::text::{JsonText, Visit, texts};
use crate::file::Text;

/// A check with its place in the grade.
#[derive(Debug)]
pub(crate) struct CheckRow {
    pub(crate) label: Option<Text>,
    pub(crate) weight: f64,
    pub(crate) kind: CheckKind,
}

#[derive(Debug)]
pub(crate) enum CheckKind {
    FileEquals {
        path: Text,
        expected: Text,
    },
    FileContains {
        path: Text,
        text: Text,
    },
    FileMatches {
        path: Text,
        regex: Text,
    },
    FileAbsent {
        path: Text,
    },
    FileMode {
        path: Text,
        mode: Text,
    },
    FileOwner {
        path: Text,
        uid: u32,
    },
    TreeHash {
        path: Text,
        sha256: Text,
    },
    Command(CommandRow),
    Process {
        regex: Text,
        running: bool,
    },
    JsonValue {
        path: Text,
        pointer: Text,
        equals: JsonText,
    },
    AnswerEquals(Text),
    AnswerNormalised(Text),
    AnswerNumber {
        expected: Text,
        tolerance: Option<Text>,
    },
    AnswerMatches(Text),
    AnswerSchema(JsonText),
    AnswerList {
        expected: JsonText,
        ordered: bool,
    },
    AnswerCommand(CommandRow),
    AnswerRubric {
        rubric: Text,
        votes: u32,
    },
    Called {
        call: CallRow,
        at_least: u32,
        at_most: Option<u32>,
    },
    NotCalled(Text),
    CalledInOrder(Vec<CallRow>),
    /// The arguments of a call are patterns, as written.
    CallsMatch {
        calls: Vec<CallRow>,
        ordered: bool,
        exactly: bool,
    },
    Stored {
        tool: Text,
        key: Text,
        equals: Option<Text>,
    },
    Page(Box<PageCheckRow>),
}

#[derive(Debug)]
pub(crate) struct CommandRow {
    pub(crate) run: Text,
    pub(crate) exit_code: i32,
    pub(crate) stdout_equals: Option<Text>,
    pub(crate) stdout_contains: Option<Text>,
    pub(crate) timeout: Duration,
}

/// A call that is looked for.
#[derive(Debug)]
pub(crate) struct CallRow {
    /// Never a template.
    pub(crate) tool: Text,
    /// An object.
    pub(crate) arguments: Option<JsonText>,
}

/// What a check asks about, which not every environment can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// What is in the workspace.
    Workspace,
    /// What runs in the sandbox.
    Processes,
    /// The answer.
    Answer,
    /// Calls of tools, what a tool holds, and the answer as a file.
    Tools,
    /// Pages, what the browser keeps, and what sites were asked.
    Pages,
}

impl CheckKind {
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        match self {
            Self::FileEquals { path, expected: other }
            | Self::FileContains { path, text: other }
            | Self::FileMatches { path, regex: other }
            | Self::FileMode { path, mode: other }
            | Self::TreeHash { path, sha256: other } => texts([path, other], visit),
            Self::JsonValue { path, pointer, equals } => {
                texts([path, pointer], visit);
                equals.each_text(visit);
            }
            Self::FileAbsent { path } | Self::FileOwner { path, .. } => texts([path], visit),
            Self::Process { regex, .. } => texts([regex], visit),
            Self::Command(command) | Self::AnswerCommand(command) => {
                texts([&command.run], visit);
                texts(command.stdout_equals.iter().chain(&command.stdout_contains), visit);
            }
            Self::AnswerEquals(text)
            | Self::AnswerNormalised(text)
            | Self::AnswerMatches(text)
            | Self::AnswerRubric { rubric: text, .. } => texts([text], visit),
            Self::AnswerNumber { expected, tolerance } => {
                texts(std::iter::once(expected).chain(tolerance), visit);
            }
            Self::AnswerSchema(json) | Self::AnswerList { expected: json, .. } => json.each_text(visit),
            Self::Called { call, .. } => call.each_text(visit),
            Self::NotCalled(_) => {}
            Self::CalledInOrder(calls) | Self::CallsMatch { calls, .. } => {
                calls.iter().for_each(|call| call.each_text(visit))
            }
            Self::Page(check) => check.each_text(visit),
            Self::Stored { key, equals, .. } => texts(std::iter::once(key).chain(equals), visit),
        }
    }

    /// The key in the suite file.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::FileEquals { .. } => "file_equals",
            Self::FileContains { .. } => "file_contains",
            Self::FileMatches { .. } => "file_matches",
            Self::FileAbsent { .. } => "file_absent",
            Self::FileMode { .. } => "file_mode",
            Self::FileOwner { .. } => "file_owner",
            Self::TreeHash { .. } => "tree_hash",
            Self::Command(_) => "command",
            Self::Process { .. } => "process",
            Self::JsonValue { .. } => "json_value",
            Self::AnswerEquals(_) => "answer_equals",
            Self::AnswerNormalised(_) => "answer_normalised",
            Self::AnswerNumber { .. } => "answer_number",
            Self::AnswerMatches(_) => "answer_matches",
            Self::AnswerSchema(_) => "answer_schema",
            Self::AnswerList { .. } => "answer_list",
            Self::AnswerCommand(_) => "answer_command",
            Self::AnswerRubric { .. } => "answer_rubric",
            Self::Called { .. } => "called",
            Self::NotCalled(_) => "not_called",
            Self::CalledInOrder(_) => "called_in_order",
            Self::CallsMatch { .. } => "calls_match",
            Self::Stored { .. } => "stored",
            Self::Page(check) => check.key(),
        }
    }

    /// What it asks about.
    pub(crate) fn subject(&self) -> Subject {
        match self {
            Self::FileEquals { .. }
            | Self::FileContains { .. }
            | Self::FileMatches { .. }
            | Self::FileAbsent { .. }
            | Self::FileMode { .. }
            | Self::FileOwner { .. }
            | Self::TreeHash { .. }
            | Self::Command(_)
            | Self::JsonValue { .. } => Subject::Workspace,
            Self::Process { .. } => Subject::Processes,
            Self::AnswerEquals(_)
            | Self::AnswerNormalised(_)
            | Self::AnswerNumber { .. }
            | Self::AnswerMatches(_)
            | Self::AnswerSchema(_)
            | Self::AnswerList { .. }
            | Self::AnswerRubric { .. } => Subject::Answer,
            Self::AnswerCommand(_)
            | Self::Called { .. }
            | Self::NotCalled(_)
            | Self::CalledInOrder(_)
            | Self::CallsMatch { .. }
            | Self::Stored { .. } => Subject::Tools,
            Self::Page(_) => Subject::Pages,
        }
    }

    /// Whether a sandbox is needed to answer it.
    pub(crate) fn needs_sandbox(&self) -> bool {
        self.subject() == Subject::Workspace || matches!(self, Self::AnswerCommand(_))
    }
}

impl CallRow {
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        self.arguments.iter().for_each(|arguments| arguments.each_text(visit));
    }
}
