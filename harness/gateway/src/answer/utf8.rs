//! Text from bytes that arrive in pieces, like those of tokens.
//!
//! I1. However the bytes are split, the texts concatenate to the text of all bytes, with U+FFFD for invalid UTF-8. I2. A complete character
//! is not held back.

use std::borrow::Cow;

/// Bytes of an incomplete character.
#[derive(Debug, Default)]
pub struct Utf8Assembly {
    held: Vec<u8>,
}

impl Utf8Assembly {
    /// Whether nothing is held back.
    pub(crate) fn is_idle(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes bytes, and returns the complete text.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, str> {
        if self.held.is_empty()
            && let Ok(whole) = str::from_utf8(bytes)
        {
            return whole.into();
        }
        self.held.extend_from_slice(bytes);
        let mut text = String::new();
        loop {
            match str::from_utf8(&self.held) {
                Ok(whole) => {
                    text.push_str(whole);
                    self.held.clear();
                    return text.into();
                }
                Err(error) => {
                    let (whole, rest) = self.held.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(whole));
                    let Some(bad) = error.error_len() else {
                        self.held = rest.to_vec();
                        return text.into();
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    self.held = rest[bad..].to_vec();
                }
            }
        }
    }

    /// The rest, at the end.
    #[must_use]
    pub fn end(self) -> String {
        String::from_utf8_lossy(&self.held).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(pieces: &[&[u8]], expected: &[&str]) {
        let mut assembly = Utf8Assembly::default();
        let mut texts: Vec<String> = pieces.iter().map(|bytes| assembly.push(bytes).into_owned()).collect();
        texts.push(assembly.end());
        assert_eq!(texts, expected);
    }

    #[test]
    fn push_returns_whole_characters_at_once() {
        check(&[b"ab", b"c"], &["ab", "c", ""]);
        check(&[b"\xc3", b"\xa4x"], &["", "äx", ""]);
        check(&["€".as_bytes().split_at(2).0, b"\xac"], &["", "€", ""]);
        check(&[b"\xf0\x9f", b"\x98\x80"], &["", "😀", ""]);
        check(&[b"a\xff", b"b"], &["a\u{fffd}", "b", ""]);
        check(&[b"a\xc3"], &["a", "\u{fffd}"]);
        check(&[b"\xc3", b"b"], &["", "\u{fffd}b", ""]);
    }

    proptest! {
        /// I1.
        #[test]
        fn pieces_do_not_change_the_result(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x80..0xf5u8], 0..40), cut in 1..7usize) {
            let mut assembly = Utf8Assembly::default();
            let mut text: String = bytes.chunks(cut).map(|bytes| assembly.push(bytes)).collect();
            text += &assembly.end();
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
