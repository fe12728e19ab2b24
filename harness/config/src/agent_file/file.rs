//! The agent file exactly as written. The doc comments are the descriptions in the JSON schema, so they speak to authors
//! of agent files.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::bounds;
use crate::file::{Located, Text};

/// A program that plays the attempts of a run. A process of it is started for each attempt, as the user that runs clawrl
/// and with that user's rights.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ClawRL agent file")]
pub(crate) struct AgentFile {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = bounds::AGENT_FORMAT))]
    pub(crate) format: Located<i64>,
    /// The program and its arguments. It is looked for in `folder`, if it has a slash, and else in PATH.
    pub(crate) command: Located<Vec<Text>>,
    /// Where it is started, relative to this file. Default: the folder of this file.
    pub(crate) folder: Option<Text>,
    /// Names of environment variables that it is given as clawrl has them, such as PATH. It is given few others.
    #[serde(default)]
    pub(crate) env: Vec<Text>,
    /// The same for secrets: their values are struck out of all that is recorded, and they have to be set.
    #[serde(default)]
    pub(crate) secrets: Vec<Text>,
    /// How it asks for steps of its environment. Default: stdio.
    pub(crate) door: Option<DoorFile>,
    /// What answers at OPENAI_BASE_URL, in the words of `--policy`, with files relative to this one:
    /// `remote:policy.yaml`, `openai:MODEL`, `anthropic:MODEL`, `torch:DIR`, `cassette:FILE` or `random:FILE`. Default:
    /// nothing, for a program that has its own model.
    pub(crate) model: Option<Text>,
    /// What the program of an attempt may use up.
    pub(crate) limits: Option<LimitsFile>,
}

/// How a program asks for steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Door")]
pub(crate) enum DoorFile {
    /// Lines of JSON on its standard output, answered on its standard input.
    Stdio,
    /// The same in requests to CLAWRL_ENV_URL, for programs that use their standard output for something else.
    Http,
}

/// What the program of an attempt may use up.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AgentLimits")]
pub(crate) struct LimitsFile {
    /// Seconds from its start, after which what it has done is graded. Default: the limits of the task alone.
    #[schemars(range(min = 0.1, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) time_secs: Option<Located<f64>>,
    /// Answers of the model, after which it is refused any more. Default: 1000.
    #[schemars(range(min = 1, max = bounds::MAX_MODEL_CALLS))]
    pub(crate) model_calls: Option<Located<i64>>,
}
