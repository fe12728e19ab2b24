//! Redacts the key from a text that arrives in pieces.
//!
//! I1. The key never passes, even if it is split between pieces. I2. All other text passes in order; only a possible
//! beginning of the key is held back.
//!
//! Pure; nothing to cancel.

use std::borrow::Cow;

use crate::secret::Secret;

/// Redacts a text piece by piece.
#[derive(Debug, Default)]
pub struct Strainer {
    key: Option<Secret>,
    held: String,
    found: bool,
}

impl Strainer {
    /// Before the first piece.
    #[must_use]
    pub fn new(key: Option<Secret>) -> Self {
        Self { key, ..Self::default() }
    }

    /// Adds a piece; returns the text that cannot be part of the key.
    pub fn push(&mut self, piece: &str) -> String {
        let Some(key) = &self.key else { return piece.to_owned() };
        if piece.is_empty() {
            return String::new();
        }
        self.held.push_str(piece);
        if let Cow::Owned(without) = key.redact(&self.held) {
            self.held = without;
            self.found = true;
        }
        let held = key.begun_at_end_of(&self.held);
        let rest = self.held.split_off(self.held.len() - held);
        std::mem::replace(&mut self.held, rest)
    }

    /// Returns the text that was held back.
    pub fn end(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// Whether something is held back.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the key was there.
    pub(crate) fn has_found(&self) -> bool {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strained(pieces: &[&str]) -> (Vec<String>, bool) {
        let mut strainer = Strainer::new(Secret::new("sk-sk-12345"));
        let mut given: Vec<String> = pieces.iter().map(|piece| strainer.push(piece)).collect();
        given.push(strainer.end());
        (given, strainer.has_found())
    }

    #[test]
    fn i1_a_key_is_found_wherever_it_is_cut() {
        let check = |pieces: &[&str], expected: &[&str], found: bool| {
            assert_eq!(strained(pieces), (expected.iter().map(|text| (*text).to_owned()).collect(), found));
        };
        check(&["a sk-", "sk-123", "45 b"], &["a ", "", "[key] b", ""], true);
        check(&["sk-sk-sk-12345"], &["sk-[key]", ""], true);
        check(&["ask", " me"], &["a", "sk me", ""], false);
        check(&["sk-sk-1234"], &["", "sk-sk-1234"], false);
        let mut open = Strainer::default();
        assert_eq!((open.push("sk-sk-12345"), open.has_found()), ("sk-sk-12345".to_owned(), false));
    }

    proptest! {
        #[test]
        fn i1_i2_cuts_change_nothing(text in "[sk1-5é]{0,40}", cuts in prop::collection::vec(0usize..40, 0..6)) {
            let text = format!("{text}sk-sk-12345{text}");
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| text.is_char_boundary(*cut)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let (given, found) = strained(&pieces);
            prop_assert_eq!(given.concat(), text.replace("sk-sk-12345", "[key]"));
            prop_assert!(found);
        }
    }
}
