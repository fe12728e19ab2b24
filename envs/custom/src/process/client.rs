//! A program that is spoken to over pipes, a message a line, from our side.
//!
//! P1. A request is sent once and never again. P2. Memory is bounded, whatever the program writes: a message has a limit, and
//! of its standard error the end is kept. P3. Whatever is not the one answer to the one open request is a fault: another
//! answer to a request before it, an answer to one that was never made, anything that is no answer. What was abandoned
//! because its time was up may still be answered, once; nobody looks at that.
//!
//! Two answers at once are found when the next request is made, and not before: so it does not matter how soon the second
//! one comes.
//!
//! Cancellation: a program whose [`ProcessClient::ask`] was dropped half-way is of no use any more.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clawrl_sandbox::{ExecError, NotRun, Program, ProgramHandle, Tail};
use rustix::io::Errno;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::message::{Answer, AnswerId, Method, read};
use crate::peer_error::PeerError;

/// Read at once.
const CHUNK: usize = 16 * 1024;

/// How long the end of a program is waited for that has closed a pipe: mostly it is about to end.
const LINGER: Duration = Duration::from_secs(2);

/// A program with which one request at a time is under way.
#[derive(Debug)]
pub(crate) struct ProcessClient {
    /// The program, for messages.
    name: String,
    input: pipe::Sender,
    ear: OutputReader,
    last_id: u64,
    /// Requests that were given up.
    abandoned: BTreeSet<u64>,
    /// A part of a request was not taken when its time was up.
    is_stuck: bool,
}

/// Our ends of what it writes, and its life.
#[derive(Debug)]
struct OutputReader {
    /// `None` once it is closed.
    output: Option<pipe::Receiver>,
    errors: Option<pipe::Receiver>,
    handle: ProgramHandle,
    /// The beginning of a line.
    unfinished: Vec<u8>,
    /// Bytes of it that were looked through for an end of line.
    looked: usize,
    chunk: Vec<u8>,
    tail: Tail,
    most: usize,
}

/// What was heard.
enum Received {
    Line(Vec<u8>),
    TooLong,
    /// It will never say anything again, but has not ended.
    Closed,
    Ended(Result<Option<i32>, ExecError>),
    Late,
}

impl ProcessClient {
    /// `None` for a program without an input, which there is not.
    pub(crate) fn new(program: Program, name: &str, most: usize) -> Option<Self> {
        let Program { input, output, errors, handle } = program;
        let ear = OutputReader {
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
            ear,
            last_id: 0,
            abandoned: BTreeSet::new(),
            is_stuck: false,
        })
    }

    /// The id of the next request.
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
                format!("`{}` did not read a request to its end, so no other one can be made", self.name);
            return Err(PeerError::sound("pipe-closed", message));
        }
        let id = self.last_id;
        // What is there now came before anybody asked.
        self.ear.take_available();
        while let Some(line) = self.ear.line()? {
            let answer = read(&line, method)?;
            self.settle(answer, None)?;
        }
        request.push('\n');
        let mut unsent = request.as_bytes();
        loop {
            let Self { input, ear, .. } = self;
            let heard = tokio::select! {
                heard = ear.hear(until) => heard,
                // At the same time: it may write so much that it does not read on before that is taken.
                wrote = input.write(unsent), if !unsent.is_empty() => match wrote {
                    Ok(count @ 1..) => {
                        unsent = &unsent[count..];
                        continue;
                    }
                    // It has closed its input or ended, which of both is told now.
                    _ => match ear.hear(until.min(Instant::now() + LINGER)).await {
                        Received::Late => Received::Closed,
                        heard => heard,
                    },
                },
            };
            let line = match heard {
                Received::Line(line) => line,
                other => {
                    let trouble = self.trouble(other, method);
                    // What it has not begun to take was never asked.
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

    /// The result, of an answer to the open request; nothing, of one to an abandoned one.
    fn settle(
        &mut self,
        answer: Answer,
        open: Option<u64>,
    ) -> Result<Option<Result<Value, PeerError>>, PeerError> {
        let Answer { id, result } = answer;
        match id {
            // What cannot say which request it answers, answers the oldest one that was given up, before the open one.
            AnswerId::Null if self.abandoned.pop_first().is_some() => Ok(None),
            AnswerId::Null => match open {
                Some(_) => Ok(Some(result)),
                None => result.map(|_| None),
            },
            AnswerId::Number(id) if open == Some(id) => Ok(Some(result)),
            AnswerId::Number(id) if self.abandoned.remove(&id) => Ok(None),
            AnswerId::Number(id) if (1..self.last_id).contains(&id) => {
                Err(PeerError::sound("answer-twice", format!("request {id} was answered a second time")))
            }
            AnswerId::Number(id) => Err(PeerError::sound(
                "answer-unasked",
                format!("request {id} was answered, which was not made"),
            )),
            AnswerId::Other(id) => {
                let message = format!("an answer has the id {id}, and ids of requests are whole numbers");
                Err(PeerError::sound("answer-unasked", message))
            }
        }
    }

    fn trouble(&self, heard: Received, method: Method) -> PeerError {
        let (name, method) = (&self.name, method.name());
        match heard {
            Received::Late | Received::Line(_) => PeerError::Late,
            Received::TooLong => too_large(self.ear.most),
            Received::Closed => {
                let message = format!(
                    "`{name}` closed its standard input or output before it answered `{method}`, and lives on"
                );
                PeerError::sound("pipe-closed", message)
            }
            Received::Ended(Ok(code)) => {
                let message = format!("`{name}` ended before it answered `{method}`: {}", ending(code));
                PeerError::sound("program-ended", message)
            }
            Received::Ended(Err(ExecError::Fault(fault))) => PeerError::Fault(fault),
            Received::Ended(Err(ExecError::NotRun { obstacle: NotRun::Program, message })) => {
                let help =
                    "name a program that its sandbox has, or give the task an `image` or `files` with it";
                PeerError::Missing(format!(
                    "the environment's program `{name}` cannot be run: {message}; {help}"
                ))
            }
            Received::Ended(Err(ExecError::NotRun { message, .. })) => {
                PeerError::sound("program-ended", format!("`{name}` was not run: {message}"))
            }
        }
    }

    /// The end of what it wrote to its standard error.
    pub(crate) fn last_words(&mut self) -> String {
        self.ear.take_errors();
        self.ear.tail.text()
    }
}

/// A message that is larger than the task allows.
pub(crate) fn too_large(most: usize) -> PeerError {
    let message =
        format!("a message is larger than {} KiB; raise `message_kib` if it has to be", most / 1024);
    PeerError::lasting("message-too-large", message)
}

impl OutputReader {
    /// Takes a whole line, if there is one.
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

    /// Waits for a line.
    async fn hear(&mut self, until: Instant) -> Received {
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
                // First, for whoever writes without an end would keep it from being looked at.
                () = tokio::time::sleep_until(patience.into()) => {
                    return if patience < until { Received::Closed } else { Received::Late };
                }
                open = receive(&mut self.output, &mut self.unfinished) => {
                    if !open {
                        self.output = None;
                    }
                }
                open = receive(&mut self.errors, &mut self.chunk) => {
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

    /// Takes what was written to the output and is there now.
    fn take_available(&mut self) {
        if let Some(output) = &self.output {
            available(output, self.most, |chunk| self.unfinished.extend_from_slice(chunk));
        }
    }

    /// Takes what was written to the errors and is there now.
    fn take_errors(&mut self) {
        if let Some(errors) = &self.errors {
            available(errors, CHUNK * 16, |chunk| self.tail.push(chunk));
        }
    }
}

/// What a pipe holds now, asked of the kernel itself: the runtime may not have heard yet of what was written just before an
/// end.
fn available(pipe: &pipe::Receiver, most: usize, mut take: impl FnMut(&[u8])) {
    let mut chunk = [0u8; CHUNK];
    let mut taken = 0;
    // Somebody else may still write, without an end.
    while taken <= most {
        match rustix::io::read(pipe, &mut chunk) {
            Ok(read) if read > 0 => {
                taken += read;
                take(&chunk[..read]);
            }
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}

/// Reads what there is; false at the end. A pipe that is closed is never ready.
async fn receive(pipe: &mut Option<pipe::Receiver>, into: &mut Vec<u8>) -> bool {
    match pipe {
        Some(pipe) => {
            into.reserve(CHUNK);
            matches!(pipe.read_buf(into).await, Ok(1..))
        }
        None => std::future::pending().await,
    }
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
