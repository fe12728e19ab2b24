//! Lenient JSON, as other programs write it.
//!
//! P1. Valid JSON is read as such. P2. An unpaired surrogate, which JavaScript and Python write if a text was cut inside an emoji, is
//! read as U+FFFD, the replacement character. P3. On request, numbers that Python's `json` writes beyond JSON read as `null`:
//! `NaN`, the infinities and numbers that are too large. Readers of scores and rewards do not request it: there such a number is a fault.
//! P4. A line keeps its length where possible, so that positions in the result are positions in the file.
//!
//! Source: RFC 8259, sections 7 and 8.2; the documentation of Python's `json` module ("Infinite and NaN Number Values"); U+FFFD as in
//! WHATWG's `USVString`. Pure.

use std::borrow::Cow;
use std::ops::Range;
use std::str::Utf8Error;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The sign that Windows puts before a text in UTF-8.
pub const BYTE_ORDER_MARK: char = '\u{feff}';

/// Replacement of an unpaired surrogate.
const REPLACEMENT: &str = "\\ufffd";

/// Bytes of an escape: `\ud83d`.
const ESCAPE: usize = 6;

/// Parses a JSON text (P1, P2).
///
/// # Errors
/// A text that is invalid even so. The position is that of the first error.
pub fn read_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    read_replaced(text, without_lone_surrogates)
}

/// Parses a JSON text written by Python (P1 to P3).
///
/// # Errors
/// As for [`read_json`].
pub fn read_python_json(text: &str) -> serde_json::Result<Value> {
    read_replaced(text, python_as_json)
}

fn read_replaced<T: DeserializeOwned>(
    text: &str,
    replaced: fn(&str) -> Cow<'_, str>,
) -> serde_json::Result<T> {
    serde_json::from_str(text).or_else(|error| match replaced(text) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(json) => serde_json::from_str(&json),
    })
}

/// Bytes as text, with U+FFFD in the place of each half of a surrogate pair that was encoded by itself (`ed a0 bd`), as Python's
/// `surrogatepass` writes it.
///
/// # Errors
/// Other bytes that are not UTF-8.
pub fn utf8_text(bytes: &[u8]) -> Result<Cow<'_, str>, Utf8Error> {
    let Err(error) = str::from_utf8(bytes) else { return str::from_utf8(bytes).map(Cow::Borrowed) };
    let is_half = |three: &[u8]| matches!(three, [0xed, 0xa0..=0xbf, 0x80..=0xbf]);
    let mut replaced = bytes.to_vec();
    let mut at = error.valid_up_to();
    while let Some(three) = replaced.get_mut(at..at + 3) {
        if is_half(three) {
            three.copy_from_slice("\u{fffd}".as_bytes());
        }
        at += 1;
    }
    String::from_utf8(replaced).map(Cow::Owned).map_err(|error| error.utf8_error())
}

/// The text with unpaired surrogates replaced (P2); borrowed if there are none.
#[must_use]
pub fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    let mut writing = Writing::of(json);
    for lone in lone_surrogates(json) {
        writing.replace(lone.place, REPLACEMENT);
    }
    writing.finish()
}

/// The text with all that is beyond JSON replaced (P2, P3); borrowed where there is nothing to replace.
#[must_use]
pub fn python_as_json(text: &str) -> Cow<'_, str> {
    let mut writing = Writing::of(text);
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at = match byte {
            b'"' => string(text, at + 1, &mut |lone| writing.replace(lone.place, REPLACEMENT)),
            b'-' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => word(&mut writing, at),
            _ => at + 1,
        };
    }
    writing.finish()
}

/// An unpaired surrogate, written as an escape in a JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoneSurrogate {
    /// Position of the escape, in bytes.
    pub place: Range<usize>,
    /// Its code unit: a leading one is in 0xd800..0xdc00, a trailing one in 0xdc00..0xe000.
    pub unit: u16,
    /// Whether its string starts with it.
    pub begins: bool,
    /// Whether its string ends with it.
    pub ends: bool,
}

impl LoneSurrogate {
    /// Whether it is a leading surrogate.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.unit < 0xdc00
    }
}

/// All of them, in order.
#[must_use]
pub fn lone_surrogates(json: &str) -> Vec<LoneSurrogate> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(quote) = json[at..].find('"') {
        at = string(json, at + quote + 1, &mut |lone| found.push(lone));
    }
    found
}

/// Length of a string that starts at `begin`, closing quote included. JSON strings contain no line breaks: an unclosed string ends with
/// its line.
fn string(text: &str, begin: usize, found: &mut impl FnMut(LoneSurrogate)) -> usize {
    let bytes = text.as_bytes();
    let mut at = begin;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\n' => return at,
            b'\\' => match code_unit(bytes, at) {
                Some(0xd800..0xdc00) if matches!(code_unit(bytes, at + ESCAPE), Some(0xdc00..0xe000)) => {
                    at += 2 * ESCAPE;
                }
                Some(unit @ 0xd800..0xe000) => {
                    let place = at..at + ESCAPE;
                    at = place.end;
                    let ends = bytes.get(at) == Some(&b'"');
                    found(LoneSurrogate { begins: place.start == begin, ends, unit, place });
                }
                // An escaped line break ends the line, too.
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
    let digits = bytes.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
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
        // Rust parses more numbers than JSON has, such as `inf`; text without a digit is left unchanged.
        _ => {
            word.bytes().any(|byte| byte.is_ascii_digit()) && word.parse::<f64>().is_ok_and(f64::is_infinite)
        }
    };
    if is_beyond {
        // P4. Of white space before it, one more may go.
        let from = at - usize::from(word == "NaN" && at > writing.taken && bytes[at - 1] == b' ');
        writing.replace(from..end, &format!("{:<width$}", "null", width = end - from));
    }
    end
}

/// A text on its way, copied only once something is replaced.
struct Writing<'t> {
    text: &'t str,
    written: String,
    /// Length of the text that is already written.
    taken: usize,
}

impl<'t> Writing<'t> {
    fn of(text: &'t str) -> Self {
        Self { text, written: String::new(), taken: 0 }
    }

    fn replace(&mut self, place: Range<usize>, by: &str) {
        self.written.push_str(&self.text[self.taken..place.start]);
        self.written.push_str(by);
        self.taken = place.end;
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
        assert_eq!(read_python_json(text).ok(), expected, "{text}");
    }

    #[test]
    fn p3_numbers_that_json_does_not_have_count_as_null() {
        check("{\"a\": NaN}", Some(json!({ "a": null })));
        check("[NaN,Infinity,-Infinity,NaN]", Some(json!([null, null, null, null])));
        check("{\"a\": 1e999, \"b\": -1e999, \"c\": 1e9}", Some(json!({ "a": null, "b": null, "c": 1e9 })));
        check(&format!("[{}]", "9".repeat(400)), Some(json!([null])));
        check("{\"NaN\": \"Infinity\", \"b\": NaN}", Some(json!({ "NaN": "Infinity", "b": null })));
        check("{\"a\": \"x\\\"NaN\", \"b\": NaN}", Some(json!({ "a": "x\"NaN", "b": null })));
        for no_json in ["{\"a\": nan}", "{\"a\": inf}", "{\"a\": NaN", "NaNNaN", "[1e999x]", "{NaN: 1}"] {
            check(no_json, None);
        }
        for python in ["NaN", "[-Infinity]", "{\"a\": \"\\ud83d\", \"b\": 1e999}"] {
            assert!(read_json::<Value>(python).is_err(), "{python}");
        }
    }

    #[test]
    fn p2_unpaired_surrogate_becomes_u_fffd() {
        check(r#"["\ud83d"]"#, Some(json!(["\u{fffd}"])));
        check(r#"["\ude00\ud83d\ude00\uD83D!"]"#, Some(json!(["\u{fffd}\u{1f600}\u{fffd}!"])));
        check(r#"["\\ud83d", "\ud83d"]"#, Some(json!(["\\ud83d", "\u{fffd}"])));
        check(r#"["\ud83d\ud83d\ude00"]"#, Some(json!(["\u{fffd}\u{1f600}"])));
        check(r#"{"\ud83d\n\u0041": ["\uDE00"]}"#, Some(json!({"\u{fffd}\nA": ["\u{fffd}"]})));
        check(r#"["\ud8"]"#, None);
    }

    #[test]
    fn p4_places_stay_where_they_are() {
        for text in ["{\"a\": NaN, \"b\": }", "{\"a\": -Infinity, \"b\": }", "{\"a\": \"\\ud83d\", \"b\": }"]
        {
            assert_eq!(read_python_json(text).unwrap_err().column(), text.find('}').unwrap() + 1, "{text}");
            assert_eq!(python_as_json(text).len(), text.len());
        }
    }

    #[test]
    fn surrogate_knows_if_it_starts_or_ends_its_string() {
        let edges = |json: &str| -> Vec<(bool, bool)> {
            lone_surrogates(json).iter().map(|lone| (lone.begins, lone.ends)).collect()
        };
        assert_eq!(edges(r#"{"a": "\ude00b\ud83d"}"#), [(true, false), (false, true)]);
        assert_eq!(edges(r#"["\"\ude00\""]"#), [(false, false)]);
        assert_eq!(edges(r#"["\ude00"]"#), [(true, true)]);
        assert_eq!(edges(r#"["\ud83d\ude00\ude00"]"#), [(false, true)]);
    }

    #[test]
    fn encoded_unpaired_surrogates_are_replaced() {
        let text = |bytes: &[u8]| utf8_text(bytes).map(Cow::into_owned).ok();
        assert_eq!(text(b"a \xed\xa0\xbd b"), Some("a \u{fffd} b".to_owned()));
        assert_eq!(text(b"\xed\xa0\xbd\xed\xb8\x80"), Some("\u{fffd}\u{fffd}".to_owned()));
        assert_eq!(text("\u{d7ff}é😀".as_bytes()), Some("\u{d7ff}é😀".to_owned()));
        for bytes in [&b"caf\xe9"[..], b"\xed\xa0", b"\xf0\x9f\x98", b"\xed\xa0\xbd \xff"] {
            assert_eq!(text(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn unclosed_strings_end_with_their_line() {
        assert_eq!(python_as_json("{\"a\": \"x\\\n{\"a\": NaN}"), "{\"a\": \"x\\\n{\"a\":null}");
    }

    proptest! {
        #[test]
        fn p1_json_is_read_as_it_stands(value in any_json()) {
            let text = value.to_string();
            prop_assert_eq!(&*python_as_json(&text), &text);
            prop_assert_eq!(read_python_json(&text).unwrap(), value.clone());
            prop_assert_eq!(read_json::<Value>(&text).unwrap(), value);
        }

        /// P2: any units of 16 bits are read as Rust's own replacing decoder reads them.
        #[test]
        fn p2_utf16_texts_read_like_decoders(
            units in prop::collection::vec(
                prop_oneof![Just(0xd83d), Just(0xde00), Just(0x22), Just(0x5c), Just(0x75), any::<u16>()],
                0..30,
            ),
        ) {
            let json: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let expected = String::from_utf16_lossy(&units);
            prop_assert_eq!(read_json::<Value>(&format!("\"{json}\"")).unwrap(), json!(expected));
        }

        #[test]
        fn whatever_is_read_nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), text in ".{0,64}") {
            prop_assert_eq!(utf8_text(text.as_bytes()).unwrap(), &*text);
            for text in [&*text, &*utf8_text(&bytes).unwrap_or_default()] {
                let _ = (read_json::<Value>(text), read_python_json(text));
            }
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
