//! Digests of canonical forms, which leave out what clients change: equal digests are equal messages.
//!
//! I1. Every field is written with a tag and its length or end, so that different forms have different bytes. I2. Text is compared by
//! words; white space does not matter. I3. JSON is compared by value: key order, number notation (`1.0` is `1`) and escapes do not matter.
//! Numbers are compared as IEEE doubles, because clients in JavaScript read them so.

use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// SHA-256 of a canonical form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Digest {
    /// The context before the first message.
    pub(crate) const START: Self = Self([0; 32]);

    /// Digest of raw bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The context `self`, extended by one message.
    pub(crate) fn then(self, message: Self) -> Self {
        Self::pair(b"then", self, message)
    }

    /// A question with its answer, without the history.
    pub(crate) fn exchange(question: Self, answer: Self) -> Self {
        Self::pair(b"exch", question, answer)
    }

    fn pair(tag: &[u8; 4], first: Self, second: Self) -> Self {
        let hash = Sha256::new().chain_update(tag).chain_update(first.0).chain_update(second.0);
        Self(hash.finalize().into())
    }
}

/// Bytes that are hashed at once: a call for each word would cost more than the hash.
const AT_ONCE: usize = 4 << 10;

/// A canonical form under construction.
#[derive(Clone)]
pub(crate) struct Canonical {
    hash: Sha256,
    /// Not hashed yet.
    bytes: Vec<u8>,
    /// The last element was a word: consecutive texts form one run of words.
    is_in_text: bool,
}

/// Whether this is printable ASCII words with single spaces between them. Written so that many bytes are compared at once.
fn is_even(line: &[u8]) -> bool {
    let [b'!'..=b'~', .., b'!'..=b'~'] = line else { return false };
    let is_printable = line.iter().fold(true, |all, byte| all & matches!(byte, b' '..=b'~'));
    let has_gap =
        line.iter().zip(&line[1..]).fold(false, |any, (one, next)| any | ((*one == b' ') & (*next == b' ')));
    is_printable && !has_gap
}

impl Canonical {
    /// `kind` separates forms of different kinds.
    pub(crate) fn new(kind: &str) -> Self {
        let mut form = Self { hash: Sha256::new(), bytes: Vec::new(), is_in_text: false };
        form.field(b'k', kind.as_bytes());
        form
    }

    pub(crate) fn field(&mut self, tag: u8, bytes: &[u8]) {
        self.end_text();
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.add(bytes);
    }

    /// A run of words is `w`, each word with a trailing space, and a line feed. No word contains white space, so that the space ends it
    /// (I1).
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes.reserve(text.len().min(AT_ONCE));
        for line in text.split('\n') {
            // Most lines are words with single spaces.
            let line = line.trim();
            if is_even(line.as_bytes()) {
                self.word(line.as_bytes());
            } else {
                line.split_whitespace().for_each(|word| self.word(word.as_bytes()));
            }
        }
    }

    fn word(&mut self, word: &[u8]) {
        if !std::mem::replace(&mut self.is_in_text, true) {
            self.bytes.push(b'w');
        }
        self.add(word);
        self.bytes.push(b' ');
    }

    fn end_text(&mut self) {
        if std::mem::take(&mut self.is_in_text) {
            self.bytes.push(b'\n');
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > AT_ONCE {
            self.hash.update(&self.bytes);
            self.bytes.clear();
        }
        if bytes.len() > AT_ONCE {
            self.hash.update(bytes);
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    pub(crate) fn json(&mut self, value: &Value) {
        match value {
            Value::Null => self.field(b'0', &[]),
            Value::Bool(is_true) => self.field(b'b', &[u8::from(*is_true)]),
            Value::Number(number) => match number.as_f64() {
                // Adding zero turns -0 into 0.
                Some(number) => self.field(b'd', &(number + 0.0).to_bits().to_le_bytes()),
                None => self.field(b'n', number.to_string().as_bytes()),
            },
            Value::String(text) => self.field(b's', text.as_bytes()),
            Value::Array(items) => {
                self.field(b'[', &(items.len() as u64).to_le_bytes());
                items.iter().for_each(|item| self.json(item));
            }
            Value::Object(entries) => {
                self.field(b'{', &(entries.len() as u64).to_le_bytes());
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    self.field(b'"', key.as_bytes());
                    self.json(value);
                }
            }
        }
    }

    /// Arguments of a call, as a model or a client wrote them. Text that is not JSON is compared by words; empty text means no arguments.
    pub(crate) fn arguments(&mut self, written: &str) {
        if written.trim().is_empty() {
            return self.json(&Value::Object(serde_json::Map::new()));
        }
        match serde_json::from_str(written) {
            Ok(value) => self.json(&value),
            Err(_) => {
                self.field(b'?', &[]);
                self.text(written);
            }
        }
    }

    pub(crate) fn finish(mut self) -> Digest {
        self.end_text();
        self.hash.update(&self.bytes);
        Digest(self.hash.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arguments(written: &str) -> Digest {
        let mut form = Canonical::new("test");
        form.arguments(written);
        form.finish()
    }

    fn check(one: &str, other: &str, equal: bool) {
        assert_eq!(arguments(one) == arguments(other), equal, "{one} and {other}");
    }

    #[test]
    fn i3_json_is_compared_by_value() {
        check(r#"{"a": 1.0, "b": [1e2, -0.0]}"#, r#"{"b":[100,0],"a":1}"#, true);
        check(r#"{"a":"caf\u00e9"}"#, r#"{"a":"café"}"#, true);
        check("", "{}", true);
        // As clients in JavaScript read and write it.
        check("12345678901234567890", "12345678901234567000", true);
        check(r#"{"a":"1"}"#, r#"{"a":1}"#, false);
        check(r#"{"a":"x  y"}"#, r#"{"a":"x y"}"#, false);
        check(r#"{"a":[]}"#, r#"{"a":{}}"#, false);
        check("[[1],2]", "[[1,2]]", false);
    }

    #[test]
    fn text_that_is_not_json_is_compared_by_words() {
        check("{\"a\": ", "{\"a\":  ", true);
        check("{\"a\": ", "{\"b\": ", false);
        check("null", "nul", false);
    }

    #[test]
    fn i1_fields_do_not_run_together() {
        let text = |text: &str| {
            let mut form = Canonical::new("test");
            form.text(text);
            form.finish()
        };
        assert_eq!(text(" a\n b "), text("a b"));
        let parts = |parts: &[(bool, &str)]| {
            let mut form = Canonical::new("test");
            for (is_text, part) in parts {
                if *is_text { form.text(part) } else { form.field(b'w', part.as_bytes()) }
            }
            form.finish()
        };
        // In one text or two, hashed in one block or many.
        let long = "word ".repeat(AT_ONCE);
        let (one, other) = long.split_at(5 * AT_ONCE / 2 / 5 * 5);
        let (begun, ended) = long.split_at(5 * AT_ONCE / 2 / 5 * 5 + 2);
        assert_eq!(parts(&[(true, "a"), (true, "b")]), text("a b"));
        assert_eq!(parts(&[(true, one), (true, other)]), text(&long));
        assert_ne!(parts(&[(true, begun), (true, ended)]), text(&long));
        assert_ne!(parts(&[(true, "a"), (false, ""), (true, "b")]), text("a b"));
        assert_ne!(parts(&[(true, "a"), (false, "b")]), text("a b"));
        assert_ne!(parts(&[(false, &long)]), parts(&[(false, one), (false, other)]));
        assert_ne!(text("ab"), text("a b"));
        assert_ne!(Digest::START.then(text("a")), Digest::exchange(Digest::START, text("a")));
    }

    proptest! {
        /// I2: like each word alone.
        #[test]
        fn i2_text_counts_by_its_words(text in "[ab \n\t\r.ä\u{a0}\u{7f}]{0,40}") {
            let mut words = Canonical::new("test");
            text.split_whitespace().for_each(|word| words.word(word.as_bytes()));
            let mut form = Canonical::new("test");
            form.text(&text);
            prop_assert_eq!(form.finish(), words.finish());
        }
    }
}
