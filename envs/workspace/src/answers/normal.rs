//! Normalises texts, so that equivalent ones compare equal.
//!
//! N1. Normalising is idempotent.

use unicode_normalization::UnicodeNormalization;

/// Removed at both ends, with white space. Contains no signs, and no characters that occur in names: `C#` stays.
const PUNCTUATION: &str = ".,;:!?…'\"`*_()[]{}‘’“”‚„«»‹›¡¿。、";

/// NFKC, lower case, without punctuation at the ends, white space as single spaces.
pub(super) fn normalise(text: &str) -> String {
    let folded: String = text.nfkc().flat_map(char::to_lowercase).nfkc().collect();
    let spaced = folded.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_end = |character: char| character == ' ' || PUNCTUATION.contains(character);
    let tail = spaced.trim_end_matches(is_end);
    let core = tail.trim_start_matches(is_end);
    if core.is_empty() {
        return spaced;
    }
    // `.5` is a number, not the end of a sentence before 5.
    let before = &tail[..tail.len() - core.len()];
    if before.ends_with('.') && core.starts_with(|first: char| first.is_ascii_digit()) {
        return format!(".{core}");
    }
    core.to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(normalise(text), expected, "{text:?}");
    }

    #[test]
    fn small_differences_vanish() {
        check("Paris", "paris");
        check("  (The \t Eiffel\nTower). ", "the eiffel tower");
        check("**Paris!**", "paris");
        check("ＡＢＣ１２３", "abc123");
        check("ﬁne", "fine");
        check("İ", "i\u{307}");
        check("a.b", "a.b");
        check("“quoted”", "quoted");
    }

    #[test]
    fn significant_characters_stay() {
        check("-5", "-5");
        check(".5", ".5");
        check("C#", "c#");
        check("50%", "50%");
        check("?!", "?!");
        check("", "");
        check(" ", "");
    }

    proptest! {
        #[test]
        fn n1_normalising_is_idempotent(text in any::<String>()) {
            let once = normalise(&text);
            prop_assert_eq!(normalise(&once), once);
        }
    }
}
