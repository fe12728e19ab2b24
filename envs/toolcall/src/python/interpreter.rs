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
    ExecError, NotRun, Program, ProgramEvent, ProgramLines, ProgramSpec, Sandbox, SandboxCommand,
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

/// An interpreter that waits for code.
#[derive(Debug)]
pub(crate) struct Interpreter {
    input: pipe::Sender,
    lines: ProgramLines,
    calls: u64,
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
        let lines = ProgramLines::new(output, errors, handle, REPLY_BYTES);
        let mut interpreter = Self { input, lines, calls: 0 };
        let mut said = Output::default();
        match next(&mut interpreter.lines, &mut said, by).await {
            ProgramEvent::Line(line)
                if serde_json::from_slice::<Ready>(&line).is_ok_and(|ready| ready.version[0] == 3) =>
            {
                Ok(interpreter)
            }
            ProgramEvent::Line(_) | ProgramEvent::TooLong => {
                Err(StartError::Failed("it violated the protocol".to_owned()))
            }
            ProgramEvent::TimedOut | ProgramEvent::Closed => {
                Err(StartError::Failed("it was not ready in time".to_owned()))
            }
            ProgramEvent::Ended(Err(error)) => Err(not_started(error)),
            ProgramEvent::Ended(Ok(code)) => {
                said.push(&interpreter.lines.available_errors(OUTPUT_BYTES));
                Err(StartError::Failed(format!("it ended: {}: {}", ending(code), said.text().0.trim_end())))
            }
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lines.handle.has_ended()
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
        let event = {
            let Self { input, lines, .. } = self;
            // It may write so much that it stops reading until its output is read.
            let write = async {
                written = input.write_all(&request).await.is_ok();
                std::future::pending::<ProgramEvent>().await
            };
            let interrupt_at =
                until - until.saturating_duration_since(Instant::now()).div_f64(10.0).min(GRACE);
            tokio::select! {
                event = next(lines, &mut output, interrupt_at) => event,
                event = write => event,
            }
        };
        let end = match event {
            ProgramEvent::TimedOut if written => self.interrupt(id, &mut output, until).await?,
            ProgramEvent::TimedOut => {
                self.lines.handle.kill().await;
                RunEnd::Killed
            }
            event => self.end(id, event).await?,
        };
        output.push(&self.lines.available_errors(OUTPUT_BYTES));
        Ok(RunOutcome { output, end })
    }

    /// Ends code whose time is up.
    async fn interrupt(&mut self, id: u64, output: &mut Output, until: Instant) -> Result<RunEnd, Fault> {
        // The pipe has room, because the request was read; if not, the kill follows.
        let _ = self.input.try_write(&Request::Interrupt { interrupt: id }.line());
        let event = next(&mut self.lines, output, until).await;
        if matches!(event, ProgramEvent::TimedOut) {
            self.lines.handle.kill().await;
            return Ok(RunEnd::Killed);
        }
        Ok(match self.end(id, event).await? {
            RunEnd::Replied(reply) => RunEnd::Interrupted(reply),
            other => other,
        })
    }

    async fn end(&mut self, id: u64, event: ProgramEvent) -> Result<RunEnd, Fault> {
        match event {
            ProgramEvent::Ended(Ok(code)) => Ok(RunEnd::Ended(ending(code))),
            ProgramEvent::Ended(Err(ExecError::Fault(fault))) => Err(fault),
            ProgramEvent::Ended(Err(ExecError::NotRun { message, .. })) => Ok(RunEnd::Ended(message)),
            ProgramEvent::Line(line) => match serde_json::from_slice::<Reply>(&line) {
                Ok(reply) if reply.id == id => Ok(RunEnd::Replied(reply)),
                _ => Ok(self.garbage().await),
            },
            ProgramEvent::TooLong | ProgramEvent::TimedOut | ProgramEvent::Closed => Ok(self.garbage().await),
        }
    }

    async fn garbage(&mut self) -> RunEnd {
        self.lines.handle.kill().await;
        RunEnd::Garbage
    }
}

/// Waits for a line, and collects what the interpreter writes besides.
async fn next(lines: &mut ProgramLines, output: &mut Output, until: Instant) -> ProgramEvent {
    loop {
        match lines.next(until, |errors| output.push(errors)).await {
            // Code closed the pipe, and may still end.
            ProgramEvent::Closed => {}
            event => return event,
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
