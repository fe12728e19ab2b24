//! Verifiers, as written.

use clawrl_core::RewardSource;
use schemars::JsonSchema;
use serde::Deserialize;

use super::forms::{two_forms, words};
use super::image::ImageFile;
use super::located::{Entries, Located, Text};
use super::workspace::NetworkFile;
use crate::bounds;

/// A program that grades once the agent is done.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Verifier")]
pub(crate) struct VerifierFile {
    /// A folder beside the suite, laid into /tests.
    pub(crate) files: Option<Text>,
    /// The command, for `sh -c` in the workspace. Default: `bash /tests/test.sh`.
    pub(crate) run: Option<Text>,
    /// Environment variables.
    pub(crate) vars: Option<Entries<Text>>,
    /// Its user. Default: the sandbox's own. Containers only.
    pub(crate) user: Option<Text>,
    /// How long it may take; longer is a fault, not a score. Default: 600.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) timeout_secs: Option<Located<f64>>,
    /// Its network. Default: none; in the agent's own container, the agent's.
    pub(crate) network: Option<Located<NetworkFile>>,
    /// Where it tells the score. `files`: /logs/verifier/reward.json, or else reward.txt. `exit_code`: 0 is 1, anything
    /// else 0. `pytest`: the short summary in its output. Default: files.
    pub(crate) reward: Option<RewardSourceFile>,
    /// Which key of reward.json is the score, where that is a map. Default: `reward`, or the only number in it.
    pub(crate) reward_key: Option<Text>,
    /// An environment apart from the agent's, which gets nothing of the agent's but artifacts.
    pub(crate) apart: Option<Located<ApartFile>>,
}

words! {
    enum RewardSourceFile for RewardSource {
        Files,
        ExitCode,
        Pytest,
    }
}

/// An environment of the verifier's own.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Apart")]
pub(crate) struct ApartFile {
    /// Its image. Default: the agent's.
    pub(crate) image: Option<Located<ImageFile>>,
    /// What it gets of the agent's environment.
    #[serde(default)]
    pub(crate) artifacts: Vec<Located<ArtifactFile>>,
    /// Commands in the agent's environment before it is ended. One that fails or takes too long is flagged.
    #[serde(default)]
    pub(crate) collect: Vec<CollectFile>,
}

two_forms! {
    /// A file or folder that is brought over.
    enum ArtifactFile as "Artifact" { Path(String), Fields(ArtifactFields) }
    expects "an absolute path, or a map with `source:`";
    described "A file or folder that is brought over: its absolute path, or a map.";
}

/// An artifact in full.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ArtifactMap")]
pub(crate) struct ArtifactFields {
    /// Absolute path in the agent's environment.
    pub(crate) source: Text,
    /// Absolute path in the verifier's. Default: the same.
    pub(crate) destination: Option<Text>,
    /// Names that stay behind, with `*` and `?`; with a `/`, paths from the source.
    #[serde(default)]
    pub(crate) exclude: Vec<Text>,
}

/// A command that readies artifacts.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Collect")]
pub(crate) struct CollectFile {
    /// The command, for `sh -c` in the workspace.
    pub(crate) run: Text,
    /// How long it may take. Default: 60.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) timeout_secs: Option<Located<f64>>,
}
