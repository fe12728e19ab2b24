//! A Python interpreter in a sandbox, seen from our side of its pipes.
//!
//! P1. A call is sent once and never again.
//! P2. Memory is bounded, whatever the interpreter writes: [`OUTPUT_BYTES`] of output and [`REPLY_BYTES`] of a reply.
//! P3. Output written before the reply is part of a call's output.
//!
//! Cancellation: after the future of [`Interpreter::run`] was dropped midway, the interpreter must be dropped.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clawrl_core::Fault;
use clawrl_sandbox::{
    ExecError, NotRun, Program, ProgramHandle, ProgramSpec, Sandbox, SandboxCommand, drain, read_open,
};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;

use super::message::{EpisodeConfig, Ready, Reply, Request};

/// Runs in the interpreter. It reads itself from the arguments, so that its frames have a name of their own.
const DRIVER: &str = include_str!("driver.py");
const LOADER: &str =
    r#"import sys; exec(compile(sys.argv.pop(), "<driver>", "exec"), {"__name__": "driver"})"#;

/// Maximum bytes of one call's output that are kept.
const OUTPUT_BYTES: usize = 1 << 20;

/// Maximum bytes of one reply. The driver shortens the content to far less.
const REPLY_BYTES: usize = 4 << 20;

/// Time for interrupted code to end.
const GRACE: Duration = Duration::from_secs(2);

const CHUNK: usize = 8 * 1024;

/// An interpreter that waits for code.
#[derive(Debug)]
pub(crate) struct Interpreter {
    input: pipe::Sender,
    reader: OutputReader,
    calls: u64,
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
    chunk: Vec<u8>,
}

/// Why there is no interpreter.
#[derive(Debug)]
pub(crate) enum StartError {
    /// `python3` does not exist.
    Missing(String),
    /// It did not become ready. The agent may be the cause if it has used the sandbox.
    Failed(String),
    Fault(Fault),
}

#[derive(Debug)]
pub(super) struct RunOutcome {
    pub(super) output: Output,
    pub(super) end: RunEnd,
}

#[derive(Debug)]
pub(super) enum RunEnd {
    Replied(Reply),
    /// Its time was up; it ended when interrupted, and the interpreter lives.
    Interrupted(Reply),
    /// Its time was up, and the interpreter was killed.
    Killed,
    /// The interpreter ended, with the reason.
    Ended(String),
    /// Its output was not a reply, and it was killed.
    Garbage,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Output {
    kept: Vec<u8>,
    left_out: usize,
}

impl Output {
    fn push(&mut self, bytes: &[u8]) {
        let fits = bytes.len().min(OUTPUT_BYTES - self.kept.len());
        self.kept.extend_from_slice(&bytes[..fits]);
        self.left_out += bytes.len() - fits;
    }

    /// The text, with a final newline if it is not empty, and the offset at which something is left out.
    pub(super) fn text(&self) -> (String, Option<usize>) {
        let mut text = String::from_utf8_lossy(&self.kept).into_owned();
        let cut = (self.left_out > 0).then_some(text.len());
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        if self.left_out > 0 {
            text.push_str(&format!("[... {} bytes left out ...]\n", self.left_out));
        }
        (text, cut)
    }
}

enum Received {
    Line(Vec<u8>),
    TooLong,
    Ended(Result<Option<i32>, ExecError>),
    Late,
}

impl Interpreter {
    /// Starts one and waits until it is ready.
    pub(crate) async fn start(
        sandbox: &dyn Sandbox,
        environment: BTreeMap<String, String>,
        by: Instant,
    ) -> Result<Self, StartError> {
        let arguments = ["-u", "-s", "-c", LOADER, DRIVER].map(str::to_owned).to_vec();
        let command = SandboxCommand { program: "python3".to_owned(), arguments, environment };
        let program = sandbox.open(ProgramSpec { command, user: None }).await.map_err(not_started)?;
        let Program { input, output, errors, handle } = program;
        let input = input.ok_or_else(|| StartError::Failed("it lacks an input".to_owned()))?;
        let reader = OutputReader {
            output: Some(output),
            errors: Some(errors),
            handle,
            unfinished: Vec::new(),
            chunk: Vec::with_capacity(CHUNK),
        };
        let mut interpreter = Self { input, reader, calls: 0 };
        let mut said = Output::default();
        match interpreter.reader.next_event(&mut said, by).await {
            Received::Line(line)
                if serde_json::from_slice::<Ready>(&line).is_ok_and(|ready| ready.version[0] == 3) =>
            {
                Ok(interpreter)
            }
            Received::Line(_) | Received::TooLong => {
                Err(StartError::Failed("it violated the protocol".to_owned()))
            }
            Received::Late => Err(StartError::Failed("it was not ready in time".to_owned())),
            Received::Ended(Err(error)) => Err(not_started(error)),
            Received::Ended(Ok(code)) => {
                interpreter.reader.take_errors(&mut said);
                Err(StartError::Failed(format!("it ended: {}: {}", ending(code), said.text().0.trim_end())))
            }
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.reader.handle.has_ended()
    }

    /// Sends the episode's configuration.
    pub(super) async fn begin(&mut self, beginning: EpisodeConfig<'_>) {
        // The next run notices if it has ended.
        let _ = self.input.write_all(&Request::Begin { begin: beginning }.line()).await;
    }

    /// Runs code until it ends or its time is up.
    ///
    /// # Errors
    /// A [`Fault`] when the machine failed.
    pub(super) async fn run(&mut self, code: &str, until: Instant) -> Result<RunOutcome, Fault> {
        self.calls += 1;
        let id = self.calls;
        let request = Request::Run { id, code }.line();
        let mut output = Output::default();
        let mut written = false;
        let heard = {
            let Self { input, reader, .. } = self;
            // It may write so much that it stops reading until its output is read.
            let write = async {
                written = input.write_all(&request).await.is_ok();
                std::future::pending::<Received>().await
            };
            let interrupt_at =
                until - until.saturating_duration_since(Instant::now()).div_f64(10.0).min(GRACE);
            tokio::select! {
                heard = reader.next_event(&mut output, interrupt_at) => heard,
                heard = write => heard,
            }
        };
        let end = match heard {
            Received::Late if written => self.interrupt(id, &mut output, until).await?,
            Received::Late => {
                self.reader.handle.kill().await;
                RunEnd::Killed
            }
            heard => self.end(id, heard).await?,
        };
        self.reader.take_errors(&mut output);
        Ok(RunOutcome { output, end })
    }

    /// Ends code whose time is up.
    async fn interrupt(&mut self, id: u64, output: &mut Output, until: Instant) -> Result<RunEnd, Fault> {
        // The pipe has room, because the request was read; if not, the kill follows.
        let _ = self.input.try_write(&Request::Interrupt { interrupt: id }.line());
        let heard = self.reader.next_event(output, until).await;
        if matches!(heard, Received::Late) {
            self.reader.handle.kill().await;
            return Ok(RunEnd::Killed);
        }
        Ok(match self.end(id, heard).await? {
            RunEnd::Replied(reply) => RunEnd::Interrupted(reply),
            other => other,
        })
    }

    async fn end(&mut self, id: u64, heard: Received) -> Result<RunEnd, Fault> {
        match heard {
            Received::Ended(Ok(code)) => Ok(RunEnd::Ended(ending(code))),
            Received::Ended(Err(ExecError::Fault(fault))) => Err(fault),
            Received::Ended(Err(ExecError::NotRun { message, .. })) => Ok(RunEnd::Ended(message)),
            Received::Line(line) => match serde_json::from_slice::<Reply>(&line) {
                Ok(reply) if reply.id == id => Ok(RunEnd::Replied(reply)),
                _ => Ok(self.garbage().await),
            },
            Received::TooLong | Received::Late => Ok(self.garbage().await),
        }
    }

    async fn garbage(&mut self) -> RunEnd {
        self.reader.handle.kill().await;
        RunEnd::Garbage
    }
}

impl OutputReader {
    /// Waits for a line, and collects other output.
    async fn next_event(&mut self, output: &mut Output, until: Instant) -> Received {
        loop {
            if let Some(end) = self.unfinished.iter().position(|&byte| byte == b'\n') {
                let rest = self.unfinished.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.unfinished, rest);
                line.pop();
                return Received::Line(line);
            }
            if self.unfinished.len() > REPLY_BYTES {
                return Received::TooLong;
            }
            tokio::select! {
                biased;
                // First, because an endless writer would keep it from being checked.
                () = tokio::time::sleep_until(until.into()) => return Received::Late,
                open = read_open(&mut self.output, &mut self.unfinished) => {
                    if !open {
                        self.output = None;
                    }
                }
                open = read_open(&mut self.errors, &mut self.chunk) => {
                    if !open {
                        self.errors = None;
                    }
                    output.push(&self.chunk);
                    self.chunk.clear();
                }
                end = self.handle.ended() => {
                    // A reply may have been written just before.
                    self.take_output();
                    if !self.unfinished.contains(&b'\n') {
                        return Received::Ended(end);
                    }
                }
            }
        }
    }

    /// Reads the output that is available now.
    fn take_output(&mut self) {
        if let Some(output) = &self.output {
            drain(output, OUTPUT_BYTES, |chunk| self.unfinished.extend_from_slice(chunk));
        }
    }

    /// Reads the errors that are available now.
    fn take_errors(&mut self, output: &mut Output) {
        if let Some(errors) = &self.errors {
            drain(errors, OUTPUT_BYTES, |chunk| output.push(chunk));
        }
    }
}

fn not_started(error: ExecError) -> StartError {
    match error {
        ExecError::NotRun { obstacle: NotRun::Program, message } => StartError::Missing(message),
        ExecError::NotRun { message, .. } => StartError::Failed(message),
        ExecError::Fault(fault) => StartError::Fault(fault),
    }
}

/// How a program ended, for the policy.
fn ending(code: Option<i32>) -> String {
    match code {
        Some(137) => "killed by signal 9, as a program is that takes too much memory".to_owned(),
        Some(code @ 129..) => format!("killed by signal {}", code - 128),
        Some(code) => format!("exit code {code}"),
        None => "killed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p2_output_is_bounded() {
        let mut output = Output::default();
        output.push(b"a");
        assert_eq!(output.text(), ("a\n".to_owned(), None));
        output.push(&vec![b'x'; OUTPUT_BYTES]);
        output.push(b"yz");
        assert_eq!(output.kept.len(), OUTPUT_BYTES);
        let (text, cut) = output.text();
        assert_eq!(&text[cut.unwrap()..], "\n[... 3 bytes left out ...]\n");
        assert_eq!(Output::default().text(), (String::new(), None));
    }
}
