//! Reads the output of a program on pipes, line by line.
//!
//! I1. Memory is bounded, whatever the program writes: a line has a limit, and its standard error goes to the caller in pieces.
//! I2. Lines that were written before the program ended come before its end.
//!
//! Cancellation: [`ProgramLines::next`] may be dropped; nothing is lost.

use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::exec_error::ExecError;
use crate::program::{ProgramHandle, available};

/// Bytes of one read.
const CHUNK: usize = 16 * 1024;

/// How long a program that closed its output may take to end: mostly it is about to.
const LINGER: Duration = Duration::from_secs(2);

/// Our ends of a program's output pipes, and its life.
#[derive(Debug)]
pub struct ProgramLines {
    /// The life of the program.
    pub handle: ProgramHandle,
    /// `None` once it is closed, as for `errors`.
    output: Option<pipe::Receiver>,
    errors: Option<pipe::Receiver>,
    /// The beginning of a line.
    unfinished: Vec<u8>,
    /// Bytes of `unfinished` without a line end.
    searched: usize,
    chunk: Vec<u8>,
    max_bytes: usize,
}

/// What [`ProgramLines::next`] waited for.
#[derive(Debug)]
pub enum ProgramEvent {
    /// A line, without its end.
    Line(Vec<u8>),
    /// The line is longer than the limit.
    TooLong,
    /// The program closed its output some time ago, and has not ended.
    Closed,
    /// The program ended; see [`ProgramHandle::ended`].
    Ended(Result<Option<i32>, ExecError>),
    /// The time is up.
    TimedOut,
}

/// A line is longer than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTooLong;

impl ProgramLines {
    /// Reads these pipes. A line has at most `max_bytes`.
    #[must_use]
    pub fn new(
        output: pipe::Receiver,
        errors: pipe::Receiver,
        handle: ProgramHandle,
        max_bytes: usize,
    ) -> Self {
        Self {
            handle,
            output: Some(output),
            errors: Some(errors),
            unfinished: Vec::new(),
            searched: 0,
            chunk: Vec::with_capacity(CHUNK),
            max_bytes,
        }
    }

    /// A line that was already read.
    ///
    /// # Errors
    /// [`LineTooLong`]
    pub fn buffered(&mut self) -> Result<Option<Vec<u8>>, LineTooLong> {
        let fresh = &self.unfinished[self.searched..];
        let Some(end) = fresh.iter().position(|&byte| byte == b'\n') else {
            self.searched = self.unfinished.len();
            return if self.searched > self.max_bytes { Err(LineTooLong) } else { Ok(None) };
        };
        let end = self.searched + end;
        self.searched = 0;
        let rest = self.unfinished.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.unfinished, rest);
        line.pop();
        if line.len() > self.max_bytes { Err(LineTooLong) } else { Ok(Some(line)) }
    }

    /// Waits for a line or the end of the program. Meanwhile passes what it writes to its standard error to `on_errors`.
    pub async fn next(&mut self, until: Instant, mut on_errors: impl FnMut(&[u8])) -> ProgramEvent {
        let mut patience = until;
        loop {
            match self.buffered() {
                Ok(Some(line)) => return ProgramEvent::Line(line),
                Ok(None) => {}
                Err(LineTooLong) => return ProgramEvent::TooLong,
            }
            if self.output.is_none() && patience == until {
                patience = until.min(Instant::now() + LINGER);
            }
            tokio::select! {
                biased;
                // First: a program that writes without end would keep the time from being checked.
                () = tokio::time::sleep_until(patience.into()) => {
                    return if patience < until { ProgramEvent::Closed } else { ProgramEvent::TimedOut };
                }
                open = read(&mut self.output, &mut self.unfinished) => {
                    if !open {
                        self.output = None;
                    }
                }
                open = read(&mut self.errors, &mut self.chunk) => {
                    if !open {
                        self.errors = None;
                    }
                    on_errors(&self.chunk);
                    self.chunk.clear();
                }
                end = self.handle.ended() => {
                    self.read_available();
                    return match self.buffered() {
                        Ok(Some(line)) => ProgramEvent::Line(line),
                        Ok(None) => ProgramEvent::Ended(end),
                        Err(LineTooLong) => ProgramEvent::TooLong,
                    };
                }
            }
        }
    }

    /// Reads what the output holds now.
    pub fn read_available(&mut self) {
        if let Some(output) = &self.output {
            // Another process may write on without end.
            self.unfinished.extend(available(output, self.max_bytes + CHUNK));
        }
    }

    /// What the standard error holds now, up to so many bytes.
    pub fn available_errors(&self, max_bytes: usize) -> Vec<u8> {
        self.errors.as_ref().map(|errors| available(errors, max_bytes)).unwrap_or_default()
    }
}

/// Reads what there is; false at the end. A closed pipe is never ready.
async fn read(pipe: &mut Option<pipe::Receiver>, into: &mut Vec<u8>) -> bool {
    match pipe {
        Some(pipe) => {
            into.reserve(CHUNK);
            matches!(pipe.read_buf(into).await, Ok(1..))
        }
        None => std::future::pending().await,
    }
}
