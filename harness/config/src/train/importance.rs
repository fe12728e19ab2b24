//! The correction between the policy that sampled and the one that learns, as written: exactly one kind.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Unexpected, Visitor};

use super::plan::{IcePop, Importance};
use crate::file::Located;
use crate::numbers::Reals;
use crate::problem::{Finding, Findings};

/// The word `none`, or a map.
#[derive(Debug)]
pub(crate) enum ImportanceFile {
    None,
    Fields(ImportanceFields),
}

/// Exactly one kind. o is the log-probability that the learner computes before an update, b the one at sampling.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Importance")]
pub(crate) struct ImportanceFields {
    /// Each token weighs e^(o-b), at most this.
    #[schemars(range(min = 1.0))]
    token: Option<Located<f64>>,
    /// Each token weighs the product of those of its segment, at most this.
    #[schemars(range(min = 1.0))]
    sequence: Option<Located<f64>>,
    /// Each token weighs the geometric mean of those of its segment, at most this.
    #[schemars(range(min = 1.0))]
    geometric: Option<Located<f64>>,
    /// Each token weighs e^(o-b) if that lies between these, and nothing otherwise.
    ice_pop: Option<IcePopFile>,
}

/// The ends of what counts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "IcePop")]
struct IcePopFile {
    /// Below 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    low: Located<f64>,
    /// Above 1.
    #[schemars(range(min = 1.0))]
    high: Located<f64>,
}

const CAP: Reals = Reals { accepts: |cap| cap >= 1.0, words: "of 1 or more" };
const LOW: Reals = Reals { accepts: |low| low > 0.0 && low < 1.0, words: "above 0 and below 1" };
const HIGH: Reals = Reals { accepts: |high| high > 1.0, words: "above 1" };

impl<'de> Deserialize<'de> for ImportanceFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ImportanceVisitor;

        impl<'de> Visitor<'de> for ImportanceVisitor {
            type Value = ImportanceFile;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one kind of correction such as `{ token: 2 }`, or `none`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                if text == "none" {
                    return Ok(ImportanceFile::None);
                }
                Err(E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(ImportanceFile::Fields)
            }
        }

        deserializer.deserialize_any(ImportanceVisitor)
    }
}

impl JsonSchema for ImportanceFile {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ImportanceChoice".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [{ "const": "none" }, generator.subschema_for::<ImportanceFields>()] })
    }
}

/// The kind that is given, or the default.
pub(super) fn importance(
    findings: &mut Findings,
    file: Option<&Located<ImportanceFile>>,
    default: Importance,
) -> Importance {
    let Some(Located { value, span }) = file else { return default };
    let fields = match value {
        ImportanceFile::None => return Importance::None,
        ImportanceFile::Fields(fields) => fields,
    };
    let mut cap = |key: &str, number: &Located<f64>| findings.real(key, Some(number), &CAP, 2.0);
    match (&fields.token, &fields.sequence, &fields.geometric, &fields.ice_pop) {
        (Some(number), None, None, None) => Importance::Token(cap("token", number)),
        (None, Some(number), None, None) => Importance::Sequence(cap("sequence", number)),
        (None, None, Some(number), None) => Importance::Geometric(cap("geometric", number)),
        (None, None, None, Some(ends)) => Importance::IcePop(IcePop {
            low: findings.real("low", Some(&ends.low), &LOW, 0.5),
            high: findings.real("high", Some(&ends.high), &HIGH, 5.0),
        }),
        _ => {
            let message = "`importance` needs one kind of correction".to_owned();
            let help = "write one of `{ token: 2 }`, `{ sequence: 2 }`, `{ geometric: 2 }`, \
                        `{ ice_pop: { low: 0.5, high: 5 } }` and `none`";
            let label = "no kind, or more than one";
            findings.add(*span, Finding { message, label, help: help.to_owned() });
            default
        }
    }
}
