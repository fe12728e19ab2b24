//! Names of files, as git writes them in diffs.
//!
//! Source: the option `core.quotePath` of git-config: a name with control characters, quotes, backslashes or, by default,
//! bytes beyond ASCII stands in double quotes, with escapes as in C.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes of one letter and what they stand for.
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

/// The name in quotes that a text begins with, and what follows it.
///
/// # Errors
/// Quotes that do not end, an escape that git does not write, or a name that is not UTF-8.
pub(super) fn unquoted(text: &str) -> Result<(String, &str), String> {
    let unended = || "has a name in quotes that do not end".to_owned();
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

/// The byte that stands behind a backslash, and how many bytes it is written with.
fn escaped(rest: &str) -> Option<(u8, usize)> {
    if let Some(octal) = rest.get(..3).filter(|octal| octal.bytes().all(|digit| matches!(digit, b'0'..=b'7')))
    {
        return Some((u8::from_str_radix(octal, 8).ok()?, 3));
    }
    let letter = rest.chars().next()?;
    ESCAPES.iter().find(|(known, _)| *known == letter).map(|(_, byte)| (*byte, 1))
}

/// A name as git reads it: in quotes only where it could not be told otherwise.
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
                // Writing to a string cannot fail.
                None => drop(write!(text, "\\{byte:03o}")),
            },
        }
    }
    text.push('"');
    Cow::Owned(text)
}

/// Whether a path stays in a repository and out of its `.git`, in whatever case that is written. Git applies no others.
pub(super) fn is_within(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.eq_ignore_ascii_case(".git"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_quoted_name_is_read_as_it_was(name in "[ -~é\u{1f600}\0-\u{1f}\u{7f}]{1,16}", rest in "[ a-z]{0,3}") {
            if let Cow::Owned(text) = quoted(&name) {
                let (read, left) = unquoted(&text).unwrap();
                prop_assert_eq!((read, left), (name, ""));
                let longer = format!("{text}{rest}");
                prop_assert_eq!(unquoted(&longer).unwrap().1, rest);
            }
        }
    }

    #[test]
    fn escapes_that_git_does_not_write_are_told() {
        for text in ["\"\\x41\"", "\"\\9\"", "\"\\777\"", "\"\\é\""] {
            assert_eq!(
                unquoted(text).unwrap_err(),
                "has a name with an escape that git does not write",
                "{text}"
            );
        }
    }
}
