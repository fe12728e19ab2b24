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
//! Cancellation: a program whose [`Talk::ask`] was dropped half-way is of no use any more.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use clawrl_sandbox::{ExecError, LineTooLong, NotRun, Program, ProgramEvent, ProgramLines, Tail};
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use crate::message::{Answer, AnswerId, Method, read};
use crate::trouble::Trouble;

/// Bytes of standard error that are read at the end, of which the last are kept.
const ERROR_BYTES: usize = 256 * 1024;

/// How long a program that closed its input may take to end: mostly it is about to.
const LINGER: Duration = Duration::from_secs(2);

/// A program with which one request at a time is under way.
#[derive(Debug)]
pub(crate) struct Talk {
    /// The program, for messages.
    name: String,
    input: pipe::Sender,
    lines: ProgramLines,
    tail: Tail,
    max_bytes: usize,
    last_id: u64,
    /// Requests that were given up.
    abandoned: BTreeSet<u64>,
    /// A part of a request was not taken when its time was up.
    is_stuck: bool,
}

impl Talk {
    /// `None` for a program without an input, which there is not.
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
    ) -> Result<Value, Trouble> {
        if self.is_stuck {
            let message =
                format!("`{}` did not read a request to its end, so no other one can be made", self.name);
            return Err(Trouble::sound("pipe-closed", message));
        }
        let id = self.last_id;
        // What is there now came before anybody asked.
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
                // At the same time: it may write so much that it does not read on before that is taken.
                wrote = input.write(unsent), if !unsent.is_empty() => match wrote {
                    Ok(count @ 1..) => {
                        unsent = &unsent[count..];
                        continue;
                    }
                    // It has closed its input or ended, which of both is told now.
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
                    // What it has not begun to take was never asked.
                    if trouble == Trouble::Late && unsent.len() < request.len() {
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
    ) -> Result<Option<Result<Value, Trouble>>, Trouble> {
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
                Err(Trouble::sound("answer-twice", format!("request {id} was answered a second time")))
            }
            AnswerId::Number(id) => Err(Trouble::sound(
                "answer-unasked",
                format!("request {id} was answered, which was not made"),
            )),
            AnswerId::Other(id) => {
                let message = format!("an answer has the id {id}, and ids of requests are whole numbers");
                Err(Trouble::sound("answer-unasked", message))
            }
        }
    }

    fn trouble(&self, event: ProgramEvent, method: Method) -> Trouble {
        let (name, method) = (&self.name, method.name());
        match event {
            ProgramEvent::TimedOut | ProgramEvent::Line(_) => Trouble::Late,
            ProgramEvent::TooLong => too_large(self.max_bytes),
            ProgramEvent::Closed => {
                let message = format!(
                    "`{name}` closed its standard input or output before it answered `{method}`, and lives on"
                );
                Trouble::sound("pipe-closed", message)
            }
            ProgramEvent::Ended(Ok(code)) => {
                let message = format!("`{name}` ended before it answered `{method}`: {}", ending(code));
                Trouble::sound("program-ended", message)
            }
            ProgramEvent::Ended(Err(ExecError::Fault(fault))) => Trouble::Fault(fault),
            ProgramEvent::Ended(Err(ExecError::NotRun { obstacle: NotRun::Program, message })) => {
                let help =
                    "name a program that its sandbox has, or give the task an `image` or `files` with it";
                Trouble::Missing(format!(
                    "the environment's program `{name}` cannot be run: {message}; {help}"
                ))
            }
            ProgramEvent::Ended(Err(ExecError::NotRun { message, .. })) => {
                Trouble::sound("program-ended", format!("`{name}` was not run: {message}"))
            }
        }
    }

    /// The end of what it wrote to its standard error.
    pub(crate) fn last_words(&mut self) -> String {
        self.tail.push(&self.lines.available_errors(ERROR_BYTES));
        self.tail.text()
    }
}

/// A message that is larger than the task allows.
pub(crate) fn too_large(max_bytes: usize) -> Trouble {
    let message =
        format!("a message is larger than {} KiB; raise `message_kib` if it has to be", max_bytes / 1024);
    Trouble::lasting("message-too-large", message)
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
