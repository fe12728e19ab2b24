//! Escapes foreign text for each format.
//!
//! E1. Foreign text is never markup: no tag, entity, table cell, command or mention. E2. Rendering the format
//! shows the printable form of the text.
//!
//! Pure; nothing to cancel.
//! Source: CommonMark 0.31, 2.5; the workflow commands of GitHub Actions.

use std::fmt::Write;

use clawrl_core::{printable, printable_line};

/// Maximum characters of a name; longer names are cut.
const MAX_NAME: usize = 120;

/// A name in Markdown, as code, in one line, cut if it is too long.
pub(super) fn markdown_name(name: &str) -> String {
    // Addresses become links even in code, unless a character follows their sign.
    let name = entities(&printable_line(name, MAX_NAME)).replace("&#64;", "&#64;<!-- -->");
    format!("<code>{name}</code>")
}

/// A sentence in Markdown, in one line of at most `most` characters.
pub(super) fn markdown_text(text: &str, most: usize) -> String {
    // GitHub detects mentions in the text that entities become. In code it does not, and no markup continues after it.
    let code = |entity: &str| format!("<code>{entity}</code>");
    let escaped = entities(&printable_line(text, most));
    ["&#64;", "&#35;"].iter().fold(escaped, |escaped, entity| escaped.replace(entity, &code(entity)))
}

/// Entities cannot be markup, so they replace all characters that could be; the rest stays readable.
fn entities(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c.is_ascii_punctuation() && !is_plain(before, c, rest.peek().copied()) {
            // Writing to a string does not fail.
            let _ = write!(escaped, "&#{};", u32::from(c));
        } else {
            escaped.push(c);
        }
        before = Some(c);
    }
    escaped
}

/// Whether Markdown treats a punctuation mark literally between these two.
fn is_plain(before: Option<char>, c: char, after: Option<char>) -> bool {
    let ends = after.is_none_or(|after| after == ' ');
    let is = |side: Option<char>, kind: fn(&char) -> bool| side.is_some_and(|c| kind(&c));
    match c {
        ',' | ';' | '?' | '%' | '(' | ')' | '/' | '"' | '\'' => true,
        // A list begins with these.
        '-' | '+' | '=' => before.is_some(),
        // The rest: `1. ` of lists, and links that GitHub makes of `www.` and `https:`.
        '.' => {
            (is(before, char::is_ascii_alphabetic) && ends)
                || (is(before, char::is_ascii_digit) && is(after, char::is_ascii_digit))
        }
        ':' => ends,
        // Within a word it does not emphasise.
        '_' => is(before, char::is_ascii_alphanumeric) && is(after, char::is_ascii_alphanumeric),
        _ => false,
    }
}

/// The text after the `::` of a workflow command.
pub(super) fn command_data(text: &str) -> String {
    printable(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property of a workflow command.
pub(super) fn command_property(text: &str) -> String {
    command_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn markdown_is_text() {
        let check = |text: &str, expected: &str| assert_eq!(markdown_text(text, 80), expected);
        check("pass_rate: 5 of 8 passed (p = 0.5), by 2.", "pass_rate: 5 of 8 passed (p = 0.5), by 2&#46;");
        check("- 1. a", "&#45; 1&#46; a");
        check("see www.a.bc, http://x", "see www&#46;a&#46;bc, http&#58;//x");
        check("@all", "<code>&#64;</code>all");
        check("a|b\n<b>", "a&#124;b&#92;n&#60;b&#62;");
        assert_eq!(markdown_name("a@b`c"), "<code>a&#64;<!-- -->b&#96;c</code>");
    }

    #[test]
    fn commands_end_with_their_line() {
        let check = |text: &str, data: &str, property: &str| {
            assert_eq!((command_data(text).as_str(), command_property(text).as_str()), (data, property));
        };
        check("50 %\n::error::x", "50 %25%0A::error::x", "50 %25%0A%3A%3Aerror%3A%3Ax");
        check("a,b:c", "a,b:c", "a%2Cb%3Ac");
    }

    /// Text with a meaning in Markdown and on GitHub.
    const STRUCTURE: [char; 12] = ['<', '>', '|', '`', '*', '~', '[', ']', '@', '$', '\\', '\n'];

    proptest! {
        #[test]
        fn e1_no_text_is_structure(text in "([ -~]|www\\.a|www\\.|https://|\\PC|\n){0,60}") {
            let name = markdown_name(&text);
            let inner = name.strip_prefix("<code>").and_then(|name| name.strip_suffix("</code>")).unwrap();
            let inner = inner.replace("<!-- -->", "");
            prop_assert!(!inner.contains(STRUCTURE), "{inner}");
            let said = markdown_text(&text, 1_000).replace("<code>&#64;</code>", "").replace("<code>&#35;</code>", "");
            prop_assert!(!said.contains(STRUCTURE) && !said.contains("://") && !said.contains("www.a"), "{said}");
            prop_assert!(!command_data(&text).contains(['\n', '\r']));
            prop_assert!(!command_property(&text).contains(['\n', '\r', ':', ',']));
        }
    }
}
