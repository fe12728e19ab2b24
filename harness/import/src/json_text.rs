//! JSON as programs of others write it, which is a little more than JSON.
//!
//! P1. JSON is read as it stands. P2. What Python's `json` writes beyond JSON is read, too: `NaN`, the infinities and numbers
//! that are too large count as `null`, half of a surrogate pair as U+FFFD. P3. A line keeps its length where there is room for
//! it, so that places in what is read are places in the file.
//!
//! Source: RFC 8259, and the documentation of Python's `json` module ("Infinite and NaN Number Values"). Pure.

use std::borrow::Cow;

use serde_json::Value;

/// The sign that Windows puts before a text in UTF-8.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// What half of a surrogate pair becomes.
const REPLACEMENT: &str = "\\ufffd";

/// Reads one value (P1, P2).
///
/// # Errors
/// A text that is no JSON even so. The place is that of the first thing that is not.
pub(crate) fn read(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| match as_json(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(json) => serde_json::from_str(&json),
    })
}

/// The text with what is beyond JSON replaced; borrowed where there is nothing to replace.
pub(crate) fn as_json(text: &str) -> Cow<'_, str> {
    let mut writing = Writing { text, written: String::new(), taken: 0 };
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at = match byte {
            b'"' => string(&mut writing, at + 1),
            b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => word(&mut writing, at),
            _ => at + 1,
        };
    }
    writing.finish()
}

/// The rest of a string that begins before `at`, to behind its end. Strings of JSON have no line breaks: one that is not closed
/// ends with its line.
fn string(writing: &mut Writing<'_>, mut at: usize) -> usize {
    let bytes = writing.text.as_bytes();
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\n' => return at,
            b'\\' => match code_unit(bytes, at) {
                Some(0xd800..0xdc00) if matches!(code_unit(bytes, at + 6), Some(0xdc00..0xe000)) => at += 12,
                Some(0xd800..0xe000) => {
                    writing.replace(at, at + 6, REPLACEMENT);
                    at += 6;
                }
                // A line break that somebody put behind a backslash ends the line all the same.
                _ if bytes.get(at + 1) == Some(&b'\n') => at += 1,
                _ => at += 2,
            },
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The UTF-16 code unit that `\uXXXX` stands for, if that is here.
fn code_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A word or a number, to behind its end.
fn word(writing: &mut Writing<'_>, at: usize) -> usize {
    let bytes = writing.text.as_bytes();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_');
    let end = at + bytes[at..].iter().take_while(|byte| is_part(byte)).count();
    let word = &writing.text[at..end];
    let is_beyond = match word {
        "NaN" | "Infinity" | "-Infinity" => true,
        // Rust reads more as a number than JSON has, such as `inf`; what has no digit stays as it is.
        _ => {
            word.bytes().any(|byte| byte.is_ascii_digit()) && word.parse::<f64>().is_ok_and(f64::is_infinite)
        }
    };
    if is_beyond {
        // P3. Of white space before it, one more may go.
        let from = at - usize::from(word == "NaN" && at > writing.taken && bytes[at - 1] == b' ');
        writing.replace(from, end, &format!("{:<width$}", "null", width = end - from));
    }
    end
}

/// A text on its way, copied only once something is replaced.
struct Writing<'t> {
    text: &'t str,
    written: String,
    /// How much of the text is written.
    taken: usize,
}

impl<'t> Writing<'t> {
    fn replace(&mut self, from: usize, to: usize, by: &str) {
        self.written.push_str(&self.text[self.taken..from]);
        self.written.push_str(by);
        self.taken = to;
    }

    fn finish(mut self) -> Cow<'t, str> {
        if self.taken == 0 {
            return Cow::Borrowed(self.text);
        }
        self.written.push_str(&self.text[self.taken..]);
        Cow::Owned(self.written)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(text: &str, expected: Option<Value>) {
        assert_eq!(read(text).ok(), expected, "{text}");
    }

    #[test]
    fn p2_numbers_that_json_does_not_have_count_as_null() {
        check("{\"a\": NaN}", Some(json!({ "a": null })));
        check("[NaN,Infinity,-Infinity,NaN]", Some(json!([null, null, null, null])));
        check("{\"a\": 1e999, \"b\": -1e999, \"c\": 1e9}", Some(json!({ "a": null, "b": null, "c": 1e9 })));
        check(&format!("[{}]", "9".repeat(400)), Some(json!([null])));
        check("{\"NaN\": \"Infinity\", \"b\": NaN}", Some(json!({ "NaN": "Infinity", "b": null })));
        check("{\"a\": \"x\\\"NaN\", \"b\": NaN}", Some(json!({ "a": "x\"NaN", "b": null })));
        for no_json in ["{\"a\": nan}", "{\"a\": inf}", "{\"a\": NaN", "NaNNaN", "[1e999x]", "{NaN: 1}"] {
            check(no_json, None);
        }
    }

    #[test]
    fn p2_half_a_surrogate_pair_becomes_a_replacement_character() {
        check(r#"["\ud83d"]"#, Some(json!(["\u{fffd}"])));
        check(r#"["\ude00\ud83d\ude00\uD83D!"]"#, Some(json!(["\u{fffd}\u{1f600}\u{fffd}!"])));
        check(r#"["\\ud83d", "\ud83d"]"#, Some(json!(["\\ud83d", "\u{fffd}"])));
        check(r#"["\ud83d\ud83d\ude00"]"#, Some(json!(["\u{fffd}\u{1f600}"])));
        check(r#"["\ud8"]"#, None);
    }

    #[test]
    fn p3_places_stay_where_they_are() {
        for text in ["{\"a\": NaN, \"b\": }", "{\"a\": -Infinity, \"b\": }", "{\"a\": \"\\ud83d\", \"b\": }"]
        {
            assert_eq!(read(text).unwrap_err().column(), text.find('}').unwrap() + 1, "{text}");
            assert_eq!(as_json(text).len(), text.len());
        }
    }

    #[test]
    fn strings_that_are_not_closed_end_with_their_line() {
        assert_eq!(as_json("{\"a\": \"x\\\n{\"a\": NaN}"), "{\"a\": \"x\\\n{\"a\":null}");
    }

    proptest! {
        #[test]
        fn p1_json_is_read_as_it_stands(value in any_json()) {
            let text = value.to_string();
            prop_assert_eq!(&*as_json(&text), &text);
            prop_assert_eq!(read(&text).unwrap(), value);
        }

        #[test]
        fn whatever_is_read_nothing_panics(text in ".{0,64}") {
            let _ = read(&text);
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(".*", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }
}
