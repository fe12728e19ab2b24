//! Answers requests until the attempt is closed or the input ends.
//!
//! I1. Every line of the input has one answer, in order. I2. The end of the input or a signal cancels the running operation and
//! closes everything. I3. A client that does not read answers delays the end by [`LAST_WORD`] at most.

use std::io::{self, BufRead};
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::CancelToken;
use clawrl_scheduler::Interrupt;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::attempt::ServedAttempt;
use super::lines::{Line, MAX_LINE_BYTES, read_lines};
use super::message::{Asked, Refusal, answer, read};
use crate::error::RuntimeError;

/// Time limit of the last write after the end.
const LAST_WORD: Duration = Duration::from_secs(1);

/// The result of serving an attempt.
#[derive(Debug)]
pub struct ServeOutcome {
    /// Whether an operation failed.
    pub faulted: bool,
    /// Resources that could not be removed.
    pub leftovers: Vec<String>,
}

/// Reads requests from `input` and gives each answer to `write`. When this returns, the attempt is closed.
///
/// # Errors
/// The input cannot be read, or answers cannot be written.
pub async fn serve(
    mut attempt: ServedAttempt,
    input: impl BufRead + Send + 'static,
    write: impl Fn(&Value) -> io::Result<()> + Send + Sync + 'static,
    mut interrupts: watch::Receiver<Interrupt>,
) -> Result<ServeOutcome, RuntimeError> {
    let end = attempt.cancel_token();
    let mut lines = read_lines(input, end.clone())?;
    let interrupted = end.clone();
    // This task ends with the runtime.
    tokio::spawn(async move {
        if interrupts.wait_for(|wanted| *wanted != Interrupt::None).await.is_ok() {
            interrupted.cancel();
        }
    });
    let output = Arc::new(write);
    let mut leftovers = Vec::new();
    let mut written = Ok(());
    while !attempt.is_closed() && written.is_ok() {
        let line = tokio::select! {
            biased;
            // Lines before the end of the input are answered.
            line = lines.recv() => line,
            () = end.cancelled() => None,
        };
        let Some(line) = line else { break };
        let (id, result) = match understood(&line) {
            Ok(Asked { id, request }) => (id, attempt.obey(request, &mut leftovers).await),
            Err((id, refusal)) => (id, Err(refusal.into())),
        };
        written = write_answer(answer(id, result), Arc::clone(&output), &end).await;
    }
    leftovers.extend(attempt.close().await);
    written.map(|()| ServeOutcome { faulted: attempt.faulted(), leftovers })
}

fn understood(line: &Line) -> Result<Asked, (Value, Refusal)> {
    match line {
        Line::Whole(bytes) => read(bytes),
        Line::TooLong => Err((Value::Null, Refusal::too_large(MAX_LINE_BYTES))),
    }
}

/// Writes on a blocking thread, because the write may wait for the reader.
async fn write_answer(
    answer: Value,
    output: Arc<impl Fn(&Value) -> io::Result<()> + Send + Sync + 'static>,
    end: &CancelToken,
) -> Result<(), RuntimeError> {
    let writing = spawn_blocking(move || output(&answer));
    let patience = async {
        end.cancelled().await;
        // timer: no event tells that a client will never read.
        tokio::time::sleep(LAST_WORD).await;
    };
    tokio::select! {
        biased;
        written = writing => written.unwrap_or(Ok(())).map_err(|error| {
            RuntimeError::storage(format!("cannot write to standard output: {error}"))
        }),
        () = patience => Ok(()),
    }
}
