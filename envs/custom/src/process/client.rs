//! The client of a program that communicates over pipes, one message per line.
//!
//! P1. A request is sent once and never again.
//! P2. Memory is bounded, whatever the program writes: a message has a limit, and of its standard error the end is
//! kept.
//! P3. Anything other than the one answer to the one pending request is a fault: a second answer to an earlier request,
//! an answer to an unknown one, or invalid output. A request that timed out may still be answered once; that answer is
//! ignored.
//!
//! A second answer is detected at the next request, and not before: so its timing does not matter.
//!
//! Cancellation: after the future of [`ProcessClient::ask`] was dropped midway, the program must be dropped.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clawrl_sandbox::{ExecError, LineTooLong, NotRun, Program, ProgramEvent, ProgramLines, Tail};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use crate::message::{Answer, AnswerId, Method, read};
use crate::peer_error::PeerError;

/// Bytes of standard error that are read at the end, of which the last are kept.
const ERROR_BYTES: usize = 256 * 1024;

/// How long a program that closed its input may take to end: mostly it is about to.
const LINGER: Duration = Duration::from_secs(2);

/// A program with one pending request at a time.
#[derive(Debug)]
pub(crate) struct ProcessClient {
    /// The program's name, for messages.
    name: String,
    input: pipe::Sender,
    lines: ProgramLines,
    tail: Tail,
    max_bytes: usize,
    last_id: u64,
    /// Requests that timed out.
    abandoned: BTreeSet<u64>,
    /// Part of a request was not read when its time was up.
    is_stuck: bool,
}

impl ProcessClient {
    /// `None` for a program without an input, which does not occur.
    pub(crate) fn new(program: Program, name: &str, max_bytes: usize) -> Option<Self> {
        let Program { input, output, errors, handle } = program;
        Some(Self {
            name: name.to_owned(),
            input: input?,
            lines: ProgramLines::new(output, errors, handle, max_bytes),
            tail: Tail::default(),
            max_bytes,
            last_id: 0,
            abandoned: BTreeSet::new(),
            is_stuck: false,
        })
    }

    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Sends the request of the last id and waits for its result.
    pub(crate) async fn ask(
        &mut self,
        mut request: String,
        method: Method,
        until: Instant,
    ) -> Result<Value, PeerError> {
        if self.is_stuck {
            let message =
                format!("`{}` did not read all of a request, so no other request is possible", self.name);
            return Err(PeerError::transient("pipe-closed", message));
        }
        let id = self.last_id;
        // Output that is there now came before the request.
        self.lines.read_available();
        while let Some(line) = self.lines.buffered().map_err(|LineTooLong| too_large(self.max_bytes))? {
            let answer = read(&line, method)?;
            self.settle(answer, None)?;
        }
        request.push('\n');
        let mut unsent = request.as_bytes();
        loop {
            let Self { input, lines, tail, .. } = self;
            let event = tokio::select! {
                event = lines.next(until, |errors| tail.push(errors)) => event,
                // Concurrently: it may write so much that it stops reading until its output is read.
                wrote = input.write(unsent), if !unsent.is_empty() => match wrote {
                    Ok(count @ 1..) => {
                        unsent = &unsent[count..];
                        continue;
                    }
                    // It has closed its input or ended; which of both shows now.
                    _ => match lines.next(until.min(Instant::now() + LINGER), |errors| tail.push(errors)).await {
                        ProgramEvent::TimedOut => ProgramEvent::Closed,
                        event => event,
                    },
                },
            };
            let line = match event {
                ProgramEvent::Line(line) => line,
                other => {
                    let trouble = self.trouble(other, method);
                    // A request of which nothing was read was never made.
                    if trouble == PeerError::Late && unsent.len() < request.len() {
                        self.abandoned.insert(id);
                        self.is_stuck = !unsent.is_empty();
                    }
                    return Err(trouble);
                }
            };
            let answer = read(&line, method)?;
            if let Some(result) = self.settle(answer, Some(id))? {
                return result;
            }
        }
    }

    /// The result in an answer to the pending request; `None` for an answer to an abandoned one.
    fn settle(
        &mut self,
        answer: Answer,
        open: Option<u64>,
    ) -> Result<Option<Result<Value, PeerError>>, PeerError> {
        let Answer { id, result } = answer;
        match id {
            // An answer without an id answers the oldest abandoned request, before the pending one.
            AnswerId::Null if self.abandoned.pop_first().is_some() => Ok(None),
            AnswerId::Null => match open {
                Some(_) => Ok(Some(result)),
                None => result.map(|_| None),
            },
            AnswerId::Number(id) if open == Some(id) => Ok(Some(result)),
            AnswerId::Number(id) if self.abandoned.remove(&id) => Ok(None),
            AnswerId::Number(id) if (1..self.last_id).contains(&id) => {
                Err(PeerError::transient("answer-twice", format!("request {id} was answered a second time")))
            }
            AnswerId::Number(id) => Err(PeerError::transient(
                "answer-unasked",
                format!("an answer to request {id} came, which was never made"),
            )),
            AnswerId::Other(id) => {
                let message = format!("an answer has the id {id}, but request ids are integers");
                Err(PeerError::transient("answer-unasked", message))
            }
        }
    }

    fn trouble(&self, event: ProgramEvent, method: Method) -> PeerError {
        let (name, method) = (&self.name, method.name());
        match event {
            ProgramEvent::TimedOut | ProgramEvent::Line(_) => PeerError::Late,
            ProgramEvent::TooLong => too_large(self.max_bytes),
            ProgramEvent::Closed => {
                let message = format!(
                    "`{name}` closed its standard input or output before it answered `{method}`, and still runs"
                );
                PeerError::transient("pipe-closed", message)
            }
            ProgramEvent::Ended(Ok(code)) => {
                let message = format!("`{name}` ended before it answered `{method}`: {}", ending(code));
                PeerError::transient("program-ended", message)
            }
            ProgramEvent::Ended(Err(ExecError::Fault(fault))) => PeerError::Fault(fault),
            ProgramEvent::Ended(Err(ExecError::NotRun { obstacle: NotRun::Program, message })) => {
                let help = "name a program in its sandbox, or add it with `image` or `files`";
                PeerError::Missing(format!(
                    "the environment's program `{name}` cannot be run: {message}; {help}"
                ))
            }
            ProgramEvent::Ended(Err(ExecError::NotRun { message, .. })) => {
                PeerError::transient("program-ended", format!("`{name}` was not run: {message}"))
            }
        }
    }

    pub(crate) fn last_words(&mut self) -> String {
        self.tail.push(&self.lines.available_errors(ERROR_BYTES));
        self.tail.text()
    }
}

/// A message that is larger than the task allows.
pub(crate) fn too_large(max_bytes: usize) -> PeerError {
    let message =
        format!("a message is larger than {} KiB; raise `message_kib` if it has to be", max_bytes / 1024);
    PeerError::permanent("message-too-large", message)
}

/// How a program ended.
fn ending(code: Option<i32>) -> String {
    match code {
        Some(137) => "signal 9, as for a program that takes too much memory".to_owned(),
        Some(code @ 129..) => format!("signal {}", code - 128),
        Some(code) => format!("exit code {code}"),
        None => "it was killed".to_owned(),
    }
}
