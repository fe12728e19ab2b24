//! A Python interpreter in a sandbox, from our side of its pipes.
//!
//! P1. A call is sent once and never again. P2. Memory is bounded, whatever the interpreter writes: [`OUTPUT_BYTES`] of output
//! and [`REPLY_BYTES`] of a reply. P3. What code wrote before its reply is part of its output.
//!
//! Cancellation: an interpreter whose [`Interpreter::run`] was dropped half-way is of no use any more; drop it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clawrl_core::Fault;
use clawrl_sandbox::{ExecError, NotRun, Program, ProgramHandle, ProgramSpec, Sandbox, SandboxCommand};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::message::{EpisodeConfig, Ready, Reply, Request};

/// Runs in the interpreter. It takes itself from the arguments, so that its frames have a name of their own.
const DRIVER: &str = include_str!("driver.py");
const LOADER: &str =
    r#"import sys; exec(compile(sys.argv.pop(), "<driver>", "exec"), {"__name__": "driver"})"#;

/// Bytes of one call's output that are kept.
const OUTPUT_BYTES: usize = 1 << 20;

/// Bytes of one reply. The driver shortens what is in it to far less.
const REPLY_BYTES: usize = 4 << 20;

/// How long code has to end once it was interrupted, at most.
const GRACE: Duration = Duration::from_secs(2);

/// Read at once.
const CHUNK: usize = 8 * 1024;

/// An interpreter that waits for code.
#[derive(Debug)]
pub(crate) struct Interpreter {
    input: pipe::Sender,
    reader: OutputReader,
    calls: u64,
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
    chunk: Vec<u8>,
}

/// Why there is no interpreter.
#[derive(Debug)]
pub(crate) enum StartError {
    /// There is no `python3`.
    Missing(String),
    /// It did not come as far as to wait for code. Whose doing that is depends on who has been in the sandbox.
    Failed(String),
    /// The machine failed.
    Fault(Fault),
}

/// What came of a piece of code.
#[derive(Debug)]
pub(super) struct RunOutcome {
    pub(super) output: Output,
    pub(super) end: RunEnd,
}

/// How it ended.
#[derive(Debug)]
pub(super) enum RunEnd {
    Replied(Reply),
    /// Its time was up; it ended when it was interrupted, and the interpreter lives.
    Interrupted(Reply),
    /// Its time was up, and the interpreter was killed.
    Killed,
    /// The interpreter ended; why, in words.
    Ended(String),
    /// What it said was no reply, and it was killed.
    Garbage,
}

/// What code wrote.
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

    /// As text that ends with a line end, if there is any; and where in it something is left out.
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

/// What was heard.
enum Received {
    Line(Vec<u8>),
    TooLong,
    Ended(Result<Option<i32>, ExecError>),
    Late,
}

impl Interpreter {
    /// Starts one and waits until it is ready.
    ///
    /// # Errors
    /// [`StartError`]
    pub(crate) async fn start(
        sandbox: &dyn Sandbox,
        environment: BTreeMap<String, String>,
        by: Instant,
    ) -> Result<Self, StartError> {
        let arguments = ["-u", "-s", "-c", LOADER, DRIVER].map(str::to_owned).to_vec();
        let command = SandboxCommand { program: "python3".to_owned(), arguments, environment };
        let program = sandbox.open(ProgramSpec { command, user: None }).await.map_err(not_started)?;
        let Program { input, output, errors, handle } = program;
        let input = input.ok_or_else(|| StartError::Failed("it has no input".to_owned()))?;
        let reader = OutputReader {
            output: Some(output),
            errors: Some(errors),
            handle,
            unfinished: Vec::new(),
            chunk: Vec::with_capacity(CHUNK),
        };
        let mut interpreter = Self { input, reader, calls: 0 };
        let mut said = Output::default();
        match interpreter.reader.hear(&mut said, by).await {
            Received::Line(line)
                if serde_json::from_slice::<Ready>(&line).is_ok_and(|ready| ready.version[0] == 3) =>
            {
                Ok(interpreter)
            }
            Received::Line(_) | Received::TooLong => {
                Err(StartError::Failed("it does not speak as it should".to_owned()))
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

    /// Tells it what the episode holds fixed.
    pub(super) async fn begin(&mut self, beginning: EpisodeConfig<'_>) {
        // One that has ended is noticed by whoever wants it to run something.
        let _ = self.input.write_all(&Request::Begin { begin: beginning }.line()).await;
    }

    /// Runs code until its end or until its time is up.
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
            // It may write so much that it does not read on before that is taken.
            let write = async {
                written = input.write_all(&request).await.is_ok();
                std::future::pending::<Received>().await
            };
            let interrupt_at =
                until - until.saturating_duration_since(Instant::now()).div_f64(10.0).min(GRACE);
            tokio::select! {
                heard = reader.hear(&mut output, interrupt_at) => heard,
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
        // The pipe is empty, for all of the request was taken or has room; and if not, the kill follows.
        let _ = self.input.try_write(&Request::Interrupt { interrupt: id }.line());
        let heard = self.reader.hear(output, until).await;
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
    /// Waits for a line, and takes what is written besides.
    async fn hear(&mut self, output: &mut Output, until: Instant) -> Received {
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
                // First, for whoever writes without an end would keep it from being looked at.
                () = tokio::time::sleep_until(until.into()) => return Received::Late,
                open = read(&mut self.output, &mut self.unfinished) => {
                    if !open {
                        self.output = None;
                    }
                }
                open = read(&mut self.errors, &mut self.chunk) => {
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

    /// Takes what was written to the output and is there now.
    fn take_output(&mut self) {
        if let Some(output) = &self.output {
            available(output, |chunk| self.unfinished.extend_from_slice(chunk));
        }
    }

    /// Takes what was written to the errors and is there now.
    fn take_errors(&mut self, output: &mut Output) {
        if let Some(errors) = &self.errors {
            available(errors, |chunk| output.push(chunk));
        }
    }
}

/// What a pipe holds now, asked of the kernel itself: the runtime may not have heard yet of what was written just before a
/// reply or an end.
fn available(pipe: &pipe::Receiver, mut take: impl FnMut(&[u8])) {
    let mut chunk = [0u8; CHUNK];
    let mut taken = 0;
    // Somebody else may still write, without an end.
    while taken < OUTPUT_BYTES {
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
async fn read(pipe: &mut Option<pipe::Receiver>, into: &mut Vec<u8>) -> bool {
    match pipe {
        Some(pipe) => {
            into.reserve(CHUNK);
            matches!(pipe.read_buf(into).await, Ok(1..))
        }
        None => std::future::pending().await,
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
