//! Texts that may be secrets, as written: a text, or the environment variable that holds it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::forms::two_forms;
use super::located::Text;

two_forms! {
    /// A text, or where a secret is found.
    enum SourceTextFile as "SourceText" { Literal(String), FromEnv(FromEnvFields) }
    expects "a text, or `{ from_env: NAME }`";
    described "A text, or for a secret the environment variable that holds it.";
}

/// A secret that the environment of `clawrl` holds.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FromEnv")]
pub(crate) struct FromEnvFields {
    /// Name of the environment variable. It is read when a run starts, and stands in no plan and no record.
    pub(crate) from_env: Text,
    /// Stands before its value, such as `"Bearer "`. Default: nothing.
    pub(crate) prefix: Option<Text>,
}
