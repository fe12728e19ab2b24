//! A value as an expression that finds its spellings.
//!
//! Text is stored as it was seen, and what was seen may be JSON, JSON in JSON, or what a terminal drew. So each
//! character is also looked for as its escapes, behind any number of backslashes, and between two characters there
//! may be what a terminal puts there: a line end where the screen ends, or control sequences.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

/// What may stand between two characters.
const BETWEEN: &str = r"(?:\x1b\[[0-?]*[ -/]*[@-~]|\r?\n| ?\r)*";

/// Room for the expression of the longest value.
const COMPILED_BYTES: usize = 256 << 20;

/// The expression of a value.
///
/// # Errors
/// None for a value that is short enough: every part is escaped.
pub(super) fn pattern(value: &str) -> Result<Regex, regex::Error> {
    let spelled: Vec<String> = value.chars().map(spellings).collect();
    RegexBuilder::new(&spelled.join(BETWEEN)).size_limit(COMPILED_BYTES).build()
}

/// Every way in which a character is written.
fn spellings(character: char) -> String {
    let short = match character {
        '"' => r#"\\*""#.to_owned(),
        '/' => r"\\*/".to_owned(),
        '\\' => r"\\+".to_owned(),
        // A terminal shows a line end as two characters.
        '\n' => r"\r?\n|(?:\\+r)?\\+n".to_owned(),
        '\r' => r"\r|\\+r".to_owned(),
        '\t' => r"\t|\\+t".to_owned(),
        other => regex::escape(other.encode_utf8(&mut [0; 4])),
    };
    let mut escape = String::new();
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string does not fail.
        let _ = write!(escape, r"\\+u(?i:{unit:04x})");
    }
    format!("(?:{short}|{escape})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, text: &str, expected: bool) {
        assert_eq!(pattern(value).unwrap().is_match(text), expected, "{value:?} in {text:?}");
    }

    #[test]
    fn spellings_of_json_are_found() {
        let value = "a\"b\\c/d\ne\u{e9}\u{1f511}";
        check(value, value, true);
        let once = serde_json::to_string(value).unwrap();
        check(value, &once, true);
        check(value, &serde_json::to_string(&once).unwrap(), true);
        check(value, r#"a\"b\\c\/d\ne\u00e9\ud83d\udd11"#, true);
        check(value, r#"\u0061\u0022b\u005Cc\u002fd\u000ae\u00E9\uD83D\uDD11"#, true);
        check(value, &value.replace('d', "D"), false);
    }

    #[test]
    fn what_a_terminal_draws_is_found() {
        check("token-42", "tok\r\nen-42", true);
        check("token-42", "token-4 \r2", true);
        check("token-42", "t\x1b[31moken\x1b[0m-42", true);
        check("token-42", "token 42", false);
        check("line\nend", "line\r\nend", true);
    }

    #[test]
    fn the_longest_value_has_an_expression() {
        check(&"k".repeat(4_096), &"k".repeat(4_095), false);
        check(&"k".repeat(4_096), &"k".repeat(4_096), true);
    }
}
