//! A server's output other than messages: the end of its standard error, and the beginning of invalid output.
//!
//! O1. The summary contains no secret, nor a part of one that a cut left behind (I2 of secrets).

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use clawrl_core::printable_line;
use clawrl_redact::{Cut, Redactor};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

use super::message_repair::{repair, unreadable};
use super::pending_requests::PendingRequests;

/// Maximum bytes of a program's message.
pub(super) const LINE_BYTES: usize = 16 << 20;

const CHUNK_BYTES: usize = 8 * 1024;

/// Last bytes of standard error that are kept.
const ERROR_BYTES: usize = 4 * 1024;

/// First bytes of the output that are kept.
const OUTPUT_BYTES: usize = 512;

/// Maximum characters of each in the summary.
const TOLD_CHARS: usize = 600;

/// Recorded output. Dropping it stops the recording.
#[derive(Debug)]
pub(super) struct TrafficLog {
    heard: Arc<Mutex<Recorded>>,
    redactor: Redactor,
    listener: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Recorded {
    errors: Vec<u8>,
    output: Vec<u8>,
}

impl TrafficLog {
    /// Records both streams. The returned reader passes the output on, for the pending requests.
    pub(super) fn listen(
        output: pipe::Receiver,
        errors: pipe::Receiver,
        redactor: Redactor,
        waiting: PendingRequests,
    ) -> (Self, RepairedOutput) {
        let heard = Arc::new(Mutex::new(Recorded::default()));
        let listener = tokio::spawn(keep_end(errors, Arc::clone(&heard)));
        let lines = LineBuffer { waiting, line: Vec::new(), is_dropped: false, ready: Vec::new() };
        let tap = RepairedOutput { output, heard: Arc::clone(&heard), lines, given: 0 };
        (Self { heard, redactor, listener }, tap)
    }

    /// Both, for an error message; empty if there was no output.
    pub(super) fn summary(&self) -> String {
        lock(&self.heard).summary(&self.redactor)
    }

    /// Waits until standard error is closed, which happens soon after a program has ended.
    pub(super) async fn end(&mut self) {
        let _ = (&mut self.listener).await;
    }
}

impl Recorded {
    fn summary(&self, redactor: &Redactor) -> String {
        let part = |name: &str, bytes: &[u8], is_whole: bool| {
            let mut text = String::from_utf8_lossy(bytes).into_owned();
            // More may follow, so even an untruncated end may be the beginning of a secret.
            if is_whole {
                redactor.redact_cut(&mut text, Cut::End);
            } else {
                redactor.redact_cut(&mut text, Cut::Both);
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

impl Drop for TrafficLog {
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

fn lock(heard: &Mutex<Recorded>) -> std::sync::MutexGuard<'_, Recorded> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn keep_end(mut errors: pipe::Receiver, heard: Arc<Mutex<Recorded>>) {
    let mut chunk = vec![0; ERROR_BYTES];
    while let Ok(read @ 1..) = errors.read(&mut chunk).await {
        lock(&heard).push_errors(&chunk[..read]);
    }
}

/// A server's output: its beginning is kept, and its lines are repaired.
#[derive(Debug)]
pub(super) struct RepairedOutput {
    output: pipe::Receiver,
    heard: Arc<Mutex<Recorded>>,
    lines: LineBuffer,
    /// Bytes of `ready` that were already returned.
    given: usize,
}

/// Splits bytes into whole lines.
#[derive(Debug)]
struct LineBuffer {
    waiting: PendingRequests,
    /// The current, incomplete line.
    line: Vec<u8>,
    /// The line exceeds the maximum, and its bytes are discarded.
    is_dropped: bool,
    /// Output to return next.
    ready: Vec<u8>,
}

/// Bytes of a line that identify the request it answers.
const HEAD_BYTES: usize = 256;

impl LineBuffer {
    /// Processes new bytes; their complete lines become ready.
    fn take(&mut self, bytes: &[u8]) {
        self.ready.clear();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_end = part.ends_with(b"\n");
            if self.is_dropped {
                self.is_dropped = !is_end;
                continue;
            }
            self.line.extend_from_slice(part);
            if self.line.len() > LINE_BYTES {
                let head = String::from_utf8_lossy(&self.line[..HEAD_BYTES]).into_owned();
                let reason = format!("it has more than {} MiB", LINE_BYTES >> 20);
                self.hand_on(unreadable(&head, &reason, &self.waiting.ids()));
                self.is_dropped = !is_end;
                self.line = Vec::new();
            } else if is_end {
                let line = std::mem::take(&mut self.line);
                let messages = repair(&line, &self.waiting.ids()).unwrap_or_else(|| vec![line]);
                self.hand_on(messages);
            }
        }
    }

    fn hand_on(&mut self, messages: Vec<Vec<u8>>) {
        for message in messages {
            self.ready.extend_from_slice(&message);
            if !message.ends_with(b"\n") {
                self.ready.push(b'\n');
            }
        }
    }
}

impl AsyncRead for RepairedOutput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut chunk = [0; CHUNK_BYTES];
        while self.given == self.lines.ready.len() {
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut self.output).poll_read(context, &mut read))?;
            lock(&self.heard).push_output(read.filled());
            let came = read.filled().len();
            self.given = 0;
            self.lines.take(&chunk[..came]);
            if came == 0 {
                // End of input. A message without its newline may be incomplete.
                return Poll::Ready(Ok(()));
            }
        }
        let rest = &self.lines.ready[self.given..];
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
        let redactor = Redactor::for_tools(secrets);
        let mut heard = Recorded::default();
        heard.push_output(output.as_bytes());
        errors.iter().for_each(|chunk| heard.push_errors(chunk.as_bytes()));
        assert_eq!(heard.summary(&redactor), expected);
    }

    #[test]
    fn o1_summary_contains_no_part_of_a_secret() {
        check("", &["bad key k3y-for-", "the-server\n"], "; its standard error: bad key [KEY]");
        check("", &["bad key k3y-for"], "; its standard error: bad key [KEY]");
        check("k3y-for-the-server?", &[], "; it wrote: [KEY]?");
        let spaces = " ".repeat(OUTPUT_BYTES - 8);
        check(&format!("{spaces}k3y-for-the-server"), &[], "; it wrote: [KEY]");
        let long: String = (0..ERROR_BYTES).map(|n| format!("{n},")).collect();
        check(&long, &[&long, "!"], "; it wrote: [LONG]; its standard error: [LONG]!");
    }

    #[test]
    fn summary_omits_messages_and_is_short() {
        check(" {\"jsonrpc\"", &[], "");
        check("Listening\n", &["a\n", "b\n"], "; it wrote: Listening; its standard error: a\\nb");
        let long = "x".repeat(1000);
        check("", &[&long], &format!("; its standard error: {}", &long[..600]));
    }
}
