//! Removes known values from texts.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::RedactionError;
use crate::spelling::{Cut, occurrences};

/// Shorter values are placeholders of servers without keys (`none`, `EMPTY`), or words of ordinary texts, which redaction
/// would damage.
const MIN_BYTES: usize = 8;

/// Longer values are not keys; a private RSA key has half of this.
const MAX_BYTES: usize = 4_096;

/// Removes the values of named secrets. `Debug` shows only the names. Clones share the secrets.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Arc<[Secret]>,
    marks: Marks,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Secret {
    name: String,
    value: Vec<char>,
}

/// Replacement of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Marks {
    /// `[redacted NAME]`, in records. A value inside another one has its own mark.
    #[default]
    Record,
    /// `[NAME]`, in results of tools. A value inside another one has no mark.
    Tool,
}

/// A stretch of text that is replaced by a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replacement {
    pub(crate) range: Range<usize>,
    pub(crate) mark: String,
}

impl Redactor {
    /// A redactor for records. White space around a value does not belong to it.
    ///
    /// # Errors
    /// [`RedactionError`] for a value that cannot be distinguished from other text.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Result<Self, RedactionError> {
        let secrets: Vec<(String, String)> =
            secrets.into_iter().map(|(name, value)| (name, value.trim().to_owned())).collect();
        for (name, value) in &secrets {
            let (name, bytes) = (name.clone(), value.len());
            if bytes < MIN_BYTES {
                return Err(RedactionError::TooShort { name, bytes, min: MIN_BYTES });
            }
            if bytes > MAX_BYTES {
                return Err(RedactionError::TooLong { name, bytes, max: MAX_BYTES });
            }
        }
        for (name, value) in &secrets {
            if secrets.iter().any(|(other, _)| redaction_mark(other).contains(value.as_str())) {
                return Err(RedactionError::InMark { name: name.clone() });
            }
        }
        Ok(Self { secrets: secrets.into_iter().map(Secret::new).collect(), marks: Marks::Record })
    }

    /// A redactor for the results of tools. White space around a value does not belong to it; values of fewer than 8 bytes
    /// are placeholders and stay.
    pub fn for_tools(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let secrets = secrets.into_iter().map(|(name, value)| (name, value.trim().to_owned()));
        let mut secrets: Vec<Secret> =
            secrets.filter(|(_, value)| value.len() >= MIN_BYTES).map(Secret::new).collect();
        secrets.sort();
        secrets.dedup();
        Self { secrets: secrets.into(), marks: Marks::Tool }
    }

    /// Names of the secrets, in the given order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.secrets.iter().map(|secret| secret.name.as_str())
    }

    /// The name of a secret whose value occurs in the JSON form of this value, which must be stored unchanged.
    pub fn found_in(&self, stored: &impl Serialize) -> Option<&str> {
        let json = serde_json::to_string(stored).ok()?;
        let found =
            self.secrets.iter().find(|secret| !occurrences(&json, &secret.value, Cut::None).is_empty())?;
        Some(&found.name)
    }

    /// The text without values; `None` if it holds none.
    #[must_use]
    pub fn redact(&self, text: &str) -> Option<String> {
        self.without_values(text, Cut::None)
    }

    /// Removes values from a text; true if it held one.
    pub fn redact_in_place(&self, text: &mut String) -> bool {
        self.redact_cut(text, Cut::None)
    }

    /// Removes values from a text that was truncated, and parts of values at its cut edges; true if it held one.
    pub fn redact_cut(&self, text: &mut String, cut: Cut) -> bool {
        let redacted = self.without_values(text, cut);
        let changed = redacted.is_some();
        *text = redacted.unwrap_or_else(|| std::mem::take(text));
        changed
    }

    /// Removes values from the texts and keys of a JSON document; true if it held one.
    pub fn redact_json(&self, document: &mut Value) -> bool {
        match document {
            Value::String(text) => self.redact_in_place(text),
            Value::Array(values) => self.redact_each(values.iter_mut()),
            Value::Object(map) => self.redact_map(map),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Like [`Self::redact_json`]. Keys are redacted, too: a policy chooses the keys of its calls.
    pub(crate) fn redact_map(&self, map: &mut Map<String, Value>) -> bool {
        let mut changed = self.redact_each(map.values_mut());
        if map.keys().any(|key| self.redact(key).is_some()) {
            let entries = std::mem::take(map).into_iter();
            map.extend(entries.map(|(key, value)| (self.redact(&key).unwrap_or(key), value)));
            changed = true;
        }
        changed
    }

    fn redact_each<'a>(&self, values: impl Iterator<Item = &'a mut Value>) -> bool {
        let mut changed = false;
        for value in values {
            changed |= self.redact_json(value);
        }
        changed
    }

    fn without_values(&self, text: &str, cut: Cut) -> Option<String> {
        let replacements = self.replacements(text, cut);
        if replacements.is_empty() {
            return None;
        }
        let mut redacted = String::with_capacity(text.len());
        let mut kept = 0;
        for Replacement { range, mark } in replacements {
            redacted.push_str(&text[kept..range.start]);
            redacted.push_str(&mark);
            kept = range.end;
        }
        redacted.push_str(&text[kept..]);
        Some(redacted)
    }

    /// Replacements in a text, in order and without overlaps (I2).
    pub(crate) fn replacements(&self, text: &str, cut: Cut) -> Vec<Replacement> {
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        for Secret { name, value } in self.secrets.iter() {
            found.extend(occurrences(text, value, cut).into_iter().map(|range| (range, name.as_str())));
        }
        match self.marks {
            Marks::Record => found.sort_by_key(|(range, _)| (range.start, range.end)),
            Marks::Tool => found.sort_by_key(|(range, _)| (range.start, Reverse(range.end))),
        }
        let mut merged: Vec<(Range<usize>, Vec<&str>)> = Vec::new();
        for (range, name) in found {
            match merged.last_mut() {
                Some((last, _)) if self.marks == Marks::Tool && range.end <= last.end => {}
                Some((last, names)) if range.start < last.end => {
                    last.end = last.end.max(range.end);
                    if !names.contains(&name) {
                        names.push(name);
                    }
                }
                _ => merged.push((range, vec![name])),
            }
        }
        let replacement = |(range, names): (_, Vec<&str>)| {
            let mark = names.into_iter().map(|name| self.mark(name)).collect();
            Replacement { range, mark }
        };
        merged.into_iter().map(replacement).collect()
    }

    fn mark(&self, name: &str) -> String {
        match self.marks {
            Marks::Record => redaction_mark(name),
            Marks::Tool => format!("[{name}]"),
        }
    }
}

impl Secret {
    fn new((name, value): (String, String)) -> Self {
        Self { name, value: value.chars().collect() }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// The text that replaces the value of a secret in records.
#[must_use]
pub fn redaction_mark(name: &str) -> String {
    format!("[redacted {name}]")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn owned(secrets: &[(&str, &str)]) -> Vec<(String, String)> {
        secrets.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn redactor(secrets: &[(&str, &str)]) -> Redactor {
        Redactor::new(owned(secrets)).unwrap()
    }

    fn check(secrets: &[(&str, &str)], text: &str, expected: &str) {
        let got = redactor(secrets).redact(text);
        assert_eq!(got.as_deref().unwrap_or(text), expected, "{text:?}");
        assert_eq!(got.is_some(), text != expected, "{text:?}");
    }

    fn check_cut(secrets: &[(&str, &str)], cut: Cut, text: &str, expected: &str) {
        let mut found = text.to_owned();
        let changed = Redactor::for_tools(owned(secrets)).redact_cut(&mut found, cut);
        assert_eq!((found.as_str(), changed), (expected, text != expected), "{text:?}");
    }

    #[test]
    fn values_become_marks() {
        check(&[("KEY", "hunter2-hunter2")], "a hunter2-hunter2, b", "a [redacted KEY], b");
        check(&[("KEY", " hunter2-x\n")], "hunter2-xhunter2-x", "[redacted KEY][redacted KEY]");
        check(&[("KEY", "hunter2-x")], "hunter2", "hunter2");
        check(&[], "anything", "anything");
    }

    #[test]
    fn i1_every_spelling_is_redacted() {
        let odd = [("KEY", "a+b/\"c\\d\u{e9}\u{1f511}")];
        for spelled in [
            "a+b/\"c\\d\u{e9}\u{1f511}",
            r#"a+b/\"c\\d\u00e9\ud83d\udd11"#,
            r#"a\u002Bb\/\u0022c\\d\u00E9\uD83D\uDD11"#,
            r#"a+b\\/\\\"c\\\\d\\u00e9\\ud83d\\udd11"#,
            "a%2Bb%2F%22c%5Cd%C3%A9%F0%9F%94%91",
            "a%2bb%2f%22c%5cd%c3%a9%f0%9f%94%91",
            "a%252Bb%252F%2522c%255Cd%25C3%25A9%25F0%259F%2594%2591",
            "a+b\r\n/\"c\\d\u{e9}\x1b[0m\u{1f511}",
        ] {
            check(&odd, &format!("<{spelled}>"), "<[redacted KEY]>");
            check_cut(&odd, Cut::None, &format!("<{spelled}>"), "<[KEY]>");
        }
        check(&[("KEY", "one two three")], "one+two%20three", "[redacted KEY]");
        check(&[("KEY", "50%25-off")], "50%25-off 50%2525-off", "[redacted KEY] [redacted KEY]");
        let others = r"a+b/ a+b/'c %zz \ud83d \\\\\\\\";
        check(&odd, others, others);
    }

    #[test]
    fn short_values_of_tools_stay() {
        let secrets = [("KEY", " abcdefgh\n"), ("SHORT", "EMPTY")];
        check_cut(&secrets, Cut::None, "abcdefgh EMPTY", "[KEY] EMPTY");
    }

    #[test]
    fn i2_overlapping_values_become_one_stretch() {
        let both = [("A", "abcdefgh"), ("B", "efghijkl")];
        check(&both, "<abcdefghijkl>", "<[redacted A][redacted B]>");
        check(&both, "<efghijkl abcdefgh>", "<[redacted B] [redacted A]>");
        check(&[("A", "abababab")], "abababababX", "[redacted A]X");
        check(&[("A", "abcdefghij"), ("B", "cdefghij")], "abcdefghij", "[redacted A][redacted B]");
        check(&[("A", "abcdefghij"), ("B", "abcdefgh")], "abcdefghij", "[redacted B][redacted A]");
        check_cut(&both, Cut::None, "<abcdefghijkl>", "<[A][B]>");
        check_cut(&both, Cut::End, "<abcdefghij", "<[A][B]");
        let inner = [("KEY", "abcdefgh"), ("LONG", "abcdefgh-more")];
        check_cut(&inner, Cut::None, "abcdefgh-more", "[LONG]");
        check_cut(&[("KEY", "abababab")], Cut::None, "abababababX", "[KEY]X");
    }

    #[test]
    fn i5_parts_at_cut_edges_are_redacted() {
        let one = [("KEY", "abcd\"efgh")];
        check_cut(&one, Cut::None, "efgh and abcd", "efgh and abcd");
        check_cut(&one, Cut::End, "efgh and abcd", "efgh and [KEY]");
        check_cut(&one, Cut::End, r"and abcd\u00", "and [KEY]");
        check_cut(&one, Cut::End, "and abcd%2", "and [KEY]");
        check_cut(&one, Cut::End, "and ab\r\ncd", "and [KEY]");
        check_cut(&one, Cut::End, "and abc", "and abc");
        check_cut(&one, Cut::End, "and abcd e", "and abcd e");
        check_cut(&one, Cut::Both, "efgh and abcd", "[KEY] and [KEY]");
        check_cut(&one, Cut::Both, "22efgh and", "[KEY] and");
        check_cut(&one, Cut::Both, "fgh and", "fgh and");
        check_cut(&one, Cut::Both, "cd\"ef", "[KEY]");
        check_cut(&[("KEY", "clé-clé-clé")], Cut::End, "cl\u{e9}-cl\u{fffd}", "[KEY]");
    }

    #[test]
    fn ambiguous_values_are_refused() {
        let check = |name: &str, value: &str, expected: &str| {
            let error = Redactor::new([(name.to_owned(), value.to_owned())]).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            "KEY",
            "short",
            "the value of KEY has 5 bytes; a secret needs at least 8 to differ from ordinary text",
        );
        check("KEY", &"x".repeat(5_000), "the value of KEY has 5000 bytes; a secret may have at most 4096");
        check("KEY", "redacted", "the value of KEY is a part of the mark that would replace it");
    }

    #[test]
    fn value_in_plan_is_found_and_debug_shows_none() {
        let redactor = redactor(&[("KEY", "quo\"ted-value")]);
        assert_eq!(redactor.found_in(&json!({ "vars": ["a quo\"ted-value"] })), Some("KEY"));
        assert_eq!(redactor.found_in(&json!({ "vars": ["a quoted-value"] })), None);
        assert_eq!(format!("{redactor:?}"), "[\"KEY\"]");
    }

    #[test]
    fn json_texts_and_keys_are_redacted() {
        let redactor = Redactor::for_tools(owned(&[("KEY", "abcdefgh")]));
        let mut schema =
            json!({"properties": {"abcdefgh": {"enum": ["abcdefgh", 1], "default": "x abcdefgh"}}});
        assert!(redactor.redact_json(&mut schema));
        assert_eq!(schema, json!({"properties": {"[KEY]": {"enum": ["[KEY]", 1], "default": "x [KEY]"}}}));
        assert!(!redactor.redact_json(&mut schema));
    }

    /// Eight consecutive characters of a value that a text still holds, in this spelling.
    fn leak(text: &str, value: &str, spell: impl Fn(&str) -> String) -> Option<String> {
        let characters: Vec<char> = value.chars().collect();
        let eights = characters.windows(8).map(|eight| spell(&eight.iter().collect::<String>()));
        eights.into_iter().find(|eight| text.contains(eight.as_str()))
    }

    fn as_json(text: &str) -> String {
        let quoted = serde_json::to_string(text).unwrap();
        quoted[1..quoted.len() - 1].to_owned()
    }

    /// JSON as Python's `json.dumps` writes it by default.
    fn as_ascii_json(text: &str) -> String {
        let unit = |c: char| match c {
            c if c.is_ascii() => as_json(c.encode_utf8(&mut [0; 4])),
            c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
        };
        text.chars().map(unit).collect()
    }

    fn as_url(text: &str) -> String {
        let byte = |byte: u8| match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        };
        text.bytes().map(byte).collect()
    }

    const SPELLINGS: [fn(&str) -> String; 6] = [
        str::to_owned,
        as_json,
        |text| as_json(&as_json(text)),
        as_ascii_json,
        as_url,
        |text| as_url(&as_url(text)),
    ];

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
            let redacted = redactor(&secrets).redact(&text).unwrap_or(text);
            for (name, value) in secrets {
                let mut spelled = value.to_owned();
                for _ in 0..=depth {
                    prop_assert!(!redacted.contains(&spelled), "{name} in {redacted}");
                    spelled = as_json(&spelled);
                }
            }
        }

        /// I1 and I5: a value anywhere in a text, which is cut anywhere.
        #[test]
        fn i1_i5_no_cut_shows_eight_characters(
            value in "[ab\"\\\\/%+\u{e9}\u{1f511}][ab0-9\"\\\\/%+ \u{e9}\u{1f511}]{6,20}[ab/]",
            spelling in 0..SPELLINGS.len(),
            (before, between, after) in ("[xyz \n]{0,20}", "[xyz \n]{1,20}", "[xyz \n]{0,20}"),
            (start, end) in (0usize..200, 0usize..200),
        ) {
            let spell = SPELLINGS[spelling];
            let spelled = spell(&value);
            let text = format!("{before}{spelled}{between}{spelled}{after}");
            let redactor = Redactor::for_tools(owned(&[("KEY", &value)]));
            let (start, end) = (start % (text.len() + 1), end % (text.len() + 1));
            let pieces = [
                (0..text.len(), Cut::None),
                (0..end, Cut::End),
                (start..text.len(), Cut::Both),
                (start.min(end)..start.max(end), Cut::Both),
            ];
            for (range, cut) in pieces {
                let mut piece = String::from_utf8_lossy(&text.as_bytes()[range]).into_owned();
                redactor.redact_cut(&mut piece, cut);
                let left = leak(&piece, &value, spell);
                prop_assert_eq!(left, None, "{:?} of {:?}", piece, text);
            }
        }

        /// I3.
        #[test]
        fn i3_other_text_stays(text in "[c-z0-9%\\\\ \n]{0,80}") {
            let redactor = Redactor::for_tools(owned(&[("KEY", "ABABABAB")]));
            for cut in [Cut::None, Cut::End, Cut::Both] {
                let mut redacted = text.clone();
                prop_assert!(!redactor.redact_cut(&mut redacted, cut));
                prop_assert_eq!(&redacted, &text);
            }
        }
    }
}
