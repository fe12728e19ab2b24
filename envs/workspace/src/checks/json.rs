//! A value inside a JSON file.

use clawrl_core::{Fault, printable_line};
use serde_json::{Number, Value};

use super::files::Files;
use super::quote::quote;
use super::verdict::{CheckOutcome, invalid};

/// Characters shown of either value.
const SHOWN: usize = 60;

impl Files {
    pub(super) fn json_value(
        &self,
        path: &str,
        pointer: &str,
        expected: &Value,
    ) -> Result<CheckOutcome, Fault> {
        if !pointer.is_empty() && !pointer.starts_with('/') {
            return Err(invalid(format_args!(
                "the JSON pointer {pointer:?} must be empty or begin with `/`"
            )));
        }
        self.with_content(path, 0, |content| {
            let document: Value = match serde_json::from_slice(content) {
                Ok(document) => document,
                Err(error) => return Ok(CheckOutcome::fail(format_args!("no valid JSON: {error}"))),
            };
            let wanted = printable_line(&expected.to_string(), SHOWN);
            let place = match pointer {
                "" => String::new(),
                pointer => format!("at {}: ", quote(pointer.as_bytes(), SHOWN)),
            };
            Ok(match document.pointer(pointer) {
                Some(found) if equal(found, expected) => {
                    CheckOutcome::pass(format_args!("{place}{wanted}, as expected"))
                }
                Some(found) => {
                    let found = printable_line(&found.to_string(), SHOWN);
                    CheckOutcome::fail(format_args!("{place}expected {wanted}, found {found}"))
                }
                None => CheckOutcome::fail(format_args!("{place}expected {wanted}, found no such value")),
            })
        })
    }
}

/// Equality where numbers count by value, at any depth. The order of an object's keys does not count.
#[must_use]
pub fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => equal_numbers(left, right),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| equal(left, right)))
        }
        _ => left == right,
    }
}

/// Integers of 64 bits are compared exactly, also with floats; beyond that both were read as floats.
fn equal_numbers(left: &Number, right: &Number) -> bool {
    let integer =
        |number: &Number| number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    match (integer(left), integer(right)) {
        (Some(left), Some(right)) => left == right,
        (Some(integer), None) => right.as_f64().is_some_and(|float| is_integer(float, integer)),
        (None, Some(integer)) => left.as_f64().is_some_and(|float| is_integer(float, integer)),
        (None, None) => left.as_f64() == right.as_f64(),
    }
}

/// A float below 2^100 that has no fraction converts to `i128` without loss.
fn is_integer(float: f64, integer: i128) -> bool {
    float.fract() == 0.0 && float.abs() < 2f64.powi(100) && float as i128 == integer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(left: &str, right: &str, expected: bool) {
        let parse = |text| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(equal(&parse(left), &parse(right)), expected, "{left} and {right}");
        assert_eq!(equal(&parse(right), &parse(left)), expected, "{right} and {left}");
    }

    #[test]
    fn numbers_count_by_value() {
        check("1", "1.0", true);
        check("1", "1e0", true);
        check("0", "-0.0", true);
        check("0.1", "0.10", true);
        check("1", "1.5", false);
        check("1", "true", false);
        check("1", "\"1\"", false);
        check("-1", "18446744073709551615", false);
        check("9007199254740993", "9007199254740992", false);
        check("9007199254740993", "9007199254740992.0", false);
        check("9007199254740992", "9007199254740992.0", true);
        check("18446744073709551615", "18446744073709551615", true);
        check("1e300", "1e300", true);
        check("1e300", "1", false);
    }

    #[test]
    fn containers_count_by_their_values() {
        check(r#"{"a": [1, 2], "b": null}"#, r#"{"b": null, "a": [1.0, 2]}"#, true);
        check("[1, 2]", "[2, 1]", false);
        check("[1]", "[1, 1]", false);
        check(r#"{"a": 1}"#, r#"{"a": 1, "b": 1}"#, false);
        check(r#"{"a": 1}"#, r#"{"b": 1}"#, false);
    }
}
