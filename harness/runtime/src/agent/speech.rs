//! The protocol on a program's standard input and output.
//!
//! I1. Every line has one answer, in order. I2. A line that is too long is refused and discarded. I3. At the end of the attempt
//! the program's input is closed after the last answer, and its remaining output is read.

use std::io;
use std::sync::PoisonError;

use clawrl_sandbox::Tail;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::program::Written;
use super::session::Session;
use crate::env_server::{MAX_LINE_BYTES, Refusal, answer};

/// Bytes of one read.
const CHUNK: usize = 16 * 1024;

/// Answers lines until the end of the output.
pub(super) async fn speak(session: &Session, input: pipe::Sender, output: pipe::Receiver, written: &Written) {
    let mut input = Some(input);
    let mut lines = Lines { output, unfinished: Vec::new(), looked: 0, skipping: false };
    loop {
        let line = tokio::select! {
            line = lines.next() => line,
            // I3: the closed input ends a program that waits for more.
            () = session.over.cancelled(), if input.is_some() => {
                input = None;
                continue;
            }
        };
        let answer = match line {
            Ok(None) | Err(_) => return,
            Ok(Some(Received::TooLong)) => {
                answer(Value::Null, Err(Refusal::too_large(MAX_LINE_BYTES).into()))
            }
            Ok(Some(Received::Line(line))) => {
                if line.first() != Some(&b'{') {
                    // Programs also print logs; a request is a JSON object on its own line.
                    let mut tail: std::sync::MutexGuard<'_, Tail> =
                        written.lock().unwrap_or_else(PoisonError::into_inner);
                    tail.push(&line);
                    tail.push(b"\n");
                    continue;
                }
                session.ask(&line).await
            }
        };
        let text = answer.to_string() + "\n";
        let is_taken = match &mut input {
            Some(pipe) => pipe.write_all(text.as_bytes()).await.is_ok(),
            None => true,
        };
        if !is_taken {
            // The program has closed its input, but may continue.
            input = None;
        }
    }
}

/// A read from the program's output.
enum Received {
    Line(Vec<u8>),
    TooLong,
}

/// Reads lines of an output. Cancel-safe: nothing that was read is lost.
struct Lines {
    output: pipe::Receiver,
    unfinished: Vec<u8>,
    /// Bytes that were searched for an end of line.
    looked: usize,
    /// The rest of a line that was too long.
    skipping: bool,
}

impl Lines {
    async fn next(&mut self) -> io::Result<Option<Received>> {
        loop {
            if let Some(end) = self.unfinished[self.looked..].iter().position(|&byte| byte == b'\n') {
                let rest = self.unfinished.split_off(self.looked + end + 1);
                let mut line = std::mem::replace(&mut self.unfinished, rest);
                self.looked = 0;
                line.pop();
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                return Ok(Some(Received::Line(line)));
            }
            self.looked = self.unfinished.len();
            if self.unfinished.len() > MAX_LINE_BYTES {
                (self.unfinished, self.looked) = (Vec::new(), 0);
                if !std::mem::replace(&mut self.skipping, true) {
                    return Ok(Some(Received::TooLong));
                }
            }
            let mut chunk = [0; CHUNK];
            let count = self.output.read(&mut chunk).await?;
            if count == 0 {
                // A last line without a line feed counts.
                let line = std::mem::take(&mut self.unfinished);
                self.looked = 0;
                return Ok((!line.is_empty() && !self.skipping).then_some(Received::Line(line)));
            }
            self.unfinished.extend_from_slice(&chunk[..count]);
        }
    }
}
