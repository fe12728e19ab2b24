//! Lines of standard input, read beside everything else.
//!
//! I1. No more than a line is read ahead of who takes them, and what the system gives with it. I2. A line that is no text, or is longer than any
//! request may be, is an error of its own, and the next one is a line again.
//!
//! Cancellation: the thread ends when this is dropped, at the latest when the line that it waits for is given to it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::mpsc;

/// Longest line, in bytes. `clawrl serve` takes bodies of 8 MiB.
const LONGEST: usize = 8 << 20;

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// Lines that wait. One, so that whoever ends early leaves the rest to who reads next, as far as that is possible.
const WAITING: usize = 1;

/// A line, or what is wrong with it.
pub(super) type Line = Result<String, &'static str>;

/// The lines.
#[derive(Debug)]
pub(super) struct Lines {
    receiver: mpsc::Receiver<Line>,
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
    pub(super) async fn next(&mut self) -> Option<Line> {
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

/// Reads until standard input ends, or nobody listens any more. A terminal that is gone is an end, too.
fn read(ended: &OwnedFd, sender: &mpsc::Sender<Line>) {
    let mut splitter = Splitter::default();
    let mut piece = vec![0; PIECE];
    let input = io::stdin();
    loop {
        let mut waits =
            [PollFd::new(ended, PollFlags::IN), PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)];
        match poll(&mut waits, None) {
            Ok(_) if !waits[0].revents().is_empty() => return,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        let lines = match rustix::io::read(input.as_fd(), &mut piece) {
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Ok(0) | Err(_) => {
                splitter.finish().map(|line| sender.blocking_send(line));
                return;
            }
            Ok(read) => splitter.push(&piece[..read]),
        };
        for line in lines {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    }
}

/// Takes bytes, gives lines.
#[derive(Debug, Default)]
struct Splitter {
    begun: Vec<u8>,
    is_too_long: bool,
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
}
