//! Digests of canonical forms: what clients change on the way is not in them, so that equal digests are equal
//! messages.
//!
//! I1. Every field goes in with a tag and its length, or its end, so that no two forms have the same bytes. I2. Text counts by its
//! words: white space between them is all the same. I3. JSON counts by value: order of keys, notation of numbers
//! (`1.0` is `1`) and escapes do not matter. Numbers are compared as IEEE doubles, because that is what clients in
//! JavaScript read them as.

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

    /// Of some bytes as they are.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The context `self` with one more message behind it.
    pub(crate) fn then(self, message: Self) -> Self {
        Self::pair(b"then", self, message)
    }

    /// A question with its answer, whatever was before them.
    pub(crate) fn exchange(question: Self, answer: Self) -> Self {
        Self::pair(b"exch", question, answer)
    }

    fn pair(tag: &[u8; 4], first: Self, second: Self) -> Self {
        let hash = Sha256::new().chain_update(tag).chain_update(first.0).chain_update(second.0);
        Self(hash.finalize().into())
    }
}

/// Bytes of a form that go into its hash at once: one call for each word would cost more than the hash.
const AT_ONCE: usize = 4 << 10;

/// A canonical form in the making.
#[derive(Clone)]
pub(crate) struct Canonical {
    hash: Sha256,
    /// Not in the hash yet.
    bytes: Vec<u8>,
    /// The last thing was a word: words stand behind one another, however many texts they came in.
    is_in_text: bool,
}

/// Whether this is words of printable ASCII with one space between two, and nothing else. Written so that many bytes are compared at once.
fn is_even(line: &[u8]) -> bool {
    let [b'!'..=b'~', .., b'!'..=b'~'] = line else { return false };
    let is_printable = line.iter().fold(true, |all, byte| all & matches!(byte, b' '..=b'~'));
    let has_gap =
        line.iter().zip(&line[1..]).fold(false, |any, (one, next)| any | ((*one == b' ') & (*next == b' ')));
    is_printable && !has_gap
}

impl Canonical {
    /// `kind` keeps forms of different things apart.
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

    /// A run of words is `w`, each word with a space behind it, and a line feed: no word has white space in it, so that it is its own
    /// length (I1).
    pub(crate) fn text(&mut self, text: &str) {
        self.bytes.reserve(text.len().min(AT_ONCE));
        for line in text.split('\n') {
            // Most lines are their words with a space between two.
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
                // Adding zero makes one of both zeros.
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

    /// Arguments of a call, as a model wrote them or a client wrote them again. What is not JSON counts by its words;
    /// no text at all is what some write for no arguments.
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
    fn i3_json_counts_by_value() {
        check(r#"{"a": 1.0, "b": [1e2, -0.0]}"#, r#"{"b":[100,0],"a":1}"#, true);
        check(r#"{"a":"caf\u00e9"}"#, r#"{"a":"café"}"#, true);
        check("", "{}", true);
        // What a client in JavaScript reads and writes again.
        check("12345678901234567890", "12345678901234567000", true);
        check(r#"{"a":"1"}"#, r#"{"a":1}"#, false);
        check(r#"{"a":"x  y"}"#, r#"{"a":"x y"}"#, false);
        check(r#"{"a":[]}"#, r#"{"a":{}}"#, false);
        check("[[1],2]", "[[1,2]]", false);
    }

    #[test]
    fn what_is_not_json_counts_by_its_words() {
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
        // In one text or in two, in one piece of the hash or in many.
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
        /// I2: as each word by itself.
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
