//! One entry of `tasks:`.

use clawrl_core::{ActionFormat, RewardMap, Timeouts};

use super::check::CheckRow;
use super::custom::CustomRow;
use super::gui::GuiRow;
use super::script::ScriptRow;
use super::swe::SweRow;
use super::terminal::TerminalRow;
use super::text::texts;
use super::toolcall::ToolcallRow;
use super::verifier::VerifierRow;
use crate::draw::Variable;
use crate::file::Text;
use crate::source::Span;

/// One entry of `tasks:`.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: Text,
    pub(crate) variables: Vec<Variable>,
    pub(crate) lets: Vec<(String, Text)>,
    pub(crate) instances: Instances,
    pub(crate) instruction: Text,
    pub(crate) env: EnvRow,
    pub(crate) checks: Vec<CheckRow>,
    pub(crate) verifier: Option<VerifierRow>,
    pub(crate) oracle: Option<ScriptRow>,
    pub(crate) mistakes: Vec<ScriptRow>,
    pub(crate) settings: Settings,
}

/// The environment of a task.
#[derive(Debug)]
pub(crate) enum EnvRow {
    Terminal(TerminalRow),
    Swe(Box<SweRow>),
    Toolcall(ToolcallRow),
    Gui(Box<GuiRow>),
    Custom(CustomRow),
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

impl Row {
    /// Visits every string that may be a template, with its place. Ids and names of tools are none.
    pub(crate) fn each_text<'s>(&'s self, visit: &mut dyn FnMut(&'s str, Span)) {
        texts(self.lets.iter().map(|(_, value)| value).chain([&self.instruction]), visit);
        match &self.env {
            EnvRow::Terminal(terminal) => terminal.each_text(visit),
            EnvRow::Swe(swe) => swe.each_text(visit),
            EnvRow::Toolcall(toolcall) => toolcall.each_text(visit),
            EnvRow::Gui(gui) => gui.each_text(visit),
            EnvRow::Custom(custom) => custom.each_text(visit),
        }
        self.verifier.iter().for_each(|verifier| verifier.each_text(visit));
        self.oracle.iter().chain(&self.mistakes).for_each(|script| script.each_text(visit));
        for check in &self.checks {
            texts(&check.label, visit);
            check.kind.each_text(visit);
        }
    }
}
