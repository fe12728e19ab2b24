//! Sequences of actions, as written: oracles and mistakes.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

use super::located::{JsonObject, Located, Text};
use crate::bounds;

/// Actions in order, each one turn.
#[derive(Debug, Clone)]
pub(crate) enum ScriptFile {
    Commands(Vec<Text>),
    Fields(ScriptFields),
}

/// One of `commands`, `actions`, `patch` and `solver`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScriptMap")]
pub(crate) struct ScriptFields {
    /// Shell commands, each one turn. Where there is a shell only.
    pub(crate) commands: Option<Vec<Text>>,
    /// Actions of any kind, each one turn.
    pub(crate) actions: Option<Vec<Located<ActionFile>>>,
    /// A unified diff beside the suite that is handed in. Software engineering tasks only.
    pub(crate) patch: Option<Text>,
    /// A program that plays, from what it sees: `miniwob` solves pages of MiniWoB++, `random-click` clicks one element,
    /// drawn by lot. Where there is a browser only.
    pub(crate) solver: Option<Text>,
}

/// One action: exactly one kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Action")]
pub(crate) struct ActionFile {
    /// Runs a command.
    pub(crate) run: Option<Text>,
    /// Types text, with no newline added.
    pub(crate) text: Option<Text>,
    /// Presses keys by name, separated by spaces: `C-c`, `Enter`, `Escape`, `Up`, `F1`, `a`.
    pub(crate) keys: Option<Text>,
    /// Waits for this many seconds.
    #[schemars(range(min = 0.001, max = bounds::MAX_WAIT_SECS))]
    pub(crate) wait: Option<Located<f64>>,
    /// Sends a signal to the foreground job: INT, TERM, KILL, TSTP, CONT or QUIT.
    pub(crate) signal: Option<Text>,
    /// Calls a tool of a tool-call environment.
    pub(crate) call: Option<CallActionFile>,
    /// Ends the episode, with an answer if there is one.
    #[serde(default, deserialize_with = "submit")]
    pub(crate) submit: Option<SubmitFile>,
}

/// A call of a tool.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CallAction")]
pub(crate) struct CallActionFile {
    /// Name of the tool.
    pub(crate) name: Text,
    /// Its arguments. A string that is one `{{ expression }}` takes the type of the expression. Default: none.
    pub(crate) arguments: Option<Located<JsonObject>>,
}

/// The answer of a submit.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(inline)]
pub(crate) struct SubmitFile(#[schemars(with = "Option<String>")] pub(crate) Option<Text>);

fn submit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SubmitFile>, D::Error> {
    Ok(Some(SubmitFile(Option::deserialize(deserializer)?)))
}

impl<'de> Deserialize<'de> for ScriptFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScriptVisitor;

        impl<'de> Visitor<'de> for ScriptVisitor {
            type Value = ScriptFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a list of commands, or a map with `commands:`, `actions:`, `patch:` or `solver:`",
                )
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(seq)).map(ScriptFile::Commands)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(ScriptFile::Fields)
            }
        }

        deserializer.deserialize_any(ScriptVisitor)
    }
}

impl JsonSchema for ScriptFile {
    fn schema_name() -> Cow<'static, str> {
        "Script".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Actions in order, each one turn: a list of commands, or a map with `commands`, `actions`, `patch` or `solver`.",
            "oneOf": [generator.subschema_for::<Vec<String>>(), generator.subschema_for::<ScriptFields>()]
        })
    }
}
