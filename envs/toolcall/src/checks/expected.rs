//! Compares the calls of an episode with expected ones.
//!
//! E1. A call satisfies an expected call if it is of the same tool and has exactly the expected arguments, each with
//! one of the allowed values; optional arguments may be missing.
//! E2. No call satisfies two expected ones, and the matching is maximal, whatever the order of the calls.
//! E3. With `ordered`, expected calls are matched in their order.
//!
//! Source of [`TextMatch::Loose`] and of the meaning of a pattern: the AST checker of BFCL v4 (`bfcl-eval` 2026.3.23).
//! Deviations: a number is a number, where BFCL distinguishes 5 from 5.0 in integers and in lists; the calls are
//! matched as a whole, where BFCL takes the first that fits.

use clawrl_core::{ExpectedCall, TextMatch, ToolCall, ValuePattern};
use clawrl_workspace::equal_json;
use serde_json::Value;

/// Number of satisfied expected calls.
pub(super) fn found(calls: &[&ToolCall], expected: &[ExpectedCall], ordered: bool) -> usize {
    if ordered {
        return found_in_order(calls, expected);
    }
    // Augmenting paths: each expected call takes a call, and earlier ones move to another call if they can.
    let fitting: Vec<Vec<usize>> = expected
        .iter()
        .map(|wanted| (0..calls.len()).filter(|&at| is_expected(calls[at], wanted)).collect())
        .collect();
    let mut taken_by: Vec<Option<usize>> = vec![None; calls.len()];
    let mut count = 0;
    for wanted in 0..expected.len() {
        let mut seen = vec![false; calls.len()];
        count += usize::from(place(wanted, &fitting, &mut taken_by, &mut seen));
    }
    count
}

fn place(wanted: usize, fitting: &[Vec<usize>], taken_by: &mut [Option<usize>], seen: &mut [bool]) -> bool {
    for &at in &fitting[wanted] {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let is_free = match taken_by[at] {
            None => true,
            Some(other) => place(other, fitting, taken_by, seen),
        };
        if is_free {
            taken_by[at] = Some(wanted);
            return true;
        }
    }
    false
}

/// As `found`, with the expected calls in order.
fn found_in_order(calls: &[&ToolCall], expected: &[ExpectedCall]) -> usize {
    let mut found = 0;
    for call in calls {
        if expected.get(found).is_some_and(|wanted| is_expected(call, wanted)) {
            found += 1;
        }
    }
    found
}

/// E1.
fn is_expected(call: &ToolCall, wanted: &ExpectedCall) -> bool {
    let Some(arguments) = call.arguments.as_object() else { return false };
    call.name == wanted.tool
        && arguments.keys().all(|name| wanted.arguments.contains_key(name))
        && wanted.arguments.iter().all(|(name, pattern)| is_one(arguments.get(name), pattern))
}

/// Whether a value, or its absence, matches a pattern.
fn is_one(value: Option<&Value>, pattern: &ValuePattern) -> bool {
    let Some(value) = value else { return pattern.optional };
    pattern.any_of.iter().any(|wanted| is_literal(value, wanted, pattern.text))
        || pattern.any_object.iter().any(|wanted| {
            value.as_object().is_some_and(|found| {
                found.keys().all(|key| wanted.contains_key(key))
                    && wanted.iter().all(|(key, pattern)| is_one(found.get(key), pattern))
            })
        })
        || pattern.any_list.iter().any(|wanted| {
            value.as_array().is_some_and(|found| {
                found.len() == wanted.len()
                    && found.iter().zip(wanted).all(|(value, pattern)| is_one(Some(value), pattern))
            })
        })
}

fn is_literal(value: &Value, wanted: &Value, text: TextMatch) -> bool {
    match (text, value, wanted) {
        (TextMatch::Loose, Value::String(value), Value::String(wanted)) => loose(value) == loose(wanted),
        (TextMatch::Loose, Value::Array(values), Value::Array(wanted)) => {
            values.len() == wanted.len()
                && values.iter().zip(wanted).all(|(value, wanted)| is_literal(value, wanted, text))
        }
        _ => equal_json(value, wanted),
    }
}

/// A text, normalised for loose comparison.
fn loose(text: &str) -> String {
    let dropped = [' ', ',', '.', '/', '-', '_', '*', '^'];
    text.chars()
        .filter(|character| !dropped.contains(character))
        .flat_map(char::to_lowercase)
        .map(|character| if character == '\'' { '"' } else { character })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn pattern(written: &Value) -> ValuePattern {
        serde_json::from_value(written.clone()).unwrap()
    }

    fn check(value: Value, written: Value, expected: bool) {
        assert_eq!(is_one(Some(&value), &pattern(&written)), expected, "{value} against {written}");
    }

    #[test]
    fn literal_values() {
        check(json!(5), json!({ "any_of": [4, 5.0] }), true);
        check(json!("5"), json!({ "any_of": [5] }), false);
        check(json!("New York"), json!({ "any_of": ["new york"] }), false);
        check(json!("New York, NY"), json!({ "any_of": ["new york ny"], "text": "loose" }), true);
        check(json!("it's"), json!({ "any_of": ["it\"s"], "text": "loose" }), true);
        check(json!(["A b", 1]), json!({ "any_of": [["ab", 1.0]], "text": "loose" }), true);
        check(json!(["A b"]), json!({ "any_of": [["ab"]] }), false);
        check(json!([1, 2]), json!({ "any_of": [[2, 1]] }), false);
        check(json!(3), json!({ "optional": true }), false);
        assert!(is_one(None, &pattern(&json!({ "optional": true }))));
        assert!(!is_one(None, &pattern(&json!({ "any_of": [1] }))));
    }

    #[test]
    fn objects_and_lists_of_patterns() {
        let object = json!({ "any_object": [{ "a": { "any_of": [1, 2] }, "b": { "any_of": ["x"], "optional": true } }] });
        check(json!({ "a": 2 }), object.clone(), true);
        check(json!({ "a": 2, "b": "x" }), object.clone(), true);
        check(json!({ "b": "x" }), object.clone(), false);
        check(json!({ "a": 1, "c": 1 }), object.clone(), false);
        check(json!([{ "a": 1 }]), object.clone(), false);
        let list = json!({ "any_list": [[object, { "any_of": [7] }], []] });
        check(json!([{ "a": 1 }, 7]), list.clone(), true);
        check(json!([]), list.clone(), true);
        check(json!([{ "a": 1 }]), list, false);
    }

    fn calls(numbers: &[i64]) -> Vec<ToolCall> {
        numbers.iter().map(|number| ToolCall::new("f", json!({ "n": number }))).collect()
    }

    fn expected(accepted: &[Vec<i64>]) -> Vec<ExpectedCall> {
        let call = |numbers: &Vec<i64>| ExpectedCall {
            tool: "f".to_owned(),
            arguments: [("n".to_owned(), pattern(&json!({ "any_of": numbers })))].into(),
        };
        accepted.iter().map(call).collect()
    }

    fn check_calls(numbers: &[i64], accepted: &[Vec<i64>], ordered: bool, wanted: usize) {
        let calls = calls(numbers);
        let count = found(&calls.iter().collect::<Vec<_>>(), &expected(accepted), ordered);
        assert_eq!(count, wanted, "{numbers:?} against {accepted:?}");
    }

    #[test]
    fn e1_a_call_has_no_other_arguments() {
        let wanted = &expected(&[vec![1]])[0];
        let check = |tool: &str, arguments: Value, expected: bool| {
            assert_eq!(is_expected(&ToolCall::new(tool, arguments), wanted), expected);
        };
        check("f", json!({ "n": 1 }), true);
        check("g", json!({ "n": 1 }), false);
        check("f", json!({ "n": 1, "m": 1 }), false);
        check("f", json!({}), false);
    }

    #[test]
    fn e2_e3_each_is_found_by_another() {
        check_calls(&[1, 1], &[vec![1]], false, 1);
        check_calls(&[1], &[vec![1], vec![1]], false, 1);
        check_calls(&[2, 1], &[vec![1], vec![2]], false, 2);
        check_calls(&[2, 1], &[vec![1], vec![2]], true, 1);
        check_calls(&[2, 1], &[vec![2], vec![1]], true, 2);
        // The first one has to give its call up to the second one.
        check_calls(&[1, 2], &[vec![1, 2], vec![1]], false, 2);
        check_calls(&[], &[], false, 0);
    }

    proptest! {
        #[test]
        fn e2_order_does_not_count(
            mut numbers in proptest::collection::vec(0i64..5, 0..6),
            accepted in proptest::collection::vec(proptest::collection::vec(0i64..5, 1..4), 0..6),
        ) {
            let count = |numbers: &[i64]| {
                let calls = calls(numbers);
                found(&calls.iter().collect::<Vec<_>>(), &expected(&accepted), false)
            };
            let before = count(&numbers);
            prop_assert!(before <= numbers.len().min(accepted.len()));
            numbers.reverse();
            prop_assert_eq!(count(&numbers), before);
        }
    }
}
