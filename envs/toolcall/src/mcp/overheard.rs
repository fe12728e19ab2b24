//! What a server says besides messages: the end of its standard error, and the beginning of an output that is none.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use clawrl_core::printable_line;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::unix::pipe;
use tokio::task::JoinHandle;

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
    listener: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Heard {
    errors: Vec<u8>,
    output: Vec<u8>,
}

impl Overheard {
    /// Listens to both. The output is handed on by what is returned.
    pub(super) fn listen(output: pipe::Receiver, errors: pipe::Receiver) -> (Self, Tap) {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let listener = tokio::spawn(keep_end(errors, Arc::clone(&heard)));
        let tap = Tap { output, heard: Arc::clone(&heard) };
        (Self { heard, listener }, tap)
    }

    /// Both, for people; empty where nothing was said.
    pub(super) fn told(&self) -> String {
        let heard = lock(&self.heard);
        let part = |name: &str, bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let text = text.trim();
            if text.is_empty() { String::new() } else { format!("; {name}: {}", last(text)) }
        };
        let is_message = heard.output.trim_ascii_start().starts_with(b"{");
        let output = if is_message { String::new() } else { part("it wrote", &heard.output) };
        format!("{output}{}", part("its standard error", &heard.errors))
    }

    /// Waits until standard error is closed, as it is soon after a program has ended.
    pub(super) async fn end(&mut self) {
        let _ = (&mut self.listener).await;
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
        let mut heard = lock(&heard);
        heard.errors.extend_from_slice(&chunk[..read]);
        let surplus = heard.errors.len().saturating_sub(ERROR_BYTES);
        heard.errors.drain(..surplus);
    }
}

/// The output of a server, whose beginning is kept.
#[derive(Debug)]
pub(super) struct Tap {
    output: pipe::Receiver,
    heard: Arc<Mutex<Heard>>,
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.output).poll_read(context, buffer);
        let mut heard = lock(&self.heard);
        let room = OUTPUT_BYTES - heard.output.len();
        let fresh = &buffer.filled()[before..];
        heard.output.extend_from_slice(&fresh[..fresh.len().min(room)]);
        polled
    }
}
