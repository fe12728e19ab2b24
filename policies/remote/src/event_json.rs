//! Parses the JSON of stream events, where a surrogate pair may be split between two events.
//!
//! A server that cuts texts at UTF-16 units may end one event with the first half of an emoji and begin the next with the
//! second half.
//!
//! I1. A half at the end of a text and one at the beginning of a text in the next event form one character, in the second
//! event. I2. Any other half becomes U+FFFD; a first half at the end of a text without a second half is left out.
//!
//! Pure; nothing to cancel.

use clawrl_core::lone_surrogates;
use serde_json::Value;

/// Reads events in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventJson {
    /// First surrogate, with which a text of the last event ended.
    half: Option<u16>,
}

impl EventJson {
    /// Parses the data of an event.
    pub(crate) fn read(&mut self, data: &str) -> serde_json::Result<Value> {
        let half = self.half.take();
        let error = match serde_json::from_str(data) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let lone = lone_surrogates(data);
        if lone.is_empty() {
            return Err(error);
        }
        let mut whole = String::with_capacity(data.len() + 16);
        let mut copied = 0;
        for lone in lone {
            whole.push_str(&data[copied..lone.place.start]);
            copied = lone.place.end;
            match half {
                Some(half) if lone.begins && !lone.is_first() => {
                    whole.extend(char::decode_utf16([half, lone.unit]).flatten());
                }
                _ if lone.ends && lone.is_first() => self.half = Some(lone.unit),
                _ => whole.push(char::REPLACEMENT_CHARACTER),
            }
        }
        whole.push_str(&data[copied..]);
        serde_json::from_str(&whole)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(events: &[&str], expected: &[Value]) {
        let mut json = EventJson::default();
        let read: Vec<Value> = events.iter().map(|event| json.read(event).unwrap()).collect();
        assert_eq!(read, expected, "{events:?}");
    }

    #[test]
    fn i1_halves_in_two_events_are_one_character() {
        check(&[r#"["a\ud83d"]"#, r#"["\ude00b"]"#], &[json!(["a"]), json!(["😀b"])]);
        check(
            &[r#"{"a": "\ud83d", "b": "\ud83d"}"#, r#"{"a": "\ude00", "b": "\ude00"}"#],
            &[json!({"a": "", "b": ""}), json!({"a": "😀", "b": "😀"})],
        );
        check(
            &[r#"["\ud83d"]"#, r#"["\ude00\ud83d"]"#, r#"["\ude00"]"#],
            &[json!([""]), json!(["😀"]), json!(["😀"])],
        );
    }

    #[test]
    fn i2_other_halves_are_replaced() {
        check(&[r#"["a\ud83d b"]"#, r#"["\ude00"]"#], &[json!(["a\u{fffd} b"]), json!(["\u{fffd}"])]);
        check(
            &[r#"["a\ud83d"]"#, r#"["b"]"#, r#"["\ude00"]"#],
            &[json!(["a"]), json!(["b"]), json!(["\u{fffd}"])],
        );
        assert!(EventJson::default().read(r#"["\ud83d""#).is_err());
    }

    proptest! {
        /// I1: a text that is cut between any two UTF-16 units.
        #[test]
        fn i1_a_text_may_be_cut_between_any_two_units(text in "[a-c\"\\\\é😀🦀]{0,12}") {
            let mut json = EventJson::default();
            let mut read = String::new();
            for unit in text.encode_utf16() {
                read += json.read(&format!("[\"\\u{unit:04x}\"]")).unwrap()[0].as_str().unwrap();
            }
            prop_assert_eq!(read, text);
        }
    }
}
