//! Finds step marks and mode switches in the byte stream of a terminal.
//!
//! A mark is an OSC 133 sequence that carries `clawrl=<nonce>.<number>` and ends with BEL. Everything else, other
//! programs' OSC 133 sequences included, passes through as output.
//!
//! M1. Splitting the stream anywhere gives the same events, up to the splitting of output.
//! M2. Output, mode switches and marks together are the stream: nothing is lost or reordered.
//! M3. Memory is bounded by [`MAX_MARK_BYTES`].
//!
//! Pure; nothing to cancel.

use memchr::memchr;

const ESC: u8 = 0x1b;
const BEL: u8 = 0x07;
const MARK_PREFIX: &[u8] = b"\x1b]133;";
const MODE_PREFIX: &[u8] = b"\x1b[?";

/// A mark contains the working folder; a deeper one makes the mark unreadable, so it is treated as output.
const MAX_MARK_BYTES: usize = 16 * 1024;
const MAX_MODE_BYTES: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event<'a> {
    Output(&'a [u8]),
    /// A sequence that has the form of one of our marks.
    Mark(Mark<'a>),
    /// A private mode was set or reset.
    Mode {
        number: u16,
        on: bool,
        bytes: &'a [u8],
    },
}

/// A mark in the stream; another module decides whether to trust it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark<'a> {
    pub(super) kind: MarkKind<'a>,
    pub(super) nonce: &'a [u8],
    pub(super) number: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkKind<'a> {
    Ended {
        /// Exit code of the last command.
        exit_code: i32,
        /// Working folder, quoted by bash's `@Q`.
        folder: &'a [u8],
        /// Whether the prompt is drawn somewhere other than the terminal.
        hidden: bool,
    },
    Continued {
        /// As above.
        hidden: bool,
    },
    /// The shell's report about itself, requested by a key.
    Reported(Report),
    /// The shell has ended, and another one starts.
    Replaced {
        /// Exit code of the shell that ended.
        exit_code: i32,
    },
    /// It carries our key but has an unknown form.
    Unreadable,
}

/// A shell's report at a prompt without a mark: its state before the prompts were restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Report {
    /// Exit code of the last command.
    pub(super) exit_code: i32,
    /// PS1 ends with the value it was set to.
    pub(super) has_prompt: bool,
    /// PS2 ends with the value it was set to.
    pub(super) has_continuation: bool,
    /// Both prompts are expanded.
    pub(super) expands: bool,
    /// Of our two prompts, the continuation prompt was expanded last.
    pub(super) continues: bool,
    /// Standard error, on which the line editor draws, is a terminal.
    pub(super) on_terminal: bool,
}

#[derive(Debug, Default)]
pub(super) struct Scanner {
    held: Vec<u8>,
    /// `held` was returned and is cleared at the next call.
    spent: bool,
}

enum Step {
    Hold,
    Complete,
    Mismatch,
}

impl Scanner {
    /// The next event, advancing `input`; `None` at its end.
    pub(super) fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Event<'s>> {
        if self.spent {
            self.held.clear();
            self.spent = false;
        }
        if self.held.is_empty() {
            match memchr(ESC, input) {
                Some(0) => {}
                Some(at) => return Some(Event::Output(split(input, at))),
                None if input.is_empty() => return None,
                None => return Some(Event::Output(split(input, input.len()))),
            }
        }
        while let Some((&byte, rest)) = input.split_first() {
            match step(&self.held, byte) {
                Step::Hold => {
                    self.held.push(byte);
                    *input = rest;
                }
                Step::Complete => {
                    self.held.push(byte);
                    *input = rest;
                    return Some(self.complete());
                }
                Step::Mismatch => {
                    self.spent = true;
                    return Some(Event::Output(&self.held));
                }
            }
        }
        None
    }

    /// Bytes at the end of the stream that may be the beginning of a mark.
    #[cfg(test)]
    pub(super) fn take_held(&mut self) -> Vec<u8> {
        if self.spent {
            self.held.clear();
        }
        self.spent = false;
        std::mem::take(&mut self.held)
    }

    fn complete(&mut self) -> Event<'_> {
        self.spent = true;
        if self.held.starts_with(MODE_PREFIX) {
            let bytes = &self.held;
            return match parse_mode(bytes) {
                Some((number, on)) => Event::Mode { number, on, bytes },
                None => Event::Output(bytes),
            };
        }
        let payload = &self.held[MARK_PREFIX.len()..self.held.len() - 1];
        parse_mark(payload).map_or(Event::Output(&self.held), Event::Mark)
    }
}

fn split<'a>(input: &mut &'a [u8], at: usize) -> &'a [u8] {
    let (head, tail) = input.split_at(at);
    *input = tail;
    head
}

/// Whether `byte` continues the held bytes.
fn step(held: &[u8], byte: u8) -> Step {
    let at = held.len();
    let fits = |prefix: &[u8]| prefix.get(at) == Some(&byte) && prefix.starts_with(held);
    if fits(MARK_PREFIX) || fits(MODE_PREFIX) {
        return Step::Hold;
    }
    if held.starts_with(MODE_PREFIX) {
        return match byte {
            b'0'..=b'9' | b';' if at < MAX_MODE_BYTES => Step::Hold,
            b'h' | b'l' if at > MODE_PREFIX.len() => Step::Complete,
            _ => Step::Mismatch,
        };
    }
    if held.starts_with(MARK_PREFIX) {
        return match byte {
            BEL => Step::Complete,
            // Quoting leaves no control character in a genuine mark.
            0..0x20 | 0x7f => Step::Mismatch,
            _ if at < MAX_MARK_BYTES => Step::Hold,
            _ => Step::Mismatch,
        };
    }
    Step::Mismatch
}

/// Only the first of several numbers counts; the relevant switches are sent alone.
fn parse_mode(sequence: &[u8]) -> Option<(u16, bool)> {
    let (last, body) = sequence[MODE_PREFIX.len()..].split_last()?;
    let first = body.split(|&byte| byte == b';').next()?;
    Some((parse_number(first)?, *last == b'h'))
}

/// `None` when the payload does not carry our key.
fn parse_mark(payload: &[u8]) -> Option<Mark<'_>> {
    const KEY: &[u8] = b"clawrl=";
    let mut fields = payload.splitn(4, |&byte| byte == b';');
    let letter = fields.next()?;
    let mut second = fields.next()?;
    let option = if second.starts_with(KEY) {
        None
    } else {
        let option = second;
        second = fields.next()?;
        Some(option)
    };
    let key = second.strip_prefix(KEY)?;
    let rest = fields.next();
    let unreadable = Mark { kind: MarkKind::Unreadable, nonce: b"", number: 0 };
    let Some(dot) = memchr(b'.', key) else { return Some(unreadable) };
    let Some(number) = parse_number(&key[dot + 1..]) else { return Some(unreadable) };
    let kind = match (letter, option, rest) {
        (b"A", Some(b"k=s"), None) => Some(MarkKind::Continued { hidden: false }),
        (b"E", Some(b"k=s"), None) => Some(MarkKind::Continued { hidden: true }),
        (letter, Some(exit), rest) => parse_number(exit).and_then(|code| parse_exit_mark(letter, code, rest)),
        _ => None,
    };
    Some(Mark { kind: kind.unwrap_or(MarkKind::Unreadable), nonce: &key[..dot], number })
}

fn parse_exit_mark<'a>(letter: &[u8], exit_code: i32, rest: Option<&'a [u8]>) -> Option<MarkKind<'a>> {
    match (letter, rest) {
        (b"D", Some(folder)) => Some(MarkKind::Ended { exit_code, folder, hidden: false }),
        (b"E", Some(folder)) => Some(MarkKind::Ended { exit_code, folder, hidden: true }),
        (b"P", None) => Some(MarkKind::Replaced { exit_code }),
        (b"R", Some(flags)) => Some(MarkKind::Reported(Report {
            exit_code,
            has_prompt: flags.contains(&b'1'),
            has_continuation: flags.contains(&b'2'),
            expands: flags.contains(&b'v'),
            continues: flags.contains(&b'c'),
            on_terminal: flags.contains(&b't'),
        })),
        _ => None,
    }
}

fn parse_number<N: std::str::FromStr>(digits: &[u8]) -> Option<N> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Events as text, neighbouring output merged.
    fn events(chunks: &[&[u8]]) -> Vec<String> {
        let mut scanner = Scanner::default();
        let mut found: Vec<String> = Vec::new();
        let mut output: Vec<u8> = Vec::new();
        let flush = |output: &mut Vec<u8>, found: &mut Vec<String>| {
            if !output.is_empty() {
                found.push(format!("output {}", std::mem::take(output).escape_ascii()));
            }
        };
        for chunk in chunks {
            let mut rest = *chunk;
            while let Some(event) = scanner.next(&mut rest) {
                match event {
                    Event::Output(bytes) => output.extend_from_slice(bytes),
                    Event::Mark(mark) => {
                        flush(&mut output, &mut found);
                        found.push(format!("{:?} {} {}", mark.kind, mark.nonce.escape_ascii(), mark.number));
                    }
                    Event::Mode { number, on, bytes } => {
                        flush(&mut output, &mut found);
                        found.push(format!("mode {number} {on} {}", bytes.escape_ascii()));
                    }
                }
            }
        }
        output.extend_from_slice(&scanner.take_held());
        flush(&mut output, &mut found);
        found
    }

    fn check(stream: &[u8], expected: &[&str]) {
        assert_eq!(events(&[stream]), expected, "{}", stream.escape_ascii());
    }

    #[test]
    fn reads_every_kind_of_mark() {
        check(
            b"out\x1b]133;D;7;clawrl=ab.3;'/a;b'\x07$ ",
            &[
                "output out",
                "Ended { exit_code: 7, folder: [39, 47, 97, 59, 98, 39], hidden: false } ab 3",
                "output $ ",
            ],
        );
        check(b"\x1b]133;A;k=s;clawrl=ab.3\x07> ", &["Continued { hidden: false } ab 3", "output > "]);
        check(b"\x1b]133;E;k=s;clawrl=ab.3\x07", &["Continued { hidden: true } ab 3"]);
        check(
            b"\x1b]133;E;1;clawrl=ab.3;'/'\x07",
            &["Ended { exit_code: 1, folder: [39, 47, 39], hidden: true } ab 3"],
        );
        check(b"\x1b]133;P;137;clawrl=ab.1\x07", &["Replaced { exit_code: 137 } ab 1"]);
        check(
            b"\x1b]133;R;2;clawrl=ab.9;2vt\x07",
            &["Reported(Report { exit_code: 2, has_prompt: false, has_continuation: true, expands: true, \
               continues: false, on_terminal: true }) ab 9"],
        );
    }

    #[test]
    fn mode_switches_are_reported() {
        check(b"a\x1b[?2004lb", &["output a", r"mode 2004 false \x1b[?2004l", "output b"]);
        check(b"\x1b[?1049;1h", &[r"mode 1049 true \x1b[?1049;1h"]);
        check(b"\x1b[?99999h", &[r"output \x1b[?99999h"]);
    }

    #[test]
    fn other_sequences_are_output() {
        check(b"\x1b]133;D;0\x07", &[r"output \x1b]133;D;0\x07"]);
        check(
            b"\x1b]133;D;0;cla\x1b]133;A;k=s;clawrl=ab.1\x07",
            &[r"output \x1b]133;D;0;cla", "Continued { hidden: false } ab 1"],
        );
        check(b"\x1b\x1b[31m\x1b", &[r"output \x1b\x1b[31m\x1b"]);
        check(b"\x1b]133;C;clawrl=ab.1\n", &[r"output \x1b]133;C;clawrl=ab.1\n"]);
    }

    #[test]
    fn our_key_in_an_unknown_form_is_reported() {
        check(b"\x1b]133;Z;clawrl=ab.1\x07", &["Unreadable ab 1"]);
        check(b"\x1b]133;D;x;clawrl=ab.1;'/'\x07", &["Unreadable ab 1"]);
        check(b"\x1b]133;C;clawrl=ab\x07", &["Unreadable  0"]);
    }

    /// Bytes that resemble marks.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"\x1b]133;D;0;clawrl=ab.1;'/'\x07".to_vec()),
            Just(b"\x1b]133;C;clawrl=ab.12\x07".to_vec()),
            Just(b"\x1b[?2004h".to_vec()),
            Just(b"\x1b]133;".to_vec()),
            Just(b"\x1b[?".to_vec()),
            Just(b"\x1b".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..6),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        /// M1.
        #[test]
        fn chunking_does_not_matter(stream in stream(), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8)) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            at.extend([0, stream.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
            prop_assert_eq!(events(&chunks), events(&[&stream]));
        }

        /// M2: without marks, the output is the stream.
        #[test]
        fn nothing_is_lost(stream in stream()) {
            let mut scanner = Scanner::default();
            let (mut output, mut marks) = (Vec::new(), 0);
            let mut rest = stream.as_slice();
            while let Some(event) = scanner.next(&mut rest) {
                match event {
                    Event::Output(bytes) => output.extend_from_slice(bytes),
                    Event::Mark(_) => marks += 1,
                    Event::Mode { bytes, .. } => output.extend_from_slice(bytes),
                }
            }
            output.extend_from_slice(&scanner.take_held());
            let kept = if marks == 0 { output == stream } else { output.len() < stream.len() };
            prop_assert!(kept);
        }
    }
}
