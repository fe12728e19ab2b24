//! Wraps a streamed reply at words for a terminal.
//!
//! W1. A word that fits on a line is never cut: if it crosses the end of a line, it is erased and written on the next.
//! W2. Laid-out text is unchanged: fenced code, lines that begin with four blanks or a tab, rows of tables. W3. Text is
//! shown at once. W4. Apart from line breaks and the sequences that erase words, the output contains no control
//! sequences.
//!
//! Without a terminal the text is unchanged. Source of the sequences: ECMA-48, BS and EL.

use clawrl_core::printable;
use unicode_width::UnicodeWidthChar;

/// Leading blanks of a code line.
const INDENT: usize = 4;

/// Moves back by one column; erases to the end of the line.
const BACK: &str = "\u{8}";
const CLEAR: &str = "\u{1b}[K";

/// Converts pieces of text to terminal output.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Width of the terminal.
    columns: Option<usize>,
    /// Used columns of the line.
    column: usize,
    /// Part of the last word on this line.
    word: String,
    /// Whether blanks at the end of the line were omitted, so that the next text starts a new one.
    is_full: bool,
    /// Start of the line, which decides whether it is laid out.
    head: String,
    is_in_fence: bool,
}

impl Words {
    /// For a terminal of this width; `None`: no terminal.
    pub(super) fn new(columns: Option<usize>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// The output for the next piece.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let Some(columns) = self.columns else { return printable(piece).into_owned() };
        let mut text = String::new();
        for character in printable(piece).chars() {
            self.character(character, columns, &mut text);
        }
        text
    }

    fn character(&mut self, character: char, columns: usize, text: &mut String) {
        // The last column stays free: terminals differ in where a cursor after it moves back from.
        let limit = columns.saturating_sub(1).max(1);
        if character == '\n' {
            if self.is_fence() {
                self.is_in_fence = !self.is_in_fence;
            }
            *self = Self { columns: self.columns, is_in_fence: self.is_in_fence, ..Self::default() };
            text.push('\n');
            return;
        }
        if self.head.len() < INDENT {
            self.head.push(character);
        }
        let width = width(character);
        if self.is_laid_out() {
            self.word.clear();
            self.column += width;
            text.push(character);
        } else if character.is_whitespace() {
            // After a word longer than a line, the terminal has wrapped by itself.
            self.column = if self.column > limit { self.column % columns } else { self.column };
            self.word.clear();
            if self.column + width > limit {
                self.is_full = true;
            } else {
                text.push(character);
                self.column += width;
            }
        } else {
            let taken = self.word.chars().count();
            if self.is_full || (self.column + width > limit && self.column > taken) {
                text.push_str(&BACK.repeat(taken));
                if taken > 0 {
                    text.push_str(CLEAR);
                }
                text.push('\n');
                text.push_str(&self.word);
                (self.column, self.is_full) = (taken, false);
            }
            text.push(character);
            self.column += width;
            // Text before a character of uncertain width cannot be erased, so a line may end after it.
            if is_one_wide(character) { self.word.push(character) } else { self.word.clear() }
        }
    }

    /// Whether the line is laid out (W2); false until the first characters, which decide, have arrived.
    fn is_laid_out(&self) -> bool {
        let is_indented =
            self.head.len() >= INDENT && self.head.bytes().take(INDENT).all(|byte| byte == b' ');
        self.is_in_fence || self.is_fence() || is_indented || self.head.starts_with(['\t', '|'])
    }

    fn is_fence(&self) -> bool {
        let head = self.head.trim_start();
        head.starts_with("```") || head.starts_with("~~~")
    }
}

/// Whether a character takes one column on every terminal: Latin, Greek and Cyrillic letters and common signs.
fn is_one_wide(character: char) -> bool {
    matches!(u32::from(character), 0x21..=0x7e | 0xa1..=0xac | 0xae..=0x2ff | 0x370..=0x377 | 0x384..=0x482 | 0x48a..=0x52f)
        || matches!(character, '‐'..='‧' | '€' | '→')
}

/// Columns of a character. Combining characters count as one, since terminals differ.
pub(super) fn width(character: char) -> usize {
    character.width().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The final text on a terminal.
    fn seen(text: &str) -> String {
        let mut lines = vec![Vec::new()];
        let mut at = 0;
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            let line = lines.last_mut().unwrap();
            match character {
                '\u{8}' => at -= 1,
                '\n' => {
                    lines.push(Vec::new());
                    at = 0;
                }
                '\u{1b}' => {
                    assert!(rest.starts_with(CLEAR), "{text:?}");
                    line.truncate(at);
                    rest = &rest[CLEAR.len()..];
                    continue;
                }
                character => {
                    line.truncate(at);
                    line.push(character);
                    at += 1;
                }
            }
            rest = &rest[character.len_utf8()..];
        }
        lines.into_iter().map(String::from_iter).collect::<Vec<_>>().join("\n")
    }

    fn shown(pieces: &[&str], columns: usize) -> String {
        let mut words = Words::new(Some(columns));
        pieces.iter().map(|piece| words.push(piece)).collect()
    }

    fn check(pieces: &[&str], expected: &str) {
        assert_eq!(seen(&shown(pieces, 13)), expected, "{pieces:?}");
    }

    #[test]
    fn w1_words_that_have_room_on_a_line_are_not_cut() {
        check(&["one two th", "ree four"], "one two \nthree four");
        check(&["exactly12cha and"], "exactly12cha\nand");
        check(&["exactly12cha   \nand"], "exactly12cha\nand");
        check(&["a  b   \nc"], "a  b   \nc");
        check(&["- a list, which\n- goes on"], "- a list, \nwhich\n- goes on");
        check(&["longer-than-any-line x"], "longer-than-any-line x");
        check(&["漢字漢字漢字漢字"], "漢字漢字漢字\n漢字");
        // Combining marks take no column, so text before them is never erased.
        assert!(!shown(&["one two e\u{301}e\u{301}e\u{301}e\u{301}"], 13).contains(BACK));
    }

    #[test]
    fn w2_what_is_laid_out_stays_as_it_is() {
        for text in [
            "```\nlet a = one + two;\n```\n",
            "    indented code stays\n",
            "| a table | of cells |\n",
            "~~~ x y z and more\ncode and more code\n~~~\n",
        ] {
            assert_eq!(shown(&[text], 13), text);
            assert_eq!(shown(&text.split_inclusive(' ').collect::<Vec<_>>(), 13), text);
        }
        check(&["```\nx\n```\none two three"], "```\nx\n```\none two \nthree");
    }

    #[test]
    fn w3_what_is_said_is_shown_at_once() {
        let mut words = Words::new(Some(13));
        assert_eq!(words.push("one two thr"), "one two thr");
        assert_eq!(words.push("ee"), format!("e{}{CLEAR}\nthree", BACK.repeat(4)));
    }

    #[test]
    fn w4_what_would_act_on_a_terminal_is_spelled_out() {
        for columns in [None, Some(80)] {
            assert_eq!(Words::new(columns).push("a\u{1b}[2J\u{8}"), r"a\u{1b}[2J\u{8}");
        }
    }

    #[test]
    fn without_a_terminal_nothing_is_changed() {
        assert_eq!(Words::new(None).push("one two three four five"), "one two three four five");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_line_is_too_long(text in "[a-c `|~\n漢]{0,60}", cut in 0usize..60) {
            let cut = text.char_indices().nth(cut).map_or(text.len(), |(at, _)| at);
            let whole = shown(&[&text], 13);
            prop_assert_eq!(shown(&[&text[..cut], &text[cut..]], 13), whole.clone(), "however it is cut");
            let bare = |text: &str| text.split_whitespace().collect::<String>();
            prop_assert_eq!(bare(&seen(&whole)), bare(&text));
        }
    }
}
