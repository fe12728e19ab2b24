//! A checked row of a suite: everything resolved but the templates.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    ActionFormat, FixtureFile, NetworkPolicy, RewardMap, RewardSource, SandboxKind, SandboxLimits, Timeouts,
};
use serde_json::Value as Json;

use crate::draw::Variable;
use crate::file::Text;
use crate::fixture::HostFile;
use crate::source::Span;

/// One entry of `tasks:`.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: Text,
    pub(crate) variables: Vec<Variable>,
    pub(crate) lets: Vec<(String, Text)>,
    pub(crate) instances: Instances,
    pub(crate) instruction: Text,
    pub(crate) terminal: TerminalRow,
    pub(crate) checks: Vec<CheckRow>,
    pub(crate) verifier: Option<VerifierRow>,
    pub(crate) oracle: Option<ScriptRow>,
    pub(crate) mistakes: Vec<ScriptRow>,
    pub(crate) settings: Settings,
}

/// How many tasks a row makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instances {
    /// No template: one task without index.
    Plain,
    /// Every combination in natural order; this many. 0 only while a template with a problem is checked.
    All(usize),
    /// This many, drawn by seed.
    Drawn(usize),
}

impl Instances {
    pub(crate) fn count(self) -> usize {
        match self {
            Self::Plain => 1,
            Self::All(count) | Self::Drawn(count) => count,
        }
    }
}

/// What needs no rendering.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) group_size: u32,
    pub(crate) max_turns: u32,
    pub(crate) action_format: ActionFormat,
    pub(crate) reward: RewardMap,
    pub(crate) timeouts: Timeouts,
}

/// A terminal environment.
#[derive(Debug)]
pub(crate) struct TerminalRow {
    pub(crate) shell: Option<Text>,
    pub(crate) files: FilesRow,
    pub(crate) setup: Vec<Text>,
    pub(crate) vars: Vec<(Text, Text)>,
    pub(crate) size: (u16, u16),
    pub(crate) idle: Duration,
    pub(crate) observation_chars: u32,
    pub(crate) sandbox: SandboxKind,
    pub(crate) limits: SandboxLimits,
    pub(crate) network: NetworkPolicy,
    pub(crate) image: Option<ImageRow>,
}

/// A root file system.
#[derive(Debug)]
pub(crate) struct ImageRow {
    pub(crate) source: ImageSourceRow,
    pub(crate) workdir: Option<Text>,
    pub(crate) user: Option<Text>,
}

#[derive(Debug)]
pub(crate) enum ImageSourceRow {
    Name(Text),
    Build { context: PathBuf, dockerfile: String, timeout: Duration },
    Rootfs(PathBuf),
}

/// A program that grades.
#[derive(Debug)]
pub(crate) struct VerifierRow {
    pub(crate) files: Arc<[FixtureFile]>,
    pub(crate) run: Text,
    pub(crate) vars: Vec<(Text, Text)>,
    pub(crate) user: Option<Text>,
    pub(crate) timeout: Duration,
    pub(crate) network: NetworkPolicy,
    pub(crate) reward: RewardSource,
    pub(crate) apart: Option<ApartRow>,
}

/// A verifier's own environment.
#[derive(Debug)]
pub(crate) struct ApartRow {
    pub(crate) image: Option<ImageRow>,
    pub(crate) artifacts: Vec<ArtifactRow>,
    pub(crate) collect: Vec<CollectRow>,
}

#[derive(Debug)]
pub(crate) struct ArtifactRow {
    pub(crate) source: Text,
    pub(crate) destination: Option<Text>,
    pub(crate) exclude: Vec<Text>,
}

#[derive(Debug)]
pub(crate) struct CollectRow {
    pub(crate) run: Text,
    pub(crate) timeout: Duration,
}

/// Files of the workspace.
#[derive(Debug)]
pub(crate) enum FilesRow {
    /// Copied as they are, shared by all rows that name the folder.
    Folder(Arc<[FixtureFile]>),
    /// One by one.
    Map(Vec<FileRow>),
}

#[derive(Debug)]
pub(crate) struct FileRow {
    pub(crate) path: Text,
    pub(crate) source: FileSource,
    pub(crate) mode: Option<Text>,
}

#[derive(Debug)]
pub(crate) enum FileSource {
    Content(Text),
    Host(HostFile),
}

/// A check with its place in the grade.
#[derive(Debug)]
pub(crate) struct CheckRow {
    pub(crate) label: Option<Text>,
    pub(crate) weight: f64,
    pub(crate) kind: CheckKind,
}

#[derive(Debug)]
pub(crate) enum CheckKind {
    FileEquals { path: Text, expected: Text },
    FileContains { path: Text, text: Text },
    FileMatches { path: Text, regex: Text },
    FileAbsent { path: Text },
    FileMode { path: Text, mode: Text },
    FileOwner { path: Text, uid: u32 },
    TreeHash { path: Text, sha256: Text },
    Command(CommandRow),
    Process { regex: Text, running: bool },
    JsonValue { path: Text, pointer: Text, equals: Json, span: Span },
}

#[derive(Debug)]
pub(crate) struct CommandRow {
    pub(crate) run: Text,
    pub(crate) exit_code: i32,
    pub(crate) stdout_equals: Option<Text>,
    pub(crate) stdout_contains: Option<Text>,
    pub(crate) timeout: Duration,
}

/// Actions in order.
#[derive(Debug)]
pub(crate) struct ScriptRow {
    pub(crate) actions: Vec<ActionRow>,
}

#[derive(Debug)]
pub(crate) enum ActionRow {
    Run(Text),
    Type(Text),
    Keys(Text),
    Wait(f64),
    Signal(Text),
    Submit(Option<Text>),
}

impl Row {
    /// Visits every string that may be a template, with its place. Ids are none.
    pub(crate) fn each_text<'s>(&'s self, visit: &mut dyn FnMut(&'s str, Span)) {
        let mut text = |text: &'s Text| visit(&text.value, text.span);
        self.lets.iter().for_each(|(_, value)| text(value));
        text(&self.instruction);
        self.terminal.each_text(&mut text);
        self.verifier.iter().for_each(|verifier| verifier.each_text(&mut text));
        for script in self.oracle.iter().chain(&self.mistakes) {
            script.actions.iter().filter_map(ActionRow::text).for_each(&mut text);
        }
        for check in &self.checks {
            check.label.iter().for_each(&mut text);
            check.kind.each_text(&mut text);
        }
        for check in &self.checks {
            if let CheckKind::JsonValue { equals, span, .. } = &check.kind {
                each_string(equals, &mut |string| visit(string, *span));
            }
        }
    }
}

impl TerminalRow {
    fn each_text<'s>(&'s self, text: &mut dyn FnMut(&'s Text)) {
        self.shell.iter().chain(&self.setup).for_each(&mut *text);
        self.image.iter().for_each(|image| image.each_text(text));
        for (name, value) in &self.vars {
            text(name);
            text(value);
        }
        if let FilesRow::Map(files) = &self.files {
            for file in files {
                text(&file.path);
                file.mode.iter().for_each(&mut *text);
                if let FileSource::Content(content) = &file.source {
                    text(content);
                }
            }
        }
    }
}

impl ImageRow {
    fn each_text<'s>(&'s self, text: &mut dyn FnMut(&'s Text)) {
        if let ImageSourceRow::Name(name) = &self.source {
            text(name);
        }
        self.workdir.iter().chain(&self.user).for_each(text);
    }
}

impl VerifierRow {
    fn each_text<'s>(&'s self, text: &mut dyn FnMut(&'s Text)) {
        text(&self.run);
        for (name, value) in &self.vars {
            text(name);
            text(value);
        }
        self.user.iter().for_each(&mut *text);
        let Some(apart) = &self.apart else { return };
        apart.image.iter().for_each(|image| image.each_text(text));
        for artifact in &apart.artifacts {
            text(&artifact.source);
            artifact.destination.iter().chain(&artifact.exclude).for_each(&mut *text);
        }
        apart.collect.iter().for_each(|collect| text(&collect.run));
    }
}

impl CheckKind {
    fn each_text<'s>(&'s self, text: &mut dyn FnMut(&'s Text)) {
        match self {
            Self::FileEquals { path, expected: other }
            | Self::FileContains { path, text: other }
            | Self::FileMatches { path, regex: other }
            | Self::FileMode { path, mode: other }
            | Self::TreeHash { path, sha256: other }
            | Self::JsonValue { path, pointer: other, .. } => {
                text(path);
                text(other);
            }
            Self::FileAbsent { path } | Self::FileOwner { path, .. } => text(path),
            Self::Process { regex, .. } => text(regex),
            Self::Command(command) => {
                text(&command.run);
                command.stdout_equals.iter().chain(&command.stdout_contains).for_each(text);
            }
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
        }
    }
}

impl ActionRow {
    fn text(&self) -> Option<&Text> {
        match self {
            Self::Run(text) | Self::Type(text) | Self::Keys(text) | Self::Signal(text) => Some(text),
            Self::Submit(answer) => answer.as_ref(),
            Self::Wait(_) => None,
        }
    }
}

impl ScriptRow {
    /// Turns that it takes, with the submit that a scripted policy adds.
    pub(crate) fn turns(&self) -> usize {
        let submits = matches!(self.actions.last(), Some(ActionRow::Submit(_)));
        self.actions.len() + usize::from(!submits)
    }
}

/// Visits every string inside a JSON value, keys left out.
fn each_string<'s>(value: &'s Json, visit: &mut dyn FnMut(&'s str)) {
    match value {
        Json::String(string) => visit(string),
        Json::Array(values) => values.iter().for_each(|value| each_string(value, visit)),
        Json::Object(map) => map.values().for_each(|value| each_string(value, visit)),
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}
