//! The screen of a session, as a terminal emulator would show it.
//!
//! S1. Emulation is lazy: until a program uses the alternate screen or a caller asks for the screen, only the newest
//! bytes are kept. An observation of plain output never pays for emulation.
//! S2. Memory is bounded: the kept bytes, plus one emulator once it was needed.
//!
//! Deviation: output that was dropped from the kept bytes before the first use is missing from the first screen. Pure;
//! nothing to cancel.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

/// Bytes kept for the first use. A screen of 80 x 24 with colours fits several times.
const KEPT_BYTES: usize = 32 * 1024;

/// Content of the screen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScreenView {
    /// Rows joined by newlines, without trailing blanks and blank rows.
    pub text: String,
    /// Row of the cursor, from 1.
    pub cursor_row: u16,
    /// Column of the cursor, from 1.
    pub cursor_column: u16,
    /// Whether a full-screen program is active.
    pub full_screen: bool,
}

impl ScreenView {
    /// Text and cursor, for a text-only reader.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{}\n[cursor at row {}, column {}]", self.text, self.cursor_row, self.cursor_column)
    }
}

pub(crate) struct LazyScreen {
    columns: NonZeroU16,
    rows: NonZeroU16,
    kept: Vec<u8>,
    emulator: Option<vt100::Parser>,
    full_screen: bool,
}

impl LazyScreen {
    pub(crate) fn new((columns, rows): (u16, u16)) -> Self {
        Self {
            columns: at_least_one(columns),
            rows: at_least_one(rows),
            kept: Vec::new(),
            emulator: None,
            full_screen: false,
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        match &mut self.emulator {
            Some(emulator) if self.full_screen => emulator.process(bytes),
            _ => self.keep(bytes),
        }
    }

    /// Call when a program switched the alternate screen on or off, before feeding the bytes that do so.
    pub(crate) fn set_full_screen(&mut self, on: bool) {
        if on && !self.full_screen {
            self.catch_up();
        }
        self.full_screen = on;
    }

    pub(crate) fn is_full_screen(&self) -> bool {
        self.full_screen
    }

    /// Resets what a killed full-screen program left switched on.
    pub(crate) fn leave_full_screen(&mut self) {
        self.feed(b"\x1b[?1049l\x1b[?1l\x1b[?25h\x1b[m");
        self.full_screen = false;
    }

    pub(crate) fn resize(&mut self, (columns, rows): (u16, u16)) {
        self.catch_up();
        (self.columns, self.rows) = (at_least_one(columns), at_least_one(rows));
        if let Some(emulator) = &mut self.emulator {
            emulator.set_size(self.rows, self.columns);
        }
    }

    pub(crate) fn view(&mut self) -> ScreenView {
        let full_screen = self.full_screen;
        let screen = self.catch_up().screen();
        let (row, column) = screen.cursor_position();
        let rows: Vec<String> = screen.rows(0, screen.size().1.get()).collect();
        let text = rows.iter().map(|row| row.trim_end()).collect::<Vec<_>>().join("\n");
        ScreenView {
            text: text.trim_end_matches('\n').to_owned(),
            cursor_row: row + 1,
            cursor_column: column + 1,
            full_screen,
        }
    }

    fn catch_up(&mut self) -> &mut vt100::Parser {
        let emulator = self.emulator.get_or_insert_with(|| vt100::Parser::new(self.rows, self.columns, 0));
        let fresh = self.kept.len().saturating_sub(KEPT_BYTES);
        emulator.process(&self.kept[fresh..]);
        self.kept.clear();
        emulator
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.kept.len() + bytes.len() > 2 * KEPT_BYTES {
            let excess = (self.kept.len() + bytes.len() - KEPT_BYTES).min(self.kept.len());
            self.kept.drain(..excess);
        }
        self.kept.extend_from_slice(bytes);
    }
}

impl std::fmt::Debug for LazyScreen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (columns, rows) = (self.columns, self.rows);
        write!(formatter, "LazyScreen({columns}x{rows}, {} bytes kept)", self.kept.len())
    }
}

fn at_least_one(size: u16) -> NonZeroU16 {
    NonZeroU16::new(size).unwrap_or(NonZeroU16::MIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(chunks: &[&[u8]], expected: &str, cursor: (u16, u16)) {
        let mut screen = LazyScreen::new((10, 3));
        chunks.iter().for_each(|chunk| screen.feed(chunk));
        let view = screen.view();
        assert_eq!((view.text.as_str(), (view.cursor_row, view.cursor_column)), (expected, cursor));
    }

    #[test]
    fn screen_matches_terminal() {
        check(&[b"one\r\ntwo"], "one\ntwo", (2, 4));
        check(&[b"1\r\n2\r\n3\r\n", b"4"], "2\n3\n4", (3, 2));
        check(&[b"abc\x1b[2;3Hx"], "abc\n  x", (2, 4));
    }

    #[test]
    fn the_alternate_screen_goes_away() {
        let mut screen = LazyScreen::new((10, 3));
        screen.feed(b"shell");
        screen.set_full_screen(true);
        screen.feed(b"\x1b[?1049h\x1b[H\x1b[2Jvi");
        assert_eq!(screen.view().text, "vi");
        screen.set_full_screen(false);
        screen.feed(b"\x1b[?1049l!");
        assert_eq!(screen.view().text, "shell!");
        assert_eq!(screen.view().describe(), "shell!\n[cursor at row 1, column 7]");
    }

    #[test]
    fn a_killed_program_leaves_no_trace() {
        let mut screen = LazyScreen::new((10, 3));
        screen.set_full_screen(true);
        screen.feed(b"\x1b[?1049hvi");
        screen.leave_full_screen();
        assert_eq!((screen.view().text.as_str(), screen.is_full_screen()), ("", false));
    }

    #[test]
    fn kept_bytes_are_bounded() {
        let mut screen = LazyScreen::new((10, 3));
        for _ in 0..100 {
            screen.feed(&[b'x'; 10_000]);
        }
        assert!(screen.kept.len() <= 2 * KEPT_BYTES);
        screen.resize((0, 0));
        assert_eq!(screen.view().cursor_row, 1);
    }

    proptest! {
        #[test]
        fn any_bytes_and_sizes_are_shown(bytes in proptest::collection::vec(any::<u8>(), 0..200), columns in 0u16..12, rows in 0u16..6) {
            let mut screen = LazyScreen::new((8, 4));
            screen.feed(&bytes);
            screen.resize((columns, rows));
            screen.feed(&bytes);
            let view = screen.view();
            prop_assert!(view.cursor_row <= rows.max(1));
        }
    }
}
