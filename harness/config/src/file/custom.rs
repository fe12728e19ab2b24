//! File form of the settings of custom environments.

use clawrl_core::RewardTotal;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::files::FilesFile;
use super::forms::words;
use super::image::ImageFile;
use super::located::{Entries, Located, Text};
use super::workspace::{NetworkFile, SandboxFile, with_workspace};
use crate::bounds;

with_workspace! {
    /// A program that answers `reset`, `step` and `grade`, a message a line; one in a sandbox for each attempt.
    #[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "ProcessEnv")]
    struct ProcessEnvFile {
        /// Program and arguments, run in the workspace without a shell. Required.
        command: Option<Located<Vec<Text>>>,
        /// Any JSON, handed to every reset. Default: nothing.
        config: Option<Located<Value>>,
        /// Most characters of its text that an observation shows. Default: 4000.
        #[schemars(range(min = bounds::MIN_OBSERVATION, max = bounds::MAX_OBSERVATION))]
        observation_chars: Option<Located<i64>>,
        /// Largest message that it may send. Default: 1024.
        #[schemars(range(min = 1, max = bounds::MAX_MESSAGE_KIB))]
        message_kib: Option<Located<i64>>,
        /// Whether the same seed and the same calls give the same observations; `clawrl env check` tries it. Default:
        /// false.
        deterministic: Option<bool>,
    }
}

/// A server that answers `reset`, `step` and `grade` of many attempts at once, each by POST.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "HttpEnv")]
pub(crate) struct HttpEnvFile {
    /// Address of the server, such as `http://127.0.0.1:9000`. Required.
    pub(crate) base_url: Option<Text>,
    /// Any JSON, handed to every reset. Default: nothing.
    pub(crate) config: Option<Located<Value>>,
    /// Most characters of its text that an observation shows. Default: 4000.
    #[schemars(range(min = bounds::MIN_OBSERVATION, max = bounds::MAX_OBSERVATION))]
    pub(crate) observation_chars: Option<Located<i64>>,
    /// Largest message that it may send. Default: 1024.
    #[schemars(range(min = 1, max = bounds::MAX_MESSAGE_KIB))]
    pub(crate) message_kib: Option<Located<i64>>,
    /// Whether the same seed and the same calls give the same observations; `clawrl env check` tries it. Default: false.
    pub(crate) deterministic: Option<bool>,
}

/// A server of OpenEnv.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Openenv")]
pub(crate) struct OpenenvFile {
    /// Address of the server without `/ws`, such as `http://127.0.0.1:8000`. Required.
    pub(crate) base_url: Option<Text>,
    /// What the rewards of the steps come to as a score, which is held within 0 and 1. Default: sum.
    pub(crate) score: Option<Located<RewardTotalFile>>,
    /// A map of further arguments of its reset. Default: nothing.
    pub(crate) config: Option<Located<Value>>,
    /// Most characters of its observation that are shown. Default: 4000.
    #[schemars(range(min = bounds::MIN_OBSERVATION, max = bounds::MAX_OBSERVATION))]
    pub(crate) observation_chars: Option<Located<i64>>,
    /// Largest message that it may send. Default: 1024.
    #[schemars(range(min = 1, max = bounds::MAX_MESSAGE_KIB))]
    pub(crate) message_kib: Option<Located<i64>>,
    /// Whether the same seed and the same calls give the same observations; `clawrl env check` tries it. Default: false.
    pub(crate) deterministic: Option<bool>,
}

/// An environment that is a Rust type of the program which runs the suite.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "InProcess")]
pub(crate) struct InProcessFile {
    /// Name under which the program registers the environment. Required.
    pub(crate) environment: Option<Text>,
    /// The task's data, a map that the environment reads. Default: empty.
    pub(crate) row: Option<Located<Value>>,
}

words! {
    /// What rewards come to.
    enum RewardTotalFile for RewardTotal {
        Sum,
        Last,
    }
}

impl HttpEnvFile {
    /// Fills missing keys from the defaults.
    pub(crate) fn or(self, defaults: &Self) -> Self {
        let below = defaults.clone();
        Self {
            base_url: self.base_url.or(below.base_url),
            config: self.config.or(below.config),
            observation_chars: self.observation_chars.or(below.observation_chars),
            message_kib: self.message_kib.or(below.message_kib),
            deterministic: self.deterministic.or(below.deterministic),
        }
    }
}

impl OpenenvFile {
    /// Fills missing keys from the defaults.
    pub(crate) fn or(self, defaults: &Self) -> Self {
        let below = defaults.clone();
        Self {
            base_url: self.base_url.or(below.base_url),
            score: self.score.or(below.score),
            config: self.config.or(below.config),
            observation_chars: self.observation_chars.or(below.observation_chars),
            message_kib: self.message_kib.or(below.message_kib),
            deterministic: self.deterministic.or(below.deterministic),
        }
    }
}

impl InProcessFile {
    /// This one, with what it leaves open taken from the defaults, key by key.
    pub(crate) fn or(self, defaults: &Self) -> Self {
        let below = defaults.clone();
        Self { environment: self.environment.or(below.environment), row: self.row.or(below.row) }
    }
}
