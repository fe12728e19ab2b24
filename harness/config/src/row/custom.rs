//! Environments that somebody else wrote.

use clawrl_core::RewardTotal;

use super::terminal::WorkspaceRow;
use super::text::{JsonText, Visit, texts};
use crate::file::Text;

/// An environment that somebody else wrote.
#[derive(Debug)]
pub(crate) struct CustomRow {
    pub(crate) link: CustomLinkRow,
    pub(crate) config: Option<JsonText>,
    pub(crate) observation_chars: u32,
    pub(crate) message_bytes: u32,
    pub(crate) deterministic: bool,
}

/// Where it is. An address is missing only where that was a problem.
#[derive(Debug)]
pub(crate) enum CustomLinkRow {
    Process { command: Vec<Text>, workspace: Box<WorkspaceRow> },
    Http { base_url: Option<Text> },
    Openenv { base_url: Option<Text>, score: RewardTotal },
}

impl CustomRow {
    /// The key in the suite file.
    pub(crate) fn key(&self) -> &'static str {
        match &self.link {
            CustomLinkRow::Process { .. } => "process",
            CustomLinkRow::Http { .. } => "http",
            CustomLinkRow::Openenv { .. } => "openenv",
        }
    }

    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        self.config.iter().for_each(|config| config.each_text(visit));
        match &self.link {
            CustomLinkRow::Process { command, workspace } => {
                texts(command, visit);
                workspace.each_text(visit);
            }
            CustomLinkRow::Http { base_url } | CustomLinkRow::Openenv { base_url, .. } => {
                texts(base_url, visit);
            }
        }
    }
}
