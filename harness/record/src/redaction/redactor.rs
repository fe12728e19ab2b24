//! Secrets, and texts without them.

use std::fmt;
use std::ops::Range;

use regex::Regex;
use serde::Serialize;

use super::RedactionError;
use super::pattern::pattern;

/// Shorter values are words that are found in ordinary texts.
const LEAST_BYTES: usize = 8;

/// Longer ones are no keys; a private key of RSA has half of it.
const MOST_BYTES: usize = 4_096;

/// Strikes values of named secrets out of texts. `Debug` shows names only.
pub struct Redactor {
    secrets: Vec<Secret>,
}

struct Secret {
    name: String,
    pattern: Regex,
}

/// A stretch of text that goes, and whose it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Struck {
    pub(super) range: Range<usize>,
    /// What stands there instead.
    pub(super) mark: String,
}

impl Redactor {
    /// Of names and values. White space around a value is not part of it.
    ///
    /// # Errors
    /// [`RedactionError`] for a value that cannot be told from other text.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Result<Self, RedactionError> {
        let mut known: Vec<Secret> = Vec::new();
        let mut values = Vec::new();
        for (name, value) in secrets {
            let value = value.trim().to_owned();
            let bytes = value.len();
            if bytes < LEAST_BYTES {
                return Err(RedactionError::TooShort { name, bytes, least: LEAST_BYTES });
            }
            let too_long = RedactionError::TooLong { name: name.clone(), bytes, most: MOST_BYTES };
            if bytes > MOST_BYTES {
                return Err(too_long);
            }
            let pattern = pattern(&value).map_err(|_| too_long)?;
            values.push(value);
            known.push(Secret { name, pattern });
        }
        for (secret, value) in known.iter().zip(&values) {
            if known.iter().any(|other| redaction_mark(&other.name).contains(value.as_str())) {
                return Err(RedactionError::InMark { name: secret.name.clone() });
            }
        }
        Ok(Self { secrets: known })
    }

    /// Names of the secrets, as they were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(|secret| secret.name.as_str())
    }

    /// The name of a secret whose value is somewhere in this, written as JSON. For what has to be stored as it is.
    pub fn found_in(&self, stored: &impl Serialize) -> Option<&str> {
        let json = serde_json::to_string(stored).ok()?;
        let found = self.secrets.iter().find(|secret| secret.pattern.is_match(&json))?;
        Some(&found.name)
    }

    /// The text without values; `None` if there are none in it.
    #[must_use]
    pub fn text(&self, text: &str) -> Option<String> {
        let struck = self.struck(text);
        if struck.is_empty() {
            return None;
        }
        let mut redacted = String::with_capacity(text.len());
        let mut kept = 0;
        for Struck { range, mark } in struck {
            redacted.push_str(&text[kept..range.start]);
            redacted.push_str(&mark);
            kept = range.end;
        }
        redacted.push_str(&text[kept..]);
        Some(redacted)
    }

    /// What goes, in order. Stretches do not touch each other's characters (I2).
    pub(super) fn struck(&self, text: &str) -> Vec<Struck> {
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        for secret in &self.secrets {
            let mut from = 0;
            // Not `find_iter`, which skips what overlaps.
            while let Some(hit) = secret.pattern.find_at(text, from) {
                found.push((hit.range(), &secret.name));
                from = hit.start() + text[hit.start()..].chars().next().map_or(1, char::len_utf8);
            }
        }
        found.sort_by_key(|(range, _)| (range.start, range.end));
        let mut struck: Vec<(Range<usize>, Vec<&str>)> = Vec::new();
        for (range, name) in found {
            match struck.last_mut() {
                Some((last, names)) if range.start < last.end => {
                    last.end = last.end.max(range.end);
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                _ => struck.push((range, vec![name])),
            }
        }
        let marks = |names: Vec<&str>| names.into_iter().map(redaction_mark).collect();
        struck.into_iter().map(|(range, names)| Struck { range, mark: marks(names) }).collect()
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// What stands where the value of a secret of this name stood.
#[must_use]
pub fn redaction_mark(name: &str) -> String {
    format!("[redacted {name}]")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redactor(secrets: &[(&str, &str)]) -> Redactor {
        Redactor::new(secrets.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()))).unwrap()
    }

    fn check(secrets: &[(&str, &str)], text: &str, expected: &str) {
        let got = redactor(secrets).text(text);
        assert_eq!(got.as_deref().unwrap_or(text), expected, "{text:?}");
        assert_eq!(got.is_some(), text != expected, "{text:?}");
    }

    #[test]
    fn values_become_marks() {
        check(&[("KEY", "hunter2-hunter2")], "a hunter2-hunter2, b", "a [redacted KEY], b");
        check(&[("KEY", " hunter2-x\n")], "hunter2-xhunter2-x", "[redacted KEY][redacted KEY]");
        check(&[("KEY", "hunter2-x")], "hunter2", "hunter2");
        check(&[], "anything", "anything");
    }

    #[test]
    fn i2_what_overlaps_goes_as_one() {
        let both = [("A", "abcdefgh"), ("B", "efghijkl")];
        check(&both, "<abcdefghijkl>", "<[redacted A][redacted B]>");
        check(&both, "<efghijkl abcdefgh>", "<[redacted B] [redacted A]>");
        check(&[("A", "abababab")], "abababababX", "[redacted A]X");
        check(&[("A", "abcdefghij"), ("B", "cdefghij")], "abcdefghij", "[redacted A][redacted B]");
    }

    #[test]
    fn what_cannot_be_told_from_text_is_refused() {
        let check = |name: &str, value: &str, expected: &str| {
            let error = Redactor::new([(name.to_owned(), value.to_owned())]).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            "KEY",
            "short",
            "the value of KEY has 5 bytes; it takes at least 8 to tell a secret from other text",
        );
        check("KEY", &"x".repeat(5_000), "the value of KEY has 5000 bytes; at most 4096 are looked for");
        check("KEY", "redacted", "the value of KEY is a part of the mark that would stand in its place");
    }

    #[test]
    fn a_plan_that_holds_a_value_is_noticed() {
        let redactor = redactor(&[("KEY", "quo\"ted-value")]);
        assert_eq!(redactor.found_in(&serde_json::json!({ "vars": ["a quo\"ted-value"] })), Some("KEY"));
        assert_eq!(redactor.found_in(&serde_json::json!({ "vars": ["a quoted-value"] })), None);
        assert_eq!(format!("{redactor:?}"), "[\"KEY\"]");
    }

    /// Values of few characters, so that they overlap, repeat, and need escapes.
    const VALUE: &str = "[ab\"\\\\/]{8,11}";

    proptest! {
        /// I1 for plain text and for JSON of any depth.
        #[test]
        fn i1_no_value_is_left(
            values in proptest::collection::vec(VALUE, 1..4),
            order in proptest::collection::vec((0usize..4, "[ab\"\\\\/ ]{0,5}"), 0..8),
            depth in 0usize..3,
        ) {
            let names = ["A", "B", "C"];
            let secrets: Vec<(&str, &str)> = names.into_iter().zip(values.iter().map(String::as_str)).collect();
            let mut text = String::new();
            for (index, between) in order {
                text.push_str(between.as_str());
                text.push_str(values.get(index).map_or("", String::as_str));
            }
            for _ in 0..depth {
                text = serde_json::to_string(&text).unwrap();
            }
            let redacted = redactor(&secrets).text(&text).unwrap_or(text);
            for (name, value) in secrets {
                let mut spelled = value.to_owned();
                for _ in 0..=depth {
                    prop_assert!(!redacted.contains(&spelled), "{name} in {redacted}");
                    spelled = serde_json::to_string(&spelled).unwrap();
                    spelled = spelled[1..spelled.len() - 1].to_owned();
                }
            }
        }

        /// I3.
        #[test]
        fn i3_other_text_stays(text in "[c-z \n]{0,80}") {
            prop_assert_eq!(redactor(&[("A", "abcdefgh")]).text(&text), None);
        }
    }
}
