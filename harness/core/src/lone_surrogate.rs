//! JSON with halves of surrogate pairs in it.
//!
//! Programs that keep text in units of 16 bits (JavaScript, Java, Windows) may cut a character such as an emoji in half. JSON's grammar lets
//! them write the half, `"\ud83d"`, and most readers refuse the whole text because of it. Here a half is read as U+FFFD, the replacement
//! character.
//!
//! I1. A text that reads without this module reads the same with it. I2. Where a text has halves, nothing but them is replaced.
//!
//! Pure; nothing to cancel. Source: RFC 8259, sections 7 and 8.2; U+FFFD as in WHATWG's `USVString`.

use std::borrow::Cow;
use std::ops::Range;
use std::str::Utf8Error;

use serde::de::DeserializeOwned;

/// What stands for a half, as an escape.
const REPLACEMENT: &str = "\\ufffd";
/// Bytes of an escape: `\ud83d`.
const ESCAPE: usize = 6;
/// Bytes of a half that was encoded by itself, which UTF-8 forbids.
const ENCODED: usize = 3;

/// A half of a surrogate pair, as an escape in a JSON text, whose other half is not beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoneSurrogate {
    /// Where the escape stands, in bytes.
    pub place: Range<usize>,
    /// Its number: a first half is in 0xd800..0xdc00, a second one in 0xdc00..0xe000.
    pub unit: u16,
    /// Whether its string begins with it.
    pub begins: bool,
    /// Whether its string ends with it.
    pub ends: bool,
}

impl LoneSurrogate {
    /// Whether it is the first half of a pair.
    #[must_use]
    pub fn is_first(&self) -> bool {
        is_first(self.unit)
    }
}

/// All of them, in order.
#[must_use]
pub fn lone_surrogates(json: &str) -> Vec<LoneSurrogate> {
    let bytes = json.as_bytes();
    let mut found = Vec::new();
    let (mut at, mut behind_escape) = (0, 0);
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == b'\\') {
        let begin = at + next;
        let Some(unit) = escape_at(bytes, begin) else {
            at = (begin + 2).min(bytes.len());
            behind_escape = at;
            continue;
        };
        let second = escape_at(bytes, begin + ESCAPE).filter(|second| is_second(*second));
        let is_pair = is_first(unit) && second.is_some();
        at = begin + if is_pair { 2 * ESCAPE } else { ESCAPE };
        if !is_pair && (is_first(unit) || is_second(unit)) {
            // A quote that belongs to an escape begins no string.
            let begins = begin > behind_escape && bytes[begin - 1] == b'"';
            found.push(LoneSurrogate { place: begin..at, unit, begins, ends: bytes.get(at) == Some(&b'"') });
        }
        behind_escape = at;
    }
    found
}

/// The text with U+FFFD in the place of each.
#[must_use]
pub fn without_lone_surrogates(json: &str) -> Cow<'_, str> {
    let lone = lone_surrogates(json);
    if lone.is_empty() {
        return Cow::Borrowed(json);
    }
    // An escape is as long as another.
    let mut replaced = json.to_owned();
    for surrogate in lone {
        replaced.replace_range(surrogate.place, REPLACEMENT);
    }
    Cow::Owned(replaced)
}

/// What a JSON text says, with U+FFFD in the place of each half.
///
/// # Errors
/// What is wrong with it besides.
pub fn read_json<T: DeserializeOwned>(json: &str) -> serde_json::Result<T> {
    serde_json::from_str(json).or_else(|error| match without_lone_surrogates(json) {
        Cow::Borrowed(_) => Err(error),
        Cow::Owned(replaced) => serde_json::from_str(&replaced),
    })
}

/// Bytes as text, with U+FFFD in the place of each half that was encoded by itself (`ed a0 bd`), as Python's `surrogatepass` writes it.
///
/// # Errors
/// Other bytes that are not UTF-8.
pub fn utf8_text(bytes: &[u8]) -> Result<Cow<'_, str>, Utf8Error> {
    let Err(error) = str::from_utf8(bytes) else { return str::from_utf8(bytes).map(Cow::Borrowed) };
    let is_half = |three: &[u8]| matches!(three, [0xed, 0xa0..=0xbf, 0x80..=0xbf]);
    let mut replaced = bytes.to_vec();
    let mut at = error.valid_up_to();
    while let Some(three) = replaced.get_mut(at..at + ENCODED) {
        if is_half(three) {
            three.copy_from_slice("\u{fffd}".as_bytes());
        }
        at += 1;
    }
    String::from_utf8(replaced).map(Cow::Owned).map_err(|error| error.utf8_error())
}

fn is_first(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn is_second(unit: u16) -> bool {
    (0xdc00..0xe000).contains(&unit)
}

/// The unit of an escape that begins here, if one does.
fn escape_at(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn check(json: &str, expected: &Value) {
        assert_eq!(&read_json::<Value>(json).unwrap_or_else(|error| panic!("{json}: {error}")), expected);
    }

    #[test]
    fn a_half_is_read_as_the_replacement_character() {
        check(r#""cut here: \ud83d and on""#, &json!("cut here: \u{fffd} and on"));
        check(r#""\ude00""#, &json!("\u{fffd}"));
        check(r#""\ud83d\ud83d\ude00""#, &json!("\u{fffd}😀"));
        check(r#""\ude00\ud83d""#, &json!("\u{fffd}\u{fffd}"));
        check(r#""\uD83Dx\uDE00""#, &json!("\u{fffd}x\u{fffd}"));
        check(r#"{"\ud83d": ["\ud83d"]}"#, &json!({"\u{fffd}": ["\u{fffd}"]}));
        // What an escaped backslash stands before is text.
        check(r#""\\ud83d \ud83d""#, &json!("\\ud83d \u{fffd}"));
        check(r#""\ud83d\n\u0041""#, &json!("\u{fffd}\nA"));
    }

    #[test]
    fn whole_pairs_and_other_texts_are_left_alone() {
        for json in [r#""\ud83d\ude00""#, r#""\\ud83d""#, "[1]", r#"{"a": "\u00e9"}"#] {
            assert!(matches!(without_lone_surrogates(json), Cow::Borrowed(_)), "{json}");
        }
        for json in [r#""\ud83""#, r#""\ud8"#, "\"\\", r#""\ud83d"#, r#"{"a": "\ud83d",}"#, ""] {
            assert!(read_json::<Value>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn it_is_known_whether_a_half_begins_or_ends_its_string() {
        let edges = |json: &str| -> Vec<(bool, bool)> {
            lone_surrogates(json).iter().map(|lone| (lone.begins, lone.ends)).collect()
        };
        assert_eq!(edges(r#"{"a": "\ude00b\ud83d"}"#), [(true, false), (false, true)]);
        assert_eq!(edges(r#"["\"\ude00\""]"#), [(false, false)]);
        assert_eq!(edges(r#"["\ude00"]"#), [(true, true)]);
        assert_eq!(edges(r#"["\ud83d\ude00\ude00"]"#), [(false, true)]);
    }

    #[test]
    fn halves_that_were_encoded_by_themselves_are_replaced() {
        let text = |bytes: &[u8]| utf8_text(bytes).map(Cow::into_owned).ok();
        assert_eq!(text(b"a \xed\xa0\xbd b"), Some("a \u{fffd} b".to_owned()));
        assert_eq!(text(b"\xed\xa0\xbd\xed\xb8\x80"), Some("\u{fffd}\u{fffd}".to_owned()));
        assert_eq!(text("\u{d7ff}é😀".as_bytes()), Some("\u{d7ff}é😀".to_owned()));
        for bytes in [&b"caf\xe9"[..], b"\xed\xa0", b"\xf0\x9f\x98", b"\xed\xa0\xbd \xff"] {
            assert_eq!(text(bytes), None, "{bytes:?}");
        }
    }

    proptest! {
        /// I1 and I2: any units of 16 bits are read as Rust's own replacing decoder reads them.
        #[test]
        fn i1_i2_texts_of_16_bit_units_are_read_as_decoders_read_them(
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
        fn i1_what_reads_without_it_reads_the_same(text in any::<String>()) {
            let json = json!({"text": text});
            prop_assert_eq!(&read_json::<Value>(&json.to_string()).unwrap(), &json);
            let read = utf8_text(text.as_bytes()).unwrap().into_owned();
            prop_assert_eq!(read, text);
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(text) = utf8_text(&bytes) {
                let _ = read_json::<Value>(&text);
            }
        }
    }
}
