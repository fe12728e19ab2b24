//! Policies as a plan names them, agent programs included.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{RemoteSpec, RunId};

/// The acting policy of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PolicySpec {
    /// Submits at once. Must pass no task.
    Noop,
    /// Plays each task's oracle, then submits. Must pass every task.
    Oracle,
    /// Plays the oracle with this probability, in percent, else one of the task's mistakes.
    Demonstrator {
        /// 0 to 100.
        oracle_percent: u8,
    },
    /// Plays the calls of the same slots of a recorded run.
    Replay {
        /// The recorded run.
        run: RunId,
    },
    /// Draws each action from a list of texts, one a line of a file.
    Random {
        /// The lines.
        actions: Vec<String>,
    },
    /// A model on libtorch, with the parameters that are current while it acts.
    Torch {
        /// Folder of the model in the Hugging Face layout, as it was when the run began.
        path: PathBuf,
        /// Temperature in thousandths; 0 takes the most likely token each time.
        temperature_milli: u32,
        /// Tokens of a reply before it is cut.
        max_new_tokens: u32,
    },
    /// A model behind a server.
    Remote(Box<RemoteSpec>),
    /// Plays recorded replies to equal requests. Never calls a model.
    Cassette {
        /// The file, absolute.
        path: PathBuf,
        /// Hex SHA-256 of its bytes.
        sha256: String,
        /// The recorded policy.
        recorded: Box<PolicySpec>,
    },
    /// A program of the user's own, started for each attempt.
    Agent(Box<AgentSpec>),
    /// A Rust value of the program that made the run.
    InProcess {
        /// Name that the program gave it.
        name: String,
    },
}

impl PolicySpec {
    /// The policy whose replies are used: the recorded policy of a cassette; the model of an agent program, if ClawRL provides
    /// it.
    #[must_use]
    pub fn speaker(&self) -> &Self {
        match self {
            Self::Cassette { recorded, .. } => recorded.speaker(),
            Self::Agent(agent) => agent.model.as_deref().map_or(self, Self::speaker),
            other => other,
        }
    }
}

/// A program of the user's own that plays the attempts of a run, one process for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Working directory: an absolute path.
    pub folder: PathBuf,
    /// Names of variables that it is given as the harness has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The same, with redacted values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// How the program requests steps.
    pub door: AgentDoor,
    /// The model behind the program's endpoint; `None` if the program brings its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<PolicySpec>>,
    /// Limits of one process.
    pub limits: AgentLimits,
}

/// How a program requests steps of its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentDoor {
    /// Lines on its standard output, answered on its standard input.
    #[default]
    Stdio,
    /// Requests over HTTP, to an address in its environment.
    Http,
}

/// Limits of an attempt's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// From its start; then the attempt is graded. `None`: the limits of the task apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// Answers of the model.
    pub model_calls: u32,
}
