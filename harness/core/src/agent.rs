//! Agent programs as policies: what is started for each attempt, and what it is given.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::PolicySpec;

/// A program of the user's own that plays the attempts of a run, one process for each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it is started: an absolute path.
    pub folder: PathBuf,
    /// Names of variables that it is given as the harness has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// The same, whose values are redacted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// How it asks for steps.
    pub door: AgentDoor,
    /// What answers when it asks a model; `None` for a program that has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Box<PolicySpec>>,
    /// How long it may go on.
    pub limits: AgentLimits,
}

/// How a program asks for steps of its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentDoor {
    /// Lines on its standard output, answered on its standard input.
    #[default]
    Stdio,
    /// Requests over HTTP, to an address in its environment.
    Http,
}

/// What an attempt's program may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLimits {
    /// From its start; then what it has done is graded. `None` leaves it to the limits of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Duration>,
    /// Answers of the model.
    pub model_calls: u32,
}
