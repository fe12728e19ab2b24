//! Reads lines of standard input in the background.
//!
//! I1. The thread reads at most one line ahead, plus the rest of the system's buffer. I2. A line that is not UTF-8,
//! exceeds the longest request, or was cut by the terminal is one error; the next line is read normally. I3. Lines that
//! a terminal delivers together were pasted and are returned together, since a person does not type two within
//! [`TYPING`].
//!
//! Cancellation: dropping [`Lines`] ends the thread, at the latest when its next line arrives.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::mpsc;

/// Longest line, in bytes. `clawrl serve` takes bodies of 8 MiB.
const LONGEST: usize = 8 << 20;

/// Longest line of a terminal, in bytes: Linux silently drops the rest (`N_TTY_BUF_SIZE`).
const LONGEST_TYPED: usize = 4_095;

/// Minimum time between two typed lines.
const TYPING: Timespec = Timespec { tv_sec: 0, tv_nsec: 40_000_000 };

/// Bytes per read.
const PIECE: usize = 1 << 16;

/// Bound of the channel. One line, so that a client that ends early leaves the rest of the input to the next reader if
/// possible.
const WAITING: usize = 1;

/// A line, or the reason why it is invalid.
pub(super) type Line = Result<String, &'static str>;

/// The result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    Line(Line),
    /// Several lines that arrived together.
    Pasted(Vec<Line>),
}

/// Lines of standard input.
#[derive(Debug)]
pub(super) struct Lines {
    receiver: mpsc::Receiver<Read>,
    /// Closing it wakes the thread.
    end: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Lines {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot create a pipe or a thread.
    pub(super) fn begin() -> io::Result<Self> {
        let (ended, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let thread = thread::Builder::new().name("lines".to_owned()).spawn(move || read(&ended, &sender))?;
        Ok(Self { receiver, end: Some(end), thread: Some(thread) })
    }

    /// The next input; `None` at the end. Dropping the future loses no lines.
    pub(super) async fn next(&mut self) -> Option<Read> {
        self.receiver.recv().await
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.receiver.close();
        self.end = None;
        // At worst the thread panicked, which was reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads until standard input ends, its terminal closes, or the receiver is dropped.
fn read(ended: &OwnedFd, sender: &mpsc::Sender<Read>) {
    let mut splitter = Splitter { is_typed: io::stdin().is_terminal(), ..Splitter::default() };
    let mut piece = vec![0; PIECE];
    let input = io::stdin();
    // Lines of a terminal that arrived together so far.
    let mut recent: Vec<Line> = Vec::new();
    loop {
        let patience = if recent.is_empty() { None } else { Some(&TYPING) };
        let mut waits =
            [PollFd::new(ended, PollFlags::IN), PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)];
        match poll(&mut waits, patience) {
            // No further lines followed.
            Ok(0) => {
                if sender.blocking_send(together(std::mem::take(&mut recent))).is_err() {
                    return;
                }
                continue;
            }
            Ok(_) if !waits[0].revents().is_empty() => return,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        let lines = match rustix::io::read(input.as_fd(), &mut piece) {
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Ok(0) | Err(_) => {
                recent.extend(splitter.finish());
                if !recent.is_empty() {
                    // The receiver was dropped.
                    let _ = sender.blocking_send(together(recent));
                }
                return;
            }
            Ok(read) => splitter.push(&piece[..read]),
        };
        if splitter.is_typed {
            recent.extend(lines);
            continue;
        }
        for line in lines {
            if sender.blocking_send(Read::Line(line)).is_err() {
                return;
            }
        }
    }
}

/// Combines lines that arrived together; at least one.
fn together(mut lines: Vec<Line>) -> Read {
    match lines.pop() {
        Some(line) if lines.is_empty() => Read::Line(line),
        last => {
            lines.extend(last);
            Read::Pasted(lines)
        }
    }
}

/// Splits bytes into lines.
#[derive(Debug, Default)]
struct Splitter {
    begun: Vec<u8>,
    is_too_long: bool,
    /// Whether the bytes come from a terminal.
    is_typed: bool,
}

impl Splitter {
    fn push(&mut self, bytes: &[u8]) -> VecDeque<Line> {
        let mut lines = VecDeque::new();
        let mut parts = bytes.split(|byte| *byte == b'\n');
        // The text after the last line end is an unfinished line, possibly empty.
        let rest = parts.next_back().unwrap_or_default();
        for part in parts {
            self.keep(part);
            lines.push_back(self.line());
        }
        self.keep(rest);
        lines
    }

    /// Returns the last line if it has no line end.
    fn finish(&mut self) -> Option<Line> {
        (!self.begun.is_empty() || self.is_too_long).then(|| self.line())
    }

    fn keep(&mut self, part: &[u8]) {
        if self.begun.len() + part.len() > LONGEST {
            self.is_too_long = true;
        }
        if self.is_too_long {
            self.begun.clear();
        } else {
            self.begun.extend_from_slice(part);
        }
    }

    fn line(&mut self) -> Line {
        let line = std::mem::take(&mut self.begun);
        if std::mem::take(&mut self.is_too_long) {
            return Err("the line is longer than any request may be");
        }
        if self.is_typed && line.len() >= LONGEST_TYPED {
            return Err(
                "the terminal has cut the line, which may have 4,094 bytes there; send it with `--message` or through a pipe",
            );
        }
        String::from_utf8(line).map_err(|_| "the line is no text in UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&[u8]]) -> Vec<Line> {
        let mut splitter = Splitter::default();
        let mut lines: Vec<Line> = pieces.iter().flat_map(|piece| splitter.push(piece)).collect();
        lines.extend(splitter.finish());
        lines
    }

    #[test]
    fn lines_however_they_come() {
        let check = |pieces: &[&[u8]], expected: &[&str]| {
            let expected: Vec<Line> = expected.iter().map(|line| Ok((*line).to_owned())).collect();
            assert_eq!(split(pieces), expected);
        };
        check(&[b"a\nb\n"], &["a", "b"]);
        check(&[b"a", b"b\n\nc"], &["ab", "", "c"]);
        check(&["é".as_bytes().split_at(1).0, "é\n".as_bytes().split_at(1).1], &["é"]);
        check(&[], &[]);
    }

    #[test]
    fn i2_what_is_no_line_is_passed_over() {
        let wrong = "the line is no text in UTF-8";
        assert_eq!(split(&[b"\xff\xfe\nb"]), [Err(wrong), Ok("b".to_owned())]);
        let long = vec![b'x'; LONGEST];
        let told = "the line is longer than any request may be";
        assert_eq!(split(&[&long, b"x", b"more\nb\n"]), [Err(told), Ok("b".to_owned())]);
        assert_eq!(split(&[&long, b"xx"]), [Err(told)]);
        assert_eq!(split(&[&long, b"\n"]), [Ok("x".repeat(LONGEST))]);
    }

    #[test]
    fn i2_a_line_that_a_terminal_has_cut_is_wrong() {
        let typed = |bytes: usize| {
            let mut splitter = Splitter { is_typed: true, ..Splitter::default() };
            splitter.push(&[vec![b'x'; bytes], b"\n".to_vec()].concat())
        };
        assert!(typed(LONGEST_TYPED - 1)[0].is_ok());
        assert!(typed(LONGEST_TYPED)[0].as_ref().unwrap_err().contains("the terminal has cut the line"));
    }
}
