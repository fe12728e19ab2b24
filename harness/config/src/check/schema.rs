//! JSON schemas of arguments and answers from suites: compiled once, then used to validate values.
//!
//! I1. Nothing is fetched: a schema that refers to an external document is refused. I2. Patterns match in linear time for all
//! input. Patterns with look-around or back-references are limited to [`MAX_BACKTRACKS`] and match nothing beyond it.

use std::collections::HashMap;
use std::rc::Rc;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{FancyRegex, PatternOptions, ValidationError, Validator};
use serde_json::Value as Json;

use super::builder::{TaskBuilder, WrittenJson};

/// Backtracking steps of a pattern with look-around or back-references: a few milliseconds.
const MAX_BACKTRACKS: usize = 100_000;

/// Characters of a reason, which may repeat a whole value.
const MAX_REASON_CHARS: usize = 200;

/// A mistake in a schema, its place, and the correction.
#[derive(Debug, Clone)]
struct BadSchema {
    message: String,
    pointer: String,
    help: &'static str,
}

/// Schemas that were compiled, by their text, so that instances do not compile them again.
#[derive(Debug, Default)]
pub(super) struct Schemas {
    compiled: HashMap<String, Result<Rc<Validator>, BadSchema>>,
}

impl Schemas {
    fn get(&mut self, schema: &Json) -> Result<Rc<Validator>, BadSchema> {
        let text = schema.to_string();
        self.compiled.entry(text).or_insert_with(|| compile(schema).map(Rc::new)).clone()
    }
}

impl TaskBuilder<'_, '_, '_> {
    /// Compiles a schema. A problem is reported at its place in `written`.
    pub(super) fn schema(&mut self, written: WrittenJson<'_>, schema: &Json) -> Option<()> {
        match self.schemas.get(schema) {
            Ok(_) => Some(()),
            Err(bad) => {
                self.found_in(written, &bad.pointer, bad.message, "not accepted", bad.help);
                None
            }
        }
    }

    /// The reason why a value does not fit a schema, and a JSON pointer into the value. Nothing fits badly to a schema that does
    /// not compile: [`Self::schema`] reports that.
    pub(super) fn misfit(&mut self, schema: &Json, value: &Json) -> Option<(String, String)> {
        let validator = self.schemas.get(schema).ok()?;
        let error = validator.validate(value).err()?;
        Some((reason(&error), error.instance_path().as_str().to_owned()))
    }

    /// Reports a problem at the key that the pointer ends with, or at the nearest written key above it.
    pub(super) fn found_in(
        &mut self,
        written: WrittenJson<'_>,
        pointer: &str,
        message: String,
        label: &str,
        help: &str,
    ) {
        let mut pointer = pointer;
        while written.value.pointer(pointer).is_none() {
            pointer = pointer.rsplit_once('/').map_or("", |(above, _)| above);
        }
        let span = self.findings.source.locate_pointer(written.span, pointer);
        self.found(span, message, label, help);
    }
}

fn compile(schema: &Json) -> Result<Validator, BadSchema> {
    let options = jsonschema::options().offline().with_pattern_options(patterns());
    options.build(schema).map_err(|error| match error.kind() {
        ValidationErrorKind::Referencing(_) => BadSchema {
            message: format!("a reference of this JSON schema leads nowhere: {}", reason(&error)),
            pointer: String::new(),
            help: "write it as `#/$defs/name`, with `name` under `$defs` of the same schema; nothing is fetched",
        },
        ValidationErrorKind::Format { format } if format == "regex" => BadSchema {
            message: format!("this JSON schema is not valid: {} is not a regular expression", error.instance()),
            pointer: error.instance_path().as_str().to_owned(),
            help: "escape special characters by a backslash, in single quotes",
        },
        _ => BadSchema {
            message: format!("this JSON schema is not valid: {}", reason(&error)),
            pointer: error.instance_path().as_str().to_owned(),
            help: "types are `array`, `boolean`, `integer`, `null`, `number`, `object` and `string`; the other words \
                   are on json-schema.org",
        },
    })
}

fn patterns() -> PatternOptions<FancyRegex> {
    PatternOptions::fancy_regex().backtrack_limit(MAX_BACKTRACKS)
}

fn reason(error: &ValidationError<'_>) -> String {
    let reason = match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!("`{}` is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().map(|name| format!("`{name}`")).collect();
            format!("{} is not expected", names.join(" and "))
        }
        _ => error.to_string(),
    };
    if reason.chars().count() <= MAX_REASON_CHARS {
        return reason;
    }
    reason.chars().take(MAX_REASON_CHARS).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Json, expected: Option<(&str, &str)>) {
        let bad = compile(schema).err();
        let told = bad.as_ref().map(|bad| (bad.message.as_str(), bad.pointer.as_str()));
        match (told, expected) {
            (None, None) => {}
            (Some((message, pointer)), Some((part, place))) => {
                assert!(message.contains(part), "{message}");
                assert_eq!(pointer, place, "{message}");
            }
            (told, expected) => panic!("{schema}: {told:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn schemas_are_judged() {
        check(&json!({ "type": "object" }), None);
        check(&json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "string" } } }), None);
        check(&json!({ "properties": { "a": { "type": "strin" } } }), Some(("strin", "/properties/a/type")));
        check(&json!({ "minLength": "1" }), Some(("not valid", "/minLength")));
        check(&json!(3), Some(("not valid", "")));
    }

    /// I1.
    #[test]
    fn nothing_is_fetched() {
        for reference in
            ["https://example.org/schema.json", "file:///etc/passwd", "other.json", "#/$defs/none"]
        {
            check(&json!({ "$ref": reference }), Some(("leads nowhere", "")));
        }
    }

    /// I2.
    #[test]
    fn patterns_with_look_ahead_are_matched_within_a_bound() {
        check(&json!({ "pattern": "^a+$" }), None);
        check(&json!({ "pattern": "(" }), Some(("is not a regular expression", "/pattern")));
        let slow = compile(&json!({ "pattern": "^(?!x)(a|aa)+(?!b)$" })).unwrap();
        assert!(slow.is_valid(&json!("aaa")) && !slow.is_valid(&json!("a".repeat(500) + "!")));
    }
}
