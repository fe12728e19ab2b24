//! Lines of standard input, read beside everything else.
//!
//! I1. No more than a line is read ahead of who takes them, and what the system gives with it. I2. A line that is no text, or is longer than any
//! request may be, or that a terminal has cut, is an error of its own, and the next one is a line again. I3. Lines that a terminal gives at once
//! were pasted, and come together: a person does not type two within [`TYPING`].
//!
//! Cancellation: the thread ends when this is dropped, at the latest when the line that it waits for is given to it.

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

/// Longest line of a terminal, in bytes: what is typed or pasted behind it is lost without notice (Linux, `N_TTY_BUF_SIZE`).
const LONGEST_TYPED: usize = 4_095;

/// Minimum time between two typed lines.
const TYPING: Timespec = Timespec { tv_sec: 0, tv_nsec: 40_000_000 };

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// Lines that wait. One, so that whoever ends early leaves the rest to who reads next, as far as that is possible.
const WAITING: usize = 1;

/// A line, or what is wrong with it.
pub(super) type Line = Result<String, &'static str>;

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Read {
    Line(Line),
    /// Several lines that came at once.
    Pasted(Vec<Line>),
}

/// The lines.
#[derive(Debug)]
pub(super) struct Lines {
    receiver: mpsc::Receiver<Read>,
    /// Its end is what the thread hears besides standard input.
    end: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Lines {
    /// Begins to read.
    ///
    /// # Errors
    /// The system has no pipe or no thread left.
    pub(super) fn begin() -> io::Result<Self> {
        let (ended, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let (sender, receiver) = mpsc::channel(WAITING);
        let thread = thread::Builder::new().name("lines".to_owned()).spawn(move || read(&ended, &sender))?;
        Ok(Self { receiver, end: Some(end), thread: Some(thread) })
    }

    /// The next one; `None` at the end. Dropping the future loses none.
    pub(super) async fn next(&mut self) -> Option<Read> {
        self.receiver.recv().await
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.receiver.close();
        self.end = None;
        // It has panicked, at worst, and has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Reads until standard input ends or the receiver is gone. A terminal that is gone is an end, too.
fn read(ended: &OwnedFd, sender: &mpsc::Sender<Read>) {
    let mut splitter = Splitter { is_typed: io::stdin().is_terminal(), ..Splitter::default() };
    let mut piece = vec![0; PIECE];
    let input = io::stdin();
    // Lines of a terminal that came just now.
    let mut recent: Vec<Line> = Vec::new();
    loop {
        let patience = if recent.is_empty() { None } else { Some(&TYPING) };
        let mut waits =
            [PollFd::new(ended, PollFlags::IN), PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)];
        match poll(&mut waits, patience) {
            // Nothing has come behind them.
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
                    // The receiver has ended.
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

/// Lines that came at once; at least one.
fn together(mut lines: Vec<Line>) -> Read {
    match lines.pop() {
        Some(line) if lines.is_empty() => Read::Line(line),
        last => {
            lines.extend(last);
            Read::Pasted(lines)
        }
    }
}

/// Takes bytes, gives lines.
#[derive(Debug, Default)]
struct Splitter {
    begun: Vec<u8>,
    is_too_long: bool,
    /// They come from a terminal.
    is_typed: bool,
}

impl Splitter {
    fn push(&mut self, bytes: &[u8]) -> VecDeque<Line> {
        let mut lines = VecDeque::new();
        let mut parts = bytes.split(|byte| *byte == b'\n');
        // What is behind the last line end is begun, and may be nothing.
        let rest = parts.next_back().unwrap_or_default();
        for part in parts {
            self.keep(part);
            lines.push_back(self.line());
        }
        self.keep(rest);
        lines
    }

    /// What has no line end.
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
