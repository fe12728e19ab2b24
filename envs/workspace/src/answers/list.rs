//! Answers that are lists.

use std::collections::BTreeMap;

use serde_json::Value;

use super::normal::normalise;
use super::number::parse;

/// The entries of an answer in comparable form: a JSON array of strings or numbers, otherwise the parts between commas
/// and newlines. Empty ones do not count.
pub(super) fn entries(answer: &str) -> Vec<String> {
    let texts = match array(answer) {
        Some(texts) => texts,
        None => answer.split([',', '\n']).map(str::to_owned).collect(),
    };
    texts.iter().map(|text| comparable(text)).filter(|entry| !entry.is_empty()).collect()
}

fn array(answer: &str) -> Option<Vec<String>> {
    let answer = answer.trim();
    if !answer.starts_with('[') {
        return None;
    }
    let Value::Array(items) = serde_json::from_str(answer).ok()? else { return None };
    let text = |item: Value| match item {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    items.into_iter().map(text).collect()
}

/// Numbers by value, texts normalised.
pub(super) fn comparable(entry: &str) -> String {
    // Zero has two signs, and one value.
    parse(entry).map_or_else(|| normalise(entry), |value| (value + 0.0).to_string())
}

/// Whether both have the same entries equally often.
pub(super) fn same_set(left: &[String], right: &[String]) -> bool {
    counts(left) == counts(right)
}

fn counts(entries: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for entry in entries {
        *counts.entry(entry.as_str()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(answer: &str, expected: &[&str]) {
        assert_eq!(entries(answer), expected, "{answer:?}");
    }

    #[test]
    fn lists_are_written_in_several_ways() {
        check("a, b,c", &["a", "b", "c"]);
        check("a\nb\r\n\nc\n", &["a", "b", "c"]);
        check(r#"["a, b", 2, 2.0, "2"]"#, &["a, b", "2", "2", "2"]);
        check("[a, b]", &["a", "b"]);
        check("['x', 'y']", &["x", "y"]);
        check("[1, [2]]", &["1", "2"]);
        check("-0, 0", &["0", "0"]);
        check("", &[]);
        check("[]", &[]);
    }

    proptest! {
        #[test]
        fn order_does_not_matter_to_sets_but_number_does(entries in prop::collection::vec("[abc]", 0..6)) {
            let mut other = entries.clone();
            other.reverse();
            prop_assert!(same_set(&entries, &other));
            other.push("a".to_owned());
            prop_assert!(!same_set(&entries, &other));
        }

        #[test]
        fn never_panics(answer in any::<String>(), list in "[\\[\\]{},\"0-9a\n ]{0,60}") {
            entries(&answer);
            entries(&list);
        }
    }
}
