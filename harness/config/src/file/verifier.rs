//! Verifiers, as written.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RewardSourceFile {
    Files,
    ExitCode,
    Pytest,
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

/// A file or folder that is brought over.
#[derive(Debug, Clone)]
pub(crate) enum ArtifactFile {
    Path(String),
    Fields(ArtifactFields),
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

impl<'de> Deserialize<'de> for ArtifactFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ArtifactVisitor;

        impl<'de> Visitor<'de> for ArtifactVisitor {
            type Value = ArtifactFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an absolute path, or a map with `source:`")
            }

            fn visit_str<E>(self, path: &str) -> Result<Self::Value, E> {
                Ok(ArtifactFile::Path(path.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(ArtifactFile::Fields)
            }
        }

        deserializer.deserialize_any(ArtifactVisitor)
    }
}

impl JsonSchema for ArtifactFile {
    fn schema_name() -> Cow<'static, str> {
        "Artifact".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A file or folder that is brought over: its absolute path, or a map.",
            "oneOf": [{ "type": "string" }, generator.subschema_for::<ArtifactFields>()]
        })
    }
}
