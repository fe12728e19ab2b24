//! A tool-call environment.

use std::time::Duration;

use super::served::{McpRow, SourceRow, sources};
use super::step_reward::{StepEventRow, StepRewardRow};
use super::terminal::WorkspaceRow;
use super::text::{JsonText, Visit, pairs, texts};
use crate::file::Text;

/// Tools that are called with arguments.
#[derive(Debug)]
pub(crate) struct ToolcallRow {
    pub(crate) tools: Vec<ToolRow>,
    pub(crate) mcp: Vec<McpRow>,
    /// What was written, or the default where a sandbox is needed.
    pub(crate) workspace: Option<WorkspaceRow>,
    /// Whether a sandbox is started at all.
    pub(crate) needs_sandbox: bool,
    pub(crate) observation_chars: u32,
    pub(crate) max_parallel_calls: u32,
    pub(crate) step_rewards: Vec<StepRewardRow>,
}

/// A tool of a task.
#[derive(Debug)]
pub(crate) struct ToolRow {
    /// Never a template: checks and scripts name it.
    pub(crate) name: Text,
    pub(crate) description: Option<Text>,
    /// `None` for kinds that have their own, and where a problem was found.
    pub(crate) parameters: Option<JsonText>,
    pub(crate) text_argument: Option<Text>,
    pub(crate) kind: ToolKindRow,
    pub(crate) timeout: Duration,
    pub(crate) max_calls: Option<u32>,
}

#[derive(Debug)]
pub(crate) enum ToolKindRow {
    Python,
    Command {
        argv: Vec<Text>,
        stdin: Option<Text>,
    },
    Table {
        rows: Vec<(Text, Text)>,
        missing: Option<Text>,
    },
    Store {
        initial: Vec<(Text, Text)>,
    },
    Arithmetic,
    /// No templates but in headers.
    Http {
        allow: Vec<String>,
        methods: Vec<String>,
        headers: Vec<(Text, SourceRow)>,
        allow_headers: Vec<String>,
    },
    Returns(Text),
    Fails(Text),
    Never,
}

impl ToolcallRow {
    /// The tool of this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolRow> {
        self.tools.iter().find(|tool| tool.name.value == name)
    }

    /// Whether a tool runs in a sandbox.
    pub(crate) fn runs_programs(&self) -> bool {
        let programs =
            |tool: &ToolRow| matches!(tool.kind, ToolKindRow::Python | ToolKindRow::Command { .. });
        self.tools.iter().any(programs) || self.mcp.iter().any(McpRow::is_program)
    }

    /// Whether a server may turn out to have a tool of this name.
    pub(crate) fn may_be_served(&self, name: &str) -> bool {
        self.mcp.iter().any(|server| server.may_offer(name))
    }

    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        self.tools.iter().for_each(|tool| tool.each_text(visit));
        self.mcp.iter().for_each(|server| server.each_text(visit));
        self.workspace.iter().for_each(|workspace| workspace.each_text(visit));
        for entry in &self.step_rewards {
            if let StepEventRow::Called(call) = &entry.event {
                call.each_text(visit);
            }
        }
    }
}

impl ToolRow {
    fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        texts(self.description.iter().chain(&self.text_argument), visit);
        self.parameters.iter().for_each(|parameters| parameters.each_text(visit));
        match &self.kind {
            ToolKindRow::Command { argv, stdin } => texts(argv.iter().chain(stdin), visit),
            ToolKindRow::Table { rows, missing } => {
                pairs(rows, visit);
                texts(missing, visit);
            }
            ToolKindRow::Store { initial } => pairs(initial, visit),
            ToolKindRow::Http { headers, .. } => sources(headers, visit),
            ToolKindRow::Returns(text) | ToolKindRow::Fails(text) => texts([text], visit),
            ToolKindRow::Python | ToolKindRow::Arithmetic | ToolKindRow::Never => {}
        }
    }
}

impl ToolKindRow {
    /// The key in the suite file.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Command { .. } => "command",
            Self::Table { .. } => "table",
            Self::Store { .. } => "store",
            Self::Arithmetic => "arithmetic",
            Self::Http { .. } => "http",
            Self::Returns(_) => "returns",
            Self::Fails(_) => "fails",
            Self::Never => "never",
        }
    }
}
