//! Words of a reply on the lines of a terminal, as it comes piece by piece.
//!
//! W1. No word is cut that has room on a line: one that has begun on a line and does not end on it is taken back and written on the next.
//! W2. What is laid out stays as it is: code between fences, lines that begin with four blanks or a tab, rows of tables. W3. What is said
//! is shown at once. W4. But for line breaks and for what takes words back, there is nothing in it that acts on a terminal.
//!
//! Without a terminal nothing is changed at all. Source of the sequences: ECMA-48, BS and EL.

use clawrl_core::printable;
use unicode_width::UnicodeWidthChar;

/// Blanks that make a line one of code.
const INDENT: usize = 4;

/// Moves back by one, and removes what is from here to the end of the line.
const BACK: &str = "\u{8}";
const CLEAR: &str = "\u{1b}[K";

/// Takes pieces, gives what a terminal is to show for them.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Of the terminal.
    columns: Option<usize>,
    /// Columns of this line that are taken.
    column: usize,
    /// What of the last word is on this line.
    word: String,
    /// Blanks at the end of a line were left out, and what comes next begins another.
    is_full: bool,
    /// What the line begins with, as far as it tells what the line is.
    head: String,
    is_in_fence: bool,
}

impl Words {
    /// For a terminal of so many columns, or for none.
    pub(super) fn new(columns: Option<usize>) -> Self {
        Self { columns, ..Self::default() }
    }

    /// What to write for this piece.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let Some(columns) = self.columns else { return printable(piece).into_owned() };
        let mut text = String::new();
        for character in printable(piece).chars() {
            self.character(character, columns, &mut text);
        }
        text
    }

    fn character(&mut self, character: char, columns: usize, text: &mut String) {
        // The last column stays free: of a cursor behind it, terminals differ in where it goes back from.
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
            // Behind a word that is longer than a line, the terminal has begun others.
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
            // A line may end behind a character of uncertain width, and written text stays.
            if is_one_wide(character) { self.word.push(character) } else { self.word.clear() }
        }
    }

    /// W2. While the first characters come, a line that may be laid out is not yet.
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

/// Whether it takes one column on every terminal: letters of Latin, Greek and Cyrillic, and the usual signs.
fn is_one_wide(character: char) -> bool {
    matches!(u32::from(character), 0x21..=0x7e | 0xa1..=0xac | 0xae..=0x2ff | 0x370..=0x377 | 0x384..=0x482 | 0x48a..=0x52f)
        || matches!(character, '‐'..='‧' | '€' | '→')
}

/// Columns of a character. What joins the character before it counts as one, too: terminals differ there.
pub(super) fn width(character: char) -> usize {
    character.width().unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a terminal shows in the end.
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
        // Marks that join the letter before them take no column: what is in front of them is never taken back.
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
