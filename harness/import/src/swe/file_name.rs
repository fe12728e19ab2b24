//! File names, as git writes them in diffs.
//!
//! Source: the option `core.quotePath` of git-config: a name with control characters, quotes, backslashes or, by
//! default, non-ASCII bytes is quoted, with escapes as in C.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes of one letter, with their bytes.
const ESCAPES: [(char, u8); 9] = [
    ('a', 0x07),
    ('b', 0x08),
    ('t', b'\t'),
    ('n', b'\n'),
    ('v', 0x0b),
    ('f', 0x0c),
    ('r', b'\r'),
    ('"', b'"'),
    ('\\', b'\\'),
];

/// The quoted name at the beginning of a text, and the rest of the text.
///
/// # Errors
/// An unclosed quote, an escape that git does not write, or a name that is not UTF-8.
pub(super) fn unquoted(text: &str) -> Result<(String, &str), String> {
    let unended = || "has a name with an unclosed quote".to_owned();
    let mut name = Vec::new();
    let mut rest = text.strip_prefix('"').ok_or_else(unended)?;
    loop {
        let next = rest.chars().next().ok_or_else(unended)?;
        rest = &rest[next.len_utf8()..];
        match next {
            '"' => break,
            '\\' => {
                let (byte, length) =
                    escaped(rest).ok_or("has a name with an escape that git does not write")?;
                name.push(byte);
                rest = &rest[length..];
            }
            _ => name.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    let name = String::from_utf8(name).map_err(|_| "has a name that is not UTF-8".to_owned())?;
    Ok((name, rest))
}

/// The byte of an escape, and the length of the escape.
fn escaped(rest: &str) -> Option<(u8, usize)> {
    if let Some(octal) = rest.get(..3).filter(|octal| octal.bytes().all(|digit| matches!(digit, b'0'..=b'7')))
    {
        return Some((u8::from_str_radix(octal, 8).ok()?, 3));
    }
    let letter = rest.chars().next()?;
    ESCAPES.iter().find(|(known, _)| *known == letter).map(|(_, byte)| (*byte, 1))
}

/// A name as git reads it: quoted only if it would be ambiguous otherwise.
pub(super) fn quoted(name: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte >= b' ' && byte != 0x7f && byte != b'"' && byte != b'\\';
    if name.bytes().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut text = String::from("\"");
    for character in name.chars() {
        match u8::try_from(character).ok().filter(|byte| !is_plain(*byte)) {
            None => text.push(character),
            Some(byte) => match ESCAPES.iter().find(|(_, known)| *known == byte) {
                Some((letter, _)) => text.extend(['\\', *letter]),
                // Writing to a string does not fail.
                None => drop(write!(text, "\\{byte:03o}")),
            },
        }
    }
    text.push('"');
    Cow::Owned(text)
}

/// Whether a path stays inside a repository and outside its `.git`, in any case. Git applies no others.
pub(super) fn is_within(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.eq_ignore_ascii_case(".git"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quoted_name_is_parsed(name in "[ -~é\u{1f600}\0-\u{1f}\u{7f}]{1,16}", rest in "[ a-z]{0,3}") {
            if let Cow::Owned(text) = quoted(&name) {
                let (read, left) = unquoted(&text).unwrap();
                prop_assert_eq!((read, left), (name, ""));
                let longer = format!("{text}{rest}");
                prop_assert_eq!(unquoted(&longer).unwrap().1, rest);
            }
        }
    }

    #[test]
    fn unknown_escapes_are_refused() {
        for text in ["\"\\x41\"", "\"\\9\"", "\"\\777\"", "\"\\é\""] {
            assert_eq!(
                unquoted(text).unwrap_err(),
                "has a name with an escape that git does not write",
                "{text}"
            );
        }
    }
}
