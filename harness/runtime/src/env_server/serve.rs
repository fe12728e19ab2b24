//! Requests in, answers out, until the attempt is closed or nobody asks any more.
//!
//! I1. Every line of the input has one answer, in its order. I2. The end of the input or a signal gives up what is under way,
//! and everything is closed. I3. A reader of answers that does not read holds up the end for [`LAST_WORD`] at most.

use std::time::Duration;

use clawrl_core::CancelToken;
use clawrl_scheduler::Interrupt;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::attempt::Driven;
use super::lines::{Line, MOST, of_standard_input};
use super::message::{Asked, Refusal, answer, read};
use crate::failure::Failure;
use crate::output::print_json_line;

/// How long an answer may still be on its way once the end has come.
const LAST_WORD: Duration = Duration::from_secs(1);

/// How it went.
#[derive(Debug)]
pub(crate) struct Served {
    /// Something broke.
    pub(crate) faulted: bool,
    /// What could not be removed.
    pub(crate) leftovers: Vec<String>,
}

/// Serves standard input and output. When this returns, the attempt is closed.
///
/// # Errors
/// When the input cannot be listened to, or answers cannot be written.
pub(crate) async fn serve(
    mut attempt: Driven,
    mut interrupts: watch::Receiver<Interrupt>,
) -> Result<Served, Failure> {
    let end = attempt.cancel_token();
    let mut lines = of_standard_input(end.clone())?;
    let interrupted = end.clone();
    // Ends with the runtime.
    tokio::spawn(async move {
        if interrupts.wait_for(|wanted| *wanted != Interrupt::None).await.is_ok() {
            interrupted.cancel();
        }
    });
    let mut leftovers = Vec::new();
    let mut written = Ok(());
    while !attempt.is_closed() && written.is_ok() {
        let line = tokio::select! {
            biased;
            // What came before the end has its answer.
            line = lines.recv() => line,
            () = end.cancelled() => None,
        };
        let Some(line) = line else { break };
        let (id, result) = match understood(&line) {
            Ok(Asked { id, request }) => (id, attempt.obey(request, &mut leftovers).await),
            Err((id, refusal)) => (id, Err(refusal.into())),
        };
        written = write(answer(id, result), &end).await;
    }
    leftovers.extend(attempt.close().await);
    written.map(|()| Served { faulted: attempt.faulted(), leftovers })
}

fn understood(line: &Line) -> Result<Asked, (Value, Refusal)> {
    match line {
        Line::Whole(bytes) => read(bytes),
        Line::TooLong => Err((Value::Null, Refusal::too_large(MOST))),
    }
}

/// On a thread that may wait for a reader, since nothing else may.
async fn write(answer: Value, end: &CancelToken) -> Result<(), Failure> {
    let writing = spawn_blocking(move || print_json_line(&answer).map(drop));
    let patience = async {
        end.cancelled().await;
        // timer: nothing tells that a reader will never read.
        tokio::time::sleep(LAST_WORD).await;
    };
    tokio::select! {
        biased;
        written = writing => written.unwrap_or(Ok(())),
        () = patience => Ok(()),
    }
}
