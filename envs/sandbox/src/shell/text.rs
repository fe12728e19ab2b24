//! Converts terminal output to plain text.
//!
//! Escape sequences are removed, line ends become `\n`, a carriage return or backspace overwrites as on a screen (so
//! that a progress bar leaves its last state), invalid UTF-8 becomes U+FFFD, NUL and the other controls vanish. Cursor
//! movement within a line is applied; movement between lines is ignored, because the screen handles that.
//!
//! X1. Any bytes are accepted.
//! X2. Splitting the bytes anywhere gives the same text.
//! X3. Memory is bounded: a line longer than [`MAX_LINE`] is written out and can no longer be overwritten.
//!
//! Deviations from a real terminal, for readability: a line end ends an unfinished control string; lines do not wrap;
//! every character is one column wide.
//!
//! Pure; nothing to cancel.

use super::capture::{Capture, Captured, floor_boundary};

const ESC: u8 = 0x1b;

/// Bytes of a plain line, characters of an edited one.
const MAX_LINE: usize = 64 * 1024;
/// Furthest column that a cursor movement can reach.
const LAST_COLUMN: usize = 4_096;
/// An unterminated control string is abandoned after this many bytes.
const MAX_STRING: usize = 64 * 1024;
const MAX_PARAMETERS: usize = 32;

#[derive(Debug)]
pub(super) struct TextCleaner {
    capture: Capture,
    line: Line,
    state: State,
    /// Start of an incomplete character.
    carry: [u8; 4],
    carry_len: usize,
    /// A carriage return that may belong to a line end.
    pending_return: bool,
    replaced: bool,
}

#[derive(Debug, Default)]
struct Line {
    /// The line until something moves the cursor.
    plain: String,
    /// The line after something moved the cursor.
    cells: Vec<char>,
    cursor: usize,
    edited: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    /// After `ESC` and an intermediate byte: one more byte ends it.
    Intermediate,
    Control(Vec<u8>),
    /// OSC, DCS, SOS, PM or APC, with its length so far.
    Text(usize),
}

impl TextCleaner {
    pub(super) fn new(cap_bytes: usize) -> Self {
        Self {
            capture: Capture::new(cap_bytes),
            line: Line::default(),
            state: State::Ground,
            carry: [0; 4],
            carry_len: 0,
            pending_return: false,
            replaced: false,
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = match &mut self.state {
                State::Ground => self.ground(rest),
                State::Escape => self.escape(rest[0]),
                State::Intermediate => {
                    self.state = State::Ground;
                    usize::from((0x20..0x7f).contains(&rest[0]))
                }
                State::Control(_) => self.control(rest[0]),
                State::Text(length) => {
                    *length += 1;
                    let byte = rest[0];
                    // BEL, CAN and SUB end it and vanish; a line end is kept, ESC starts another sequence.
                    let ends = matches!(byte, 0x07 | 0x18 | 0x1a | b'\n' | ESC) || *length >= MAX_STRING;
                    if ends {
                        self.state = State::Ground;
                    }
                    usize::from(!matches!(byte, b'\n' | ESC))
                }
            };
            rest = &rest[used..];
        }
    }

    /// The text since the last call, and whether bytes were replaced in it. An unfinished character or escape
    /// sequence stays for the next text.
    pub(super) fn take(&mut self) -> (Captured, bool) {
        self.pending_return = false;
        self.line.write_out(&mut self.capture);
        (self.capture.take(), std::mem::take(&mut self.replaced))
    }

    /// Consumes a run of text or one control.
    fn ground(&mut self, bytes: &[u8]) -> usize {
        let run = bytes.iter().position(|&byte| byte < 0x20 || byte == 0x7f).unwrap_or(bytes.len());
        if run > 0 {
            self.settle_return();
            self.text(&bytes[..run]);
            return run;
        }
        if self.carry_len > 0 {
            self.carry_len = 0;
            self.replace();
        }
        match bytes[0] {
            b'\n' | 0x0b | 0x0c => {
                self.pending_return = false;
                self.line.write_out(&mut self.capture);
                self.capture.push("\n");
            }
            b'\r' => self.pending_return = true,
            b'\t' => {
                self.settle_return();
                self.put("\t");
            }
            0x08 => {
                self.settle_return();
                let cursor = self.line.edit();
                *cursor = cursor.saturating_sub(1);
            }
            ESC => self.state = State::Escape,
            _ => {}
        }
        1
    }

    fn escape(&mut self, byte: u8) -> usize {
        self.state = match byte {
            b'[' => State::Control(Vec::new()),
            b']' | b'P' | b'X' | b'^' | b'_' => State::Text(0),
            0x20..=0x2f => State::Intermediate,
            ESC => State::Escape,
            _ => State::Ground,
        };
        // Controls and character bytes are not part of a sequence.
        usize::from((0x20..0x7f).contains(&byte) || matches!(byte, ESC | 0x18 | 0x1a))
    }

    fn control(&mut self, byte: u8) -> usize {
        let State::Control(parameters) = &mut self.state else { return 0 };
        match byte {
            0x20..=0x3f => {
                if parameters.len() < MAX_PARAMETERS {
                    parameters.push(byte);
                }
                1
            }
            0x40..=0x7e => {
                let first = parameters.split(|&byte| byte == b';').next().unwrap_or_default();
                let plain = parameters.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';'));
                let number = std::str::from_utf8(first).ok().and_then(|digits| digits.parse().ok());
                self.state = State::Ground;
                if plain {
                    self.edit_line(byte, number);
                }
                1
            }
            0x18 | 0x1a => {
                self.state = State::Ground;
                1
            }
            _ => {
                self.state = State::Ground;
                0
            }
        }
    }

    /// Applies control sequences that act within a line.
    fn edit_line(&mut self, action: u8, number: Option<usize>) {
        if !matches!(action, b'K' | b'G' | b'C' | b'D' | b'P' | b'X' | b'@') {
            return;
        }
        self.settle_return();
        // Nothing is right of the end: programs that use colours erase there all the time.
        if !self.line.edited && action == b'K' && number.unwrap_or(0) == 0 {
            return;
        }
        let count = number.unwrap_or(1).clamp(1, LAST_COLUMN);
        self.line.edit();
        let Line { cells, cursor, .. } = &mut self.line;
        let at = (*cursor).min(cells.len());
        let end = (at + count).min(cells.len());
        match (action, number) {
            (b'K', None | Some(0)) => cells.truncate(at),
            (b'K', Some(1)) => {
                let end = (at + 1).min(cells.len());
                cells[..end].fill(' ');
            }
            (b'K', _) => cells.clear(),
            (b'G', _) => *cursor = count - 1,
            (b'C', _) => *cursor = (*cursor + count).min(LAST_COLUMN.max(*cursor)),
            (b'D', _) => *cursor = cursor.saturating_sub(count),
            (b'P', _) => drop(cells.drain(at..end)),
            (b'X', _) => cells[at..end].fill(' '),
            _ => {
                drop(cells.splice(
                    at..at,
                    std::iter::repeat_n(' ', count.min(MAX_LINE - cells.len().min(MAX_LINE))),
                ))
            }
        }
    }

    /// Applies a carriage return that was not part of a line end.
    fn settle_return(&mut self) {
        if std::mem::take(&mut self.pending_return) && !self.line.is_empty() {
            *self.line.edit() = 0;
        }
    }

    fn text(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.carry_len > 0 {
            let Some((&byte, after)) = rest.split_first() else { return };
            self.carry[self.carry_len] = byte;
            let carried = self.carry;
            match std::str::from_utf8(&carried[..=self.carry_len]) {
                Ok(character) => {
                    self.carry_len = 0;
                    self.put(character);
                    rest = after;
                }
                Err(error) if error.error_len().is_none() => {
                    self.carry_len += 1;
                    rest = after;
                }
                // This byte does not continue the character; it may start another.
                Err(_) => {
                    self.carry_len = 0;
                    self.replace();
                }
            }
        }
        for chunk in rest.utf8_chunks() {
            if !chunk.valid().is_empty() {
                self.put(chunk.valid());
            }
            let invalid = chunk.invalid();
            let at_end = chunk_ends_at(rest, invalid);
            if at_end && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none()) {
                self.carry[..invalid.len()].copy_from_slice(invalid);
                self.carry_len = invalid.len();
            } else if !invalid.is_empty() {
                self.replace();
            }
        }
    }

    fn replace(&mut self) {
        self.replaced = true;
        self.settle_return();
        self.put("\u{fffd}");
    }

    fn put(&mut self, text: &str) {
        if text.is_ascii() {
            self.line.put(text, &mut self.capture);
            return;
        }
        // C1 controls, which UTF-8 terminals do not show.
        for part in text.split(|character| ('\u{80}'..='\u{9f}').contains(&character)) {
            self.line.put(part, &mut self.capture);
        }
    }
}

/// Whether `part`, a subslice of `whole`, ends where `whole` ends.
fn chunk_ends_at(whole: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && part.as_ptr_range().end == whole.as_ptr_range().end
}

impl Line {
    fn is_empty(&self) -> bool {
        if self.edited { self.cells.is_empty() && self.cursor == 0 } else { self.plain.is_empty() }
    }

    /// Makes the line editable and returns the cursor.
    fn edit(&mut self) -> &mut usize {
        if !self.edited {
            self.edited = true;
            self.cells.clear();
            self.cells.extend(self.plain.chars());
            self.cursor = self.cells.len();
            self.plain.clear();
        }
        &mut self.cursor
    }

    fn put(&mut self, text: &str, capture: &mut Capture) {
        if self.edited {
            text.chars().for_each(|character| self.overwrite(character, capture));
            return;
        }
        let mut rest = text;
        loop {
            let fits = floor_boundary(rest, MAX_LINE - self.plain.len());
            self.plain.push_str(&rest[..fits]);
            rest = &rest[fits..];
            if rest.is_empty() {
                return;
            }
            self.write_out(capture);
        }
    }

    fn overwrite(&mut self, character: char, capture: &mut Capture) {
        if self.cursor >= MAX_LINE {
            self.write_out(capture);
            self.plain.push(character);
            return;
        }
        if !self.edited {
            let mut buffer = [0; 4];
            self.put(character.encode_utf8(&mut buffer), capture);
            return;
        }
        while self.cells.len() <= self.cursor {
            self.cells.push(' ');
        }
        self.cells[self.cursor] = character;
        self.cursor += 1;
    }

    fn write_out(&mut self, capture: &mut Capture) {
        if self.edited {
            let line: String = self.cells.iter().collect();
            // Characters overwritten with spaces count as erased.
            capture.push(line.trim_end_matches(' '));
            *self = Self { plain: std::mem::take(&mut self.plain), ..Self::default() };
        } else {
            capture.push(&self.plain);
        }
        self.plain.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clean(chunks: &[&[u8]]) -> (String, bool) {
        let mut cleaner = TextCleaner::new(1 << 20);
        for chunk in chunks {
            cleaner.feed(chunk);
        }
        let (captured, replaced) = cleaner.take();
        (captured.cut(usize::MAX).text, replaced)
    }

    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(clean(&[bytes]).0, expected, "{}", bytes.escape_ascii());
    }

    #[test]
    fn line_ends() {
        check(b"a\r\nb\nc", "a\nb\nc");
        check(b"a\r\r\nb\r", "a\nb");
        check(b"\x0ba\x0cb", "\na\nb");
    }

    #[test]
    fn overwriting() {
        check(b" 10%\r 50%\r100%\r\ndone", "100%\ndone");
        check(b"long line\rshort\n", "shortline\n");
        check(b"long line\r\x1b[Kshort\n", "short\n");
        check(b"secret\r      \rok\n", "ok\n");
        check(b"abc\x08\x08X\n", "aXc\n");
        check(b"abc\x08\x1b[K\n", "ab\n");
        check(b"\x08\x08a", "a");
        check(b"abcdef\x1b[2G\x1b[2P\n", "adef\n");
        check(b"ab\x1b[1D\x1b[1@X\n", "aXb\n");
        check(b"a\x1b[3Cb", "a   b");
        check(b"abc\x1b[2D\x1b[1X\n", "a c\n");
    }

    #[test]
    fn escape_sequences_vanish() {
        check(b"\x1b[1;31mred\x1b[0m \x1b(B\x1b=\x1b>plain\x1b[?25l", "red plain");
        check(b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\", "ab");
        check(b"\x1bPq#0\x1b\\c\x1b[\x18d\x1b]0;open\nnext", "cd\nnext");
        check(b"\x1b[31\nx", "\nx");
        check(b"a\x1b", "a");
        check("\x1bé\u{9b}x".as_bytes(), "éx");
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        assert_eq!(clean(&[b"a\0b\x07c"]), ("abc".into(), false));
        assert_eq!(clean(&[b"\xff\xe2\x82x"]), ("\u{fffd}\u{fffd}x".into(), true));
        assert_eq!(clean(&[b"\xe2\x82", b"\xac!"]), ("€!".into(), false));
        assert_eq!(clean(&[b"\xe2\x82\n"]), ("\u{fffd}\n".into(), true));
    }

    #[test]
    fn a_line_without_end_is_written_out() {
        let long = "x".repeat(3 * MAX_LINE);
        check(
            format!("{long}\rab\n").as_bytes(),
            &format!("{}ab{}\n", "x".repeat(2 * MAX_LINE), "x".repeat(MAX_LINE - 2)),
        );
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"abc".to_vec()),
            Just(b"\r".to_vec()),
            Just(b"\r\n".to_vec()),
            Just(b"\x08".to_vec()),
            Just(b"\x1b[K".to_vec()),
            Just(b"\x1b[3G".to_vec()),
            Just(b"\x1b[2P".to_vec()),
            Just(b"\x1b[9@".to_vec()),
            Just(b"\x1b]0;t\x07".to_vec()),
            Just("é€𝄞".as_bytes().to_vec()),
            proptest::collection::vec(any::<u8>(), 0..8),
        ];
        proptest::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        /// X1 and X2.
        #[test]
        fn chunking_does_not_matter(stream in stream(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8)) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(clean(&chunks), clean(&[&stream]));
        }

        /// Text without controls stays unchanged.
        #[test]
        fn plain_text_is_kept(text in "[ -~é€𝄞\n\t]{0,200}") {
            prop_assert_eq!(clean(&[text.as_bytes()]).0, text);
        }
    }
}
