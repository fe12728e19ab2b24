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

use clawrl_sandbox::{ExecError, NotRun, Program, ProgramHandle, Tail, drain, read_open};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use crate::message::{Answer, AnswerId, Method, read};
use crate::peer_error::PeerError;

const CHUNK: usize = 16 * 1024;

/// How long to wait for a program to end after it closed a pipe: mostly it is about to.
const LINGER: Duration = Duration::from_secs(2);

/// A program with one pending request at a time.
#[derive(Debug)]
pub(crate) struct ProcessClient {
    /// The program's name, for messages.
    name: String,
    input: pipe::Sender,
    reader: OutputReader,
    last_id: u64,
    /// Requests that timed out.
    abandoned: BTreeSet<u64>,
    /// Part of a request was not read when its time was up.
    is_stuck: bool,
}

/// Our ends of its output pipes, and the program.
#[derive(Debug)]
struct OutputReader {
    /// `None` once it is closed.
    output: Option<pipe::Receiver>,
    errors: Option<pipe::Receiver>,
    handle: ProgramHandle,
    /// The start of an incomplete line.
    unfinished: Vec<u8>,
    /// Bytes of it that were already searched for a newline.
    looked: usize,
    chunk: Vec<u8>,
    tail: Tail,
    most: usize,
}

enum Received {
    Line(Vec<u8>),
    TooLong,
    /// It cannot write any more, but has not ended.
    Closed,
    Ended(Result<Option<i32>, ExecError>),
    Late,
}

impl ProcessClient {
    /// `None` for a program without an input, which does not occur.
    pub(crate) fn new(program: Program, name: &str, most: usize) -> Option<Self> {
        let Program { input, output, errors, handle } = program;
        let reader = OutputReader {
            output: Some(output),
            errors: Some(errors),
            handle,
            unfinished: Vec::new(),
            looked: 0,
            chunk: Vec::with_capacity(CHUNK),
            tail: Tail::default(),
            most,
        };
        Some(Self {
            name: name.to_owned(),
            input: input?,
            reader,
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
        self.reader.take_available();
        while let Some(line) = self.reader.line()? {
            let answer = read(&line, method)?;
            self.settle(answer, None)?;
        }
        request.push('\n');
        let mut unsent = request.as_bytes();
        loop {
            let Self { input, reader, .. } = self;
            let heard = tokio::select! {
                heard = reader.next_event(until) => heard,
                // Concurrently: it may write so much that it stops reading until its output is read.
                wrote = input.write(unsent), if !unsent.is_empty() => match wrote {
                    Ok(count @ 1..) => {
                        unsent = &unsent[count..];
                        continue;
                    }
                    // It has closed its input or ended; which of both shows now.
                    _ => match reader.next_event(until.min(Instant::now() + LINGER)).await {
                        Received::Late => Received::Closed,
                        heard => heard,
                    },
                },
            };
            let line = match heard {
                Received::Line(line) => line,
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

    fn trouble(&self, heard: Received, method: Method) -> PeerError {
        let (name, method) = (&self.name, method.name());
        match heard {
            Received::Late | Received::Line(_) => PeerError::Late,
            Received::TooLong => too_large(self.reader.most),
            Received::Closed => {
                let message = format!(
                    "`{name}` closed its standard input or output before it answered `{method}`, and still runs"
                );
                PeerError::transient("pipe-closed", message)
            }
            Received::Ended(Ok(code)) => {
                let message = format!("`{name}` ended before it answered `{method}`: {}", ending(code));
                PeerError::transient("program-ended", message)
            }
            Received::Ended(Err(ExecError::Fault(fault))) => PeerError::Fault(fault),
            Received::Ended(Err(ExecError::NotRun { obstacle: NotRun::Program, message })) => {
                let help = "name a program in its sandbox, or add it with `image` or `files`";
                PeerError::Missing(format!(
                    "the environment's program `{name}` cannot be run: {message}; {help}"
                ))
            }
            Received::Ended(Err(ExecError::NotRun { message, .. })) => {
                PeerError::transient("program-ended", format!("`{name}` was not run: {message}"))
            }
        }
    }

    pub(crate) fn last_words(&mut self) -> String {
        self.reader.take_errors();
        self.reader.tail.text()
    }
}

/// A message larger than the task allows.
pub(crate) fn too_large(most: usize) -> PeerError {
    let message = format!("a message is larger than {} KiB: raise `message_kib` if necessary", most / 1024);
    PeerError::permanent("message-too-large", message)
}

impl OutputReader {
    /// Takes a complete line, if there is one.
    fn line(&mut self) -> Result<Option<Vec<u8>>, PeerError> {
        let fresh = &self.unfinished[self.looked..];
        let Some(end) = fresh.iter().position(|&byte| byte == b'\n') else {
            self.looked = self.unfinished.len();
            return if self.looked > self.most { Err(too_large(self.most)) } else { Ok(None) };
        };
        let end = self.looked + end;
        self.looked = 0;
        let rest = self.unfinished.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.unfinished, rest);
        line.pop();
        if line.len() > self.most { Err(too_large(self.most)) } else { Ok(Some(line)) }
    }

    async fn next_event(&mut self, until: Instant) -> Received {
        let mut patience = until;
        loop {
            match self.line() {
                Ok(Some(line)) => return Received::Line(line),
                Ok(None) => {}
                Err(_) => return Received::TooLong,
            }
            if self.output.is_none() && patience == until {
                patience = until.min(Instant::now() + LINGER);
            }
            tokio::select! {
                biased;
                // First, because an endless writer would keep it from being checked.
                () = tokio::time::sleep_until(patience.into()) => {
                    return if patience < until { Received::Closed } else { Received::Late };
                }
                open = read_open(&mut self.output, &mut self.unfinished) => {
                    if !open {
                        self.output = None;
                    }
                }
                open = read_open(&mut self.errors, &mut self.chunk) => {
                    if !open {
                        self.errors = None;
                    }
                    self.tail.push(&self.chunk);
                    self.chunk.clear();
                }
                end = self.handle.ended() => {
                    // An answer may have been written just before.
                    self.take_available();
                    return match self.line() {
                        Ok(Some(line)) => Received::Line(line),
                        Ok(None) => Received::Ended(end),
                        Err(_) => Received::TooLong,
                    };
                }
            }
        }
    }

    /// Reads the output that is available now.
    fn take_available(&mut self) {
        if let Some(output) = &self.output {
            drain(output, self.most + 1, |chunk| self.unfinished.extend_from_slice(chunk));
        }
    }

    /// Reads the errors that are available now.
    fn take_errors(&mut self) {
        if let Some(errors) = &self.errors {
            drain(errors, 16 * CHUNK, |chunk| self.tail.push(chunk));
        }
    }
}

fn ending(code: Option<i32>) -> String {
    match code {
        Some(137) => "signal 9, as for a program that takes too much memory".to_owned(),
        Some(code @ 129..) => format!("signal {}", code - 128),
        Some(code) => format!("exit code {code}"),
        None => "it was killed".to_owned(),
    }
}
