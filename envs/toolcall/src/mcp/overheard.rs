//! What a server says besides messages: the end of its standard error, and the beginning of an output that is none.
//!
//! O1. What is told shows no secret, nor the part of one that is left where something was cut off (I2 of secrets).

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use clawrl_core::printable_line;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use super::mended::mended;
use crate::struck::Struck;

/// Bytes of one message of a program.
pub(super) const LINE_BYTES: usize = 16 << 20;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 8 * 1024;

/// Bytes of standard error that are kept, its last ones.
const ERROR_BYTES: usize = 4 * 1024;

/// Bytes of output that are kept, its first ones.
const OUTPUT_BYTES: usize = 512;

/// Characters of each that are told.
const TOLD_CHARS: usize = 600;

/// What was heard. Dropped, it listens no longer.
#[derive(Debug)]
pub(super) struct Overheard {
    heard: Arc<Mutex<Heard>>,
    struck: Struck,
    listener: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Heard {
    errors: Vec<u8>,
    output: Vec<u8>,
}

impl Overheard {
    /// Listens to both. The output is handed on by what is returned.
    pub(super) fn listen(output: pipe::Receiver, errors: pipe::Receiver, struck: Struck) -> (Self, Tap) {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let listener = tokio::spawn(keep_end(errors, Arc::clone(&heard)));
        let tap = Tap { output, heard: Arc::clone(&heard), line: Vec::new(), ready: Vec::new(), given: 0 };
        (Self { heard, struck, listener }, tap)
    }

    /// Both, for people; empty where nothing was said.
    pub(super) fn told(&self) -> String {
        lock(&self.heard).told(&self.struck)
    }

    /// Waits until standard error is closed, as it is soon after a program has ended.
    pub(super) async fn end(&mut self) {
        let _ = (&mut self.listener).await;
    }
}

impl Heard {
    fn told(&self, struck: &Struck) -> String {
        let part = |name: &str, bytes: &[u8], is_whole: bool| {
            let mut text = String::from_utf8_lossy(bytes).into_owned();
            // More may be on its way, so even an end that nobody cut off may be the beginning of something.
            if is_whole {
                struck.clean_head(&mut text);
            } else {
                struck.clean_piece(&mut text);
            }
            let text = text.trim();
            if text.is_empty() { String::new() } else { format!("; {name}: {}", last(text)) }
        };
        let is_message = self.output.trim_ascii_start().starts_with(b"{");
        let output = if is_message { String::new() } else { part("it wrote", &self.output, true) };
        let has_all = self.errors.len() < ERROR_BYTES;
        format!("{output}{}", part("its standard error", &self.errors, has_all))
    }

    /// Keeps the last bytes of standard error.
    fn push_errors(&mut self, bytes: &[u8]) {
        self.errors.extend_from_slice(bytes);
        let surplus = self.errors.len().saturating_sub(ERROR_BYTES);
        self.errors.drain(..surplus);
    }

    /// Keeps the first bytes of the output.
    fn push_output(&mut self, bytes: &[u8]) {
        let room = OUTPUT_BYTES - self.output.len();
        self.output.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl Drop for Overheard {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// The last characters.
fn last(text: &str) -> String {
    let count = text.chars().count();
    let tail: String = text.chars().skip(count.saturating_sub(TOLD_CHARS)).collect();
    printable_line(&tail, TOLD_CHARS)
}

fn lock(heard: &Mutex<Heard>) -> std::sync::MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn keep_end(mut errors: pipe::Receiver, heard: Arc<Mutex<Heard>>) {
    let mut chunk = vec![0; ERROR_BYTES];
    while let Ok(read @ 1..) = errors.read(&mut chunk).await {
        lock(&heard).push_errors(&chunk[..read]);
    }
}

/// The output of a server, whose beginning is kept and whose lines are mended.
#[derive(Debug)]
pub(super) struct Tap {
    output: pipe::Receiver,
    heard: Arc<Mutex<Heard>>,
    /// A line whose end has not come.
    line: Vec<u8>,
    /// What is handed on next, from `given` on.
    ready: Vec<u8>,
    given: usize,
}

impl Tap {
    /// Takes what came, and makes its whole lines ready. What is longer than any message is handed on at once: it is refused elsewhere.
    fn line_by_line(&mut self, bytes: &[u8]) {
        self.ready.clear();
        self.given = 0;
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                match mended(&self.line) {
                    Some(message) => {
                        self.ready.extend_from_slice(&message);
                        self.ready.push(b'\n');
                    }
                    None => self.ready.extend_from_slice(&self.line),
                }
                self.line.clear();
            } else if self.line.len() > LINE_BYTES {
                self.ready.append(&mut self.line);
            }
        }
    }
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK_BYTES];
        while self.given == self.ready.len() {
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.output).poll_read(context, &mut read))?;
            lock(&self.heard).push_output(read.filled());
            if read.filled().is_empty() {
                // The end, perhaps in the middle of a line.
                let rest = std::mem::take(&mut self.line);
                if rest.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                (self.ready, self.given) = (rest, 0);
            } else {
                let came = read.filled().len();
                self.line_by_line(&chunk[..came]);
            }
        }
        let rest = &self.ready[self.given..];
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        self.given += count;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, errors: &[&str], expected: &str) {
        let long = (0..ERROR_BYTES).map(|n| format!("{n},")).collect();
        let secrets = [("KEY".to_owned(), "k3y-for-the-server".to_owned()), ("LONG".to_owned(), long)];
        let struck = Struck::new(secrets);
        let mut heard = Heard::default();
        heard.push_output(output.as_bytes());
        errors.iter().for_each(|chunk| heard.push_errors(chunk.as_bytes()));
        assert_eq!(heard.told(&struck), expected);
    }

    #[test]
    fn o1_no_part_of_a_secret_is_told() {
        check("", &["bad key k3y-for-", "the-server\n"], "; its standard error: bad key [KEY]");
        check("", &["bad key k3y-for"], "; its standard error: bad key [KEY]");
        check("k3y-for-the-server?", &[], "; it wrote: [KEY]?");
        let spaces = " ".repeat(OUTPUT_BYTES - 8);
        check(&format!("{spaces}k3y-for-the-server"), &[], "; it wrote: [KEY]");
        let long: String = (0..ERROR_BYTES).map(|n| format!("{n},")).collect();
        check(&long, &[&long, "!"], "; it wrote: [LONG]; its standard error: [LONG]!");
    }

    #[test]
    fn messages_are_not_told_and_the_rest_is_short() {
        check(" {\"jsonrpc\"", &[], "");
        check("Listening\n", &["a\n", "b\n"], "; it wrote: Listening; its standard error: a\\nb");
        let long = "x".repeat(1000);
        check("", &[&long], &format!("; its standard error: {}", &long[..600]));
    }
}
