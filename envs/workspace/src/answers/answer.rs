//! One check of the answer.

use clawrl_core::{AnswerCheck, Fault};
use regex::Regex;
use serde_json::Value;

use super::finding::{Finding, check_invalid};
use super::list::{comparable, entries, same_set};
use super::normal::normalise;
use super::number::number;
use crate::checks::quote;
use crate::schema::Schema;

/// A longer answer fails every check, unless the expected text is even longer.
pub(super) const ANSWER_BYTES: usize = 64 * 1024;

/// Characters shown of either side.
const SHOWN: usize = 70;

/// Checks an answer, if there is one.
///
/// # Errors
/// A permanent grader [`Fault`] for a check that cannot be evaluated.
pub fn check_answer(check: &AnswerCheck, answer: Option<&str>) -> Result<Finding, Fault> {
    let Some(answer) = answer else { return Ok(Finding::fail("no answer was submitted")) };
    let most = match check {
        AnswerCheck::Equals { expected } | AnswerCheck::Normalised { expected } => {
            ANSWER_BYTES.max(2 * expected.len())
        }
        AnswerCheck::List { expected, .. } => {
            ANSWER_BYTES.max(expected.iter().map(|entry| 2 * entry.len() + 8).sum())
        }
        _ => ANSWER_BYTES,
    };
    if answer.len() > most {
        return Ok(Finding::fail(format_args!("the answer has {} bytes, more than {most}", answer.len())));
    }
    let shown = quote(answer.as_bytes(), SHOWN);
    let wanted = |expected: &str| format!("expected {}, found {shown}", quote(expected.as_bytes(), SHOWN));
    let by = |passed: bool, expected: &str| {
        if passed { Finding::pass("as expected") } else { Finding::fail(wanted(expected)) }
    };
    Ok(match check {
        AnswerCheck::Equals { expected } => by(answer == expected, expected),
        AnswerCheck::Normalised { expected } => by(normalise(answer) == normalise(expected), expected),
        AnswerCheck::Number { expected, tolerance } => {
            if !expected.is_finite() || !tolerance.is_finite() || *tolerance < 0.0 {
                return Err(check_invalid(format_args!("a number near {expected} by {tolerance}")));
            }
            match number(answer) {
                None => Finding::fail(format_args!("expected {expected}, found no number in {shown}")),
                Some(found) => {
                    let text = format!("expected {expected} within {tolerance}, found {found}");
                    Finding::of(is_near(found, *expected, *tolerance), text)
                }
            }
        }
        AnswerCheck::Matches { regex } => {
            let compiled =
                Regex::new(regex).map_err(|error| check_invalid(error.to_string().replace('\n', " ")))?;
            let text = format!("{} in {shown}", quote(regex.as_bytes(), SHOWN));
            match compiled.is_match(answer) {
                true => Finding::pass(format_args!("found {text}")),
                false => Finding::fail(format_args!("expected a match of {text}")),
            }
        }
        AnswerCheck::Schema { schema } => {
            let compiled = Schema::compile(schema).map_err(check_invalid)?;
            match serde_json::from_str::<Value>(answer) {
                Err(error) => Finding::fail(format_args!("no valid JSON: {error}")),
                Ok(document) => match compiled.problem(&document) {
                    None => Finding::pass("the schema accepts it"),
                    Some(problem) => Finding::fail(problem),
                },
            }
        }
        AnswerCheck::List { expected, ordered } => {
            let listed = entries(answer);
            let wanted_entries: Vec<String> = expected.iter().map(|entry| comparable(entry)).collect();
            let same = if *ordered { listed == wanted_entries } else { same_set(&listed, &wanted_entries) };
            by(same, &expected.join(", "))
        }
        other => return Err(check_invalid(format_args!("answers cannot be checked by {other:?}"))),
    })
}

/// Whether a value is within the tolerance, which was written in decimals: the rounding of binary fractions does not
/// count.
fn is_near(found: f64, expected: f64, tolerance: f64) -> bool {
    let rounding = if tolerance == 0.0 { 0.0 } else { 4.0 * f64::EPSILON * found.abs().max(expected.abs()) };
    (found - expected).abs() <= tolerance + rounding
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn passes(check: &AnswerCheck, answer: &str) -> bool {
        check_answer(check, Some(answer)).unwrap().score == 1.0
    }

    fn check(check: AnswerCheck, right: &[&str], wrong: &[&str]) {
        for answer in right {
            assert!(passes(&check, answer), "{answer:?} should pass {check:?}");
        }
        for answer in wrong {
            assert!(!passes(&check, answer), "{answer:?} should fail {check:?}");
        }
        assert!(check_answer(&check, None).unwrap().score < 1.0, "C2: {check:?}");
    }

    fn near(expected: f64, tolerance: f64) -> AnswerCheck {
        AnswerCheck::Number { expected, tolerance }
    }

    fn list(expected: &[&str], ordered: bool) -> AnswerCheck {
        AnswerCheck::List { expected: expected.iter().map(|&entry| entry.to_owned()).collect(), ordered }
    }

    #[test]
    fn right_and_wrong_answers_of_every_kind() {
        check(AnswerCheck::Equals { expected: "42".into() }, &["42"], &["42\n", "", "042"]);
        check(AnswerCheck::Equals { expected: String::new() }, &[""], &[" "]);
        check(
            AnswerCheck::Normalised { expected: "Paris".into() },
            &["paris.", " PARIS "],
            &["paris, france", ""],
        );
        check(near(18.0, 0.0), &["18", "$18.00", "so\n#### 18"], &["18.0001", "18 apples", ""]);
        check(near(0.3, 0.1), &["0.4", "0.2", "0.35"], &["0.41"]);
        check(near(1e300, 0.0), &["1e300"], &["1e301"]);
        check(AnswerCheck::Matches { regex: r"^\d+$".into() }, &["12"], &["12\n", "a12"]);
        let schema =
            json!({ "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } });
        let deep = "[".repeat(10_000);
        check(AnswerCheck::Schema { schema }, &[r#"{"n": 1}"#], &[r#"{"n": "1"}"#, "n", &deep]);
        check(list(&["a", "B"], true), &["A, b", r#"["a", "b"]"#, "a\nb\n"], &["b, a", "a", "a, b, b"]);
        check(list(&["a", "b", "b"], false), &["b, a, b"], &["a, b", "a, a, b"]);
        check(list(&["1", "2"], true), &["[1, 2.0]", "1, 2"], &["12"]);
        check(list(&[], true), &["", "[]"], &["a"]);
    }

    #[test]
    fn failure_reasons_name_expectation() {
        let check = |check: AnswerCheck, answer: &str, expected: &str| {
            assert_eq!(check_answer(&check, Some(answer)).unwrap(), Finding::fail(expected));
        };
        check(AnswerCheck::Equals { expected: "a".into() }, "b\n", r#"expected "a", found "b\n""#);
        check(near(2.0, 0.5), "3", "expected 2 within 0.5, found 3");
        check(near(2.0, 0.5), "two", r#"expected 2, found no number in "two""#);
        check(AnswerCheck::Schema { schema: json!({"type": "string"}) }, "1", r#"1 is not of type "string""#);
        let long = "x".repeat(ANSWER_BYTES + 1);
        check(
            AnswerCheck::Equals { expected: "x".into() },
            &long,
            "the answer has 65537 bytes, more than 65536",
        );
    }

    #[test]
    fn c3_unevaluable_check_is_fault() {
        let schema = AnswerCheck::Schema { schema: json!({"type": 3}) };
        for check in
            [near(f64::NAN, 0.0), near(1.0, -1.0), AnswerCheck::Matches { regex: "[".into() }, schema]
        {
            assert_eq!(check_answer(&check, Some("1")).unwrap_err().code, "check-invalid");
        }
    }

    proptest! {
        #[test]
        fn c1_never_panics(answer in any::<String>()) {
            for check in [
                AnswerCheck::Normalised { expected: "a".into() },
                near(1.0, 0.5),
                list(&["a"], false),
                AnswerCheck::Matches { regex: "a+".into() },
                AnswerCheck::Schema { schema: json!({"type": "object"}) },
            ] {
                check_answer(&check, Some(&answer)).unwrap();
            }
        }
    }
}
