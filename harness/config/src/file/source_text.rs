//! Texts that may be secrets, as written: a text, or the environment variable that holds it.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::located::Text;

/// A text, or where a secret is found.
#[derive(Debug, Clone)]
pub(crate) enum SourceTextFile {
    Literal(String),
    FromEnv(FromEnvFields),
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

impl<'de> Deserialize<'de> for SourceTextFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SourceVisitor;

        impl<'de> Visitor<'de> for SourceVisitor {
            type Value = SourceTextFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or `{ from_env: NAME }`")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(SourceTextFile::Literal(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(SourceTextFile::FromEnv)
            }
        }

        deserializer.deserialize_any(SourceVisitor)
    }
}

impl JsonSchema for SourceTextFile {
    fn schema_name() -> Cow<'static, str> {
        "SourceText".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A text, or for a secret the environment variable that holds it.",
            "oneOf": [{ "type": "string" }, generator.subschema_for::<FromEnvFields>()]
        })
    }
}
