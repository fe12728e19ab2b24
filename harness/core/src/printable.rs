//! Foreign text on its way to a terminal.
//!
//! T1. The shown text cannot control a terminal or hide anything: control characters, bidirectional controls and
//! invisible characters are escaped, as in `\u{1b}`. T2. All other text is kept in order, and text without such
//! characters is not copied.
//!
//! Joiners (U+200C, U+200D) are kept, because languages and emoji need them. Backslashes are not doubled, because the text
//! is for people.

use std::borrow::Cow;

/// The text with its line ends and tabs.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_kept = |c: char| matches!(c, '\n' | '\t') || !acts(c);
    if text.chars().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_kept(c) { shown.push(c) } else { shown.extend(c.escape_debug()) }
    }
    Cow::Owned(shown)
}

/// The text in one line of at most `most` characters.
#[must_use]
pub fn printable_line(text: &str, most: usize) -> String {
    let mut line = String::new();
    let mut length = 0;
    let mut all = text.chars().flat_map(spelled);
    for c in all.by_ref().take(most) {
        length += c.len_utf8();
        line.push(c);
    }
    if all.next().is_some() {
        let last = line.chars().next_back().map_or(0, char::len_utf8);
        line.truncate(length - last);
        if most > 0 {
            line.push('…');
        }
    }
    line
}

/// The character itself, or its escape.
fn spelled(c: char) -> impl Iterator<Item = char> {
    let (kept, escaped) = if acts(c) { (None, Some(c.escape_debug())) } else { (Some(c), None) };
    kept.into_iter().chain(escaped.into_iter().flatten())
}

/// Whether a character does more than display itself.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(printable(text), expected);
    }

    #[test]
    fn t1_control_characters_are_escaped() {
        check("\u{1b}[2J\u{1b}]0;title\u{7}", r"\u{1b}[2J\u{1b}]0;title\u{7}");
        check("50 %\r99 %", r"50 %\r99 %");
        check("a\0b\u{8}\u{7f}\u{9b}31m", r"a\0b\u{8}\u{7f}\u{9b}31m");
        check("passed \u{202e}deliaf\u{2066}", r"passed \u{202e}deliaf\u{2066}");
        check("\u{feff}a\u{200b}b\u{e0041}", r"\u{feff}a\u{200b}b\u{e0041}");
    }

    #[test]
    fn t2_the_rest_is_kept() {
        for text in [
            "",
            "lines\n\n\tand tabs\n",
            r#"it's "C:\temp""#,
            "naïve e\u{301} ☃ 猫 می\u{200c}خواهم 👨\u{200d}👩",
        ] {
            check(text, text);
            assert!(matches!(printable(text), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn lines_are_cut_and_have_no_end_within() {
        let check =
            |text: &str, most: usize, expected: &str| assert_eq!(printable_line(text, most), expected);
        check("one\ntwo\r\n\u{1b}[m", 40, r"one\ntwo\r\n\u{1b}[m");
        check("12345", 5, "12345");
        check("123456", 5, "1234…");
        check("猫猫猫", 2, "猫…");
        check("\n\n\n", 3, r"\n…");
        check("a", 0, "");
        check("", 0, "");
    }

    proptest! {
        #[test]
        fn t1_nothing_that_acts_comes_through(text: String, most in 0usize..40) {
            prop_assert!(!printable(&text).chars().any(|c| acts(c) && !matches!(c, '\n' | '\t')));
            let line = printable_line(&text, most);
            prop_assert!(!line.chars().any(acts) && line.chars().count() <= most);
            let whole = printable_line(&text, usize::MAX);
            prop_assert_eq!(whole, printable(&text).replace('\n', "\\n").replace('\t', "\\t"));
        }
    }
}
