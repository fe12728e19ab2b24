//! Sources of the values of template variables.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::forms::two_forms;
use super::located::{Located, Scalar};

two_forms! {
    /// A list that templates draw from.
    enum NamedListFile as "NamedList" { Literal(Vec<Located<Scalar>>), Elsewhere(ListFields) }
    expects "a list of values, `lines:` and a text file, or `rows:` and a JSONL file";
    described "A named list: its values, a text file with one value a line, or a JSONL file with one object a line.";
}

/// A list in a file of the suite's folder: one of `lines` and `rows`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ListMap")]
pub(crate) struct ListFields {
    /// A text file: one entry a line, empty lines left out.
    pub(crate) lines: Option<Located<String>>,
    /// A JSONL file: one object a line, all with the same keys. A variable `row` then has `{{ row.key }}`.
    pub(crate) rows: Option<Located<String>>,
}

two_forms! {
    /// What a variable may be.
    enum ChoiceFile as "Choice" { Literal(Vec<Located<Scalar>>), Fields(Box<ChoiceFields>) }
    expects "a list of choices, or `from:`, `range:` or `sample:`";
    described "What a variable may be: one of a list, of a named list, of a range of whole numbers, or several entries of a named list.";
}

/// One of `from`, `range` and `sample`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ChoiceMap")]
pub(crate) struct ChoiceFields {
    /// Name of a list under `vars`; the variable is one of its entries.
    pub(crate) from: Option<Located<String>>,
    /// Smallest and largest whole number, both included.
    #[schemars(length(equal = 2))]
    pub(crate) range: Option<Located<Vec<Located<i64>>>>,
    /// Several distinct entries of a list; the variable is a list.
    pub(crate) sample: Option<SampleFields>,
    /// Variables of this template whose values this one must not take.
    #[serde(default)]
    pub(crate) distinct_from: Vec<Located<String>>,
}

/// Several distinct entries of a list, in random order.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SampleMap")]
pub(crate) struct SampleFields {
    /// Name of a list under `vars`.
    pub(crate) from: Located<String>,
    /// Fewest and most entries, both included.
    #[schemars(length(equal = 2))]
    pub(crate) count: Located<Vec<Located<i64>>>,
}

/// How many tasks a template makes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum InstancesFile {
    Count(i64),
    All,
}

impl<'de> Deserialize<'de> for InstancesFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InstancesVisitor;

        impl Visitor<'_> for InstancesVisitor {
            type Value = InstancesFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or `all`")
            }

            fn visit_i64<E>(self, count: i64) -> Result<Self::Value, E> {
                Ok(InstancesFile::Count(count))
            }

            fn visit_u64<E>(self, count: u64) -> Result<Self::Value, E> {
                Ok(InstancesFile::Count(i64::try_from(count).unwrap_or(i64::MAX)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                if text == "all" {
                    return Ok(InstancesFile::All);
                }
                Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(InstancesVisitor)
    }
}

impl JsonSchema for InstancesFile {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Instances".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [
            { "type": "integer", "minimum": 1, "maximum": crate::bounds::MAX_INSTANCES },
            { "const": "all" }
        ] })
    }
}
