//! JSON schemas, compiled once; validation errors as one line.
//!
//! S1. Nothing is fetched: a schema that refers to another document does not compile.
//! S2. Patterns are matched in linear time, whatever an agent writes; those with look-around or back-references within
//! [`MAX_STEPS`], and beyond that they do not match.
//! S3. A schema is compiled once for all attempts that use it, unless [`MAX_CACHED`] others came in between.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::printable_line;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{FancyRegex, PatternOptions, ValidationError, ValidationOptions, Validator};
use serde_json::Value;

/// Cached schemas; each is some kilobytes. Suites have few, and a run may have many suites.
const MAX_CACHED: usize = 1_024;

/// Backtracking steps of a pattern with look-around or back-references: some milliseconds.
const MAX_STEPS: usize = 100_000;

/// Maximum problems reported per document.
const MAX_PROBLEMS: usize = 3;

const PROBLEM_CHARS: usize = 200;

/// Maximum characters of a value that a problem repeats.
const VALUE_CHARS: usize = 60;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Why it is invalid, in one line.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        match options().build(schema) {
            Ok(validator) => Ok(Self { validator }),
            Err(error) => Err(explain(&error)),
        }
    }

    /// The document's problems, in one line; `None` if it is valid.
    pub fn problem(&self, document: &Value) -> Option<String> {
        if self.validator.is_valid(document) {
            return None;
        }
        let problems: Vec<String> =
            self.validator.iter_errors(document).take(MAX_PROBLEMS).map(|error| explain(&error)).collect();
        Some(problems.join("; "))
    }
}

/// As for checking suites: offline, and with patterns that take a bounded time for any text.
fn options<'a>() -> ValidationOptions<'a> {
    jsonschema::options().offline().with_pattern_options(patterns())
}

fn patterns() -> PatternOptions<FancyRegex> {
    PatternOptions::fancy_regex().backtrack_limit(MAX_STEPS)
}

fn explain(error: &ValidationError<'_>) -> String {
    let place = dotted(&error.instance_path().to_string());
    let inside = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    let problem = match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!("`{}` is missing", inside(property.as_str().unwrap_or_default()))
        }
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().map(|name| format!("`{}`", inside(name))).collect();
            format!("{} is not expected", names.join(" and "))
        }
        kind => {
            let value = error.instance().to_string();
            let text = match kind {
                _ if value.chars().count() > VALUE_CHARS => error.masked_with("this value").to_string(),
                // All of them, so that the reader can choose one.
                ValidationErrorKind::Enum { options } => {
                    let options: Vec<String> =
                        options.as_array().into_iter().flatten().map(Value::to_string).collect();
                    format!("{value} is none of {}", options.join(" "))
                }
                _ => error.to_string(),
            };
            if place.is_empty() { text } else { format!("`{place}`: {text}") }
        }
    };
    printable_line(&problem, PROBLEM_CHARS)
}

/// A JSON pointer in dotted form: `/a/0/b` becomes `a.0.b`.
fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~")
}

/// Compiled schemas by their text.
#[derive(Debug, Default)]
pub struct SchemaCache {
    compiled: Mutex<HashMap<String, Arc<Schema>>>,
}

impl SchemaCache {
    /// The compiled schema.
    ///
    /// # Errors
    /// As [`Schema::compile`].
    pub fn get(&self, schema: &Value) -> Result<Arc<Schema>, String> {
        let text = schema.to_string();
        if let Some(known) = self.lock().get(&text) {
            return Ok(Arc::clone(known));
        }
        // Outside the lock: two concurrent callers may both compile it, which only costs a moment.
        let compiled = Arc::new(Schema::compile(schema)?);
        let mut kept = self.lock();
        if kept.len() >= MAX_CACHED {
            kept.clear();
        }
        kept.insert(text, Arc::clone(&compiled));
        Ok(compiled)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Schema>>> {
        self.compiled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(schema: &Value, document: Value, expected: Option<&str>) {
        let problem = Schema::compile(schema).unwrap().problem(&document);
        assert_eq!(problem.as_deref(), expected, "{document}");
    }

    #[test]
    fn argument_problems_name_reason() {
        let schema = json!({
            "type": "object",
            "properties": {
                "n": { "type": "integer", "minimum": 0 },
                "text": { "type": "string", "maxLength": 70 },
                "list": { "type": "array", "items": { "type": "object", "required": ["a/b"] } },
            },
            "required": ["n"],
            "additionalProperties": false,
        });
        check(&schema, json!({"n": 1}), None);
        check(&schema, json!({"n": 1.0}), None);
        check(&schema, json!({}), Some("`n` is missing"));
        check(&schema, json!({"n": "1"}), Some(r#"`n`: "1" is not of type "integer""#));
        check(&schema, json!({"n": -1}), Some("`n`: -1 is less than the minimum of 0"));
        check(&schema, json!({"n": 1, "m": 2}), Some("`m` is not expected"));
        check(&schema, json!({"n": 1, "list": [{"a/b": 1}, {}]}), Some("`list.1.a/b` is missing"));
        check(
            &schema,
            json!({"n": 1, "text": "x".repeat(71)}),
            Some("`text`: this value is longer than 70 characters"),
        );
        let choice = json!({ "enum": ["+", "-", "*", 4] });
        check(&choice, json!("^"), Some(r#""^" is none of "+" "-" "*" 4"#));
        check(&schema, json!(3), Some(r#"3 is not of type "object""#));
    }

    #[test]
    fn multiple_problems_are_one_line() {
        let schema = json!({ "properties": { "a": { "type": "string" } }, "required": ["b"] });
        let problem =
            Schema::compile(&schema).unwrap().problem(&json!({"a": "\n".parse::<u8>().is_ok()})).unwrap();
        assert!(
            problem.contains("`a`: false is not of type \"string\"") && problem.contains("; "),
            "{problem}"
        );
        assert!(!problem.contains('\n'));
    }

    #[test]
    fn s1_nothing_is_fetched() {
        let reasons = [
            json!({ "type": "nothing" }),
            json!({ "$ref": "http://127.0.0.1:9/schema.json" }),
            json!({ "$ref": "file:///etc/hostname" }),
            json!({ "pattern": "(" }),
        ];
        for schema in reasons {
            let reason = Schema::compile(&schema).map(|_| ()).unwrap_err();
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason}");
        }
    }

    #[test]
    fn s2_look_ahead_patterns_are_bounded() {
        // The form in which zod writes a hostname.
        let hostname = json!({ "pattern": "^(?=.{1,253}$)[a-z0-9-]+(\\.[a-z0-9-]+)*$" });
        let schema = Schema::compile(&hostname).unwrap();
        assert_eq!(schema.problem(&json!("a.example")), None);
        assert!(
            schema.problem(&json!("a..b")).is_some() && schema.problem(&json!("a".repeat(254))).is_some()
        );
        // Without a bound this takes longer than the age of the universe.
        let slow = Schema::compile(&json!({ "pattern": "^(?!x)(a|aa)+(?!b)$" })).unwrap();
        assert!(slow.problem(&json!("a".repeat(500) + "!")).is_some());
    }

    #[test]
    fn s3_a_schema_is_compiled_once() {
        let cache = SchemaCache::default();
        let one = cache.get(&json!({ "type": "string" })).unwrap();
        assert!(Arc::ptr_eq(&one, &cache.get(&json!({ "type": "string" })).unwrap()));
        for number in 0..MAX_CACHED + 5 {
            cache.get(&json!({ "const": number })).unwrap();
        }
        assert!(cache.lock().len() <= MAX_CACHED);
    }
}
