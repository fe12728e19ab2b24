//! Untrusted bytes in a message.

use std::fmt::Write as _;

/// In double quotes, with everything that is not plain text escaped, and cut after `most` characters.
#[must_use]
pub fn quote(bytes: &[u8], most: usize) -> String {
    // The part that is cut off needs no escaping: escaping never shortens.
    let (head, rest) = bytes.split_at(bytes.len().min(most.saturating_mul(4)));
    let mut escaped = String::new();
    for chunk in head.utf8_chunks() {
        // An apostrophe needs no escape between double quotes.
        for character in chunk.valid().chars() {
            if character == '\'' { escaped.push('\'') } else { escaped.extend(character.escape_debug()) }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\x{byte:02x}");
        }
    }
    if rest.is_empty() && escaped.chars().count() <= most {
        return format!("\"{escaped}\"");
    }
    let kept: String = escaped.chars().take(most).collect();
    format!("\"{kept}…\"")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(bytes: &[u8], most: usize, expected: &str) {
        assert_eq!(quote(bytes, most), expected);
    }

    #[test]
    fn quotes_are_safe_to_print() {
        check(b"plain", 10, r#""plain""#);
        check(b"a\tb\n\"'\x1b[2J\xff", 40, r#""a\tb\n\"'\u{1b}[2J\xff""#);
        check("naïve ☃ \u{202e}".as_bytes(), 40, r#""naïve ☃ \u{202e}""#);
        check(b"0123456789", 4, r#""0123…""#);
        check(&[b'x'; 100_000], 3, r#""xxx…""#);
    }

    proptest! {
        #[test]
        fn quote_is_bounded_without_control_characters(bytes: Vec<u8>, most in 1usize..50) {
            let line = quote(&bytes, most);
            prop_assert!(line.chars().count() <= most + 3);
            prop_assert!(!line.chars().any(char::is_control));
        }
    }
}
