//! Custom environments: a program or a server that answers `reset`, `step` and `grade`.
//!
//! Units: `chars` are Unicode scalar values.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::WorkspaceSpec;

/// Settings of a custom environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CustomSpec {
    /// The connection to the environment.
    pub link: CustomLink,
    /// Configuration passed to `reset` unchanged.
    pub config: Value,
    /// Most characters of its text that an observation shows.
    pub observation_chars: u32,
    /// Largest message that it may send.
    pub message_bytes: u32,
    /// Whether the author declares that equal seeds and calls give equal observations.
    pub deterministic: bool,
}

/// The connection to a custom environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CustomLink {
    /// A program in a sandbox, one for each attempt: a message a line on its standard input and output.
    Process {
        /// Program and arguments, without a shell.
        command: Vec<String>,
        /// The sandbox of the program, with its files.
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
        /// Map from step rewards to the score.
        score: RewardTotal,
    },
}

/// Map from the step rewards of an episode to its score, clamped to [0, 1].
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
