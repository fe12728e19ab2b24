//! Environments that somebody else wrote: a program or a server that answers `reset`, `step` and `grade`.
//!
//! Units: `chars` are Unicode scalar values.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::WorkspaceSpec;

/// Settings of an environment that somebody else wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomSpec {
    /// Where it is and how it is spoken to.
    pub link: CustomLink,
    /// Handed to its reset as it is.
    pub config: Value,
    /// Most characters of its text that an observation shows.
    pub observation_chars: u32,
    /// Largest message that it may send.
    pub message_bytes: u32,
    /// Whether its author says that the same seed and the same calls give the same observations.
    pub deterministic: bool,
}

/// Where an environment is and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CustomLink {
    /// A program in a sandbox, one for each attempt: a message a line on its standard input and output.
    Process {
        /// Program and arguments, without a shell.
        command: Vec<String>,
        /// Its sandbox, with its files.
        workspace: Box<WorkspaceSpec>,
    },
    /// A server for many attempts at once, asked by POST.
    Http {
        /// Address, to which the names of the methods are appended.
        base_url: String,
    },
    /// A server that speaks as those of OpenEnv do.
    Openenv {
        /// Address without the `/ws`.
        base_url: String,
        /// What the rewards of its steps come to.
        score: RewardTotal,
    },
}

/// What the rewards of an episode's steps come to as its score, which is held within [0, 1].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardTotal {
    /// All together.
    #[default]
    Sum,
    /// The one of the last step that had one.
    Last,
}

impl CustomSpec {
    /// Name of the kind, as in suite files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.link {
            CustomLink::Process { .. } => "process",
            CustomLink::Http { .. } => "http",
            CustomLink::Openenv { .. } => "openenv",
        }
    }

    /// The sandbox, of a kind that has one.
    #[must_use]
    pub fn workspace(&self) -> Option<&WorkspaceSpec> {
        match &self.link {
            CustomLink::Process { workspace, .. } => Some(workspace),
            CustomLink::Http { .. } | CustomLink::Openenv { .. } => None,
        }
    }
}
