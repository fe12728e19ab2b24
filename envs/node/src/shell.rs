//! A shell on a node.

use std::time::{Duration, Instant};

use clawrl_core::{BoxFuture, Fault};
use clawrl_sandbox::{
    CursorKeys, JobSignal, RemoteTerminal, Shell, ShellConfig, ShellError, StepEnd, StepLimits, StepOutput,
    StepResult, check_command, parse_keys,
};

use crate::client::Node;
use crate::wire::{Request, SandboxRequest, Step, WireShellError};

/// The terminal of a sandbox's main program.
pub(crate) struct NodeTerminal {
    node: Node,
    sandbox: u64,
}

impl NodeTerminal {
    pub(crate) fn new(node: Node, sandbox: u64) -> Self {
        Self { node, sandbox }
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, question: SandboxRequest) -> Result<T, ShellError> {
        let answer = self.node.ask(&Request::Sandbox(self.sandbox, question)).await;
        answer.map_err(|fault: Fault| ShellError::Terminal(std::io::Error::other(fault.message)))
    }
}

impl RemoteTerminal for NodeTerminal {
    fn shell<'a>(
        self: Box<Self>,
        config: ShellConfig,
        limits: StepLimits<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Shell>, ShellError>> {
        Box::pin(async move {
            let started = self.ask(SandboxRequest::Shell { config, left: left(limits) });
            let started: Result<(), WireShellError> = tokio::select! {
                biased;
                () = limits.cancel.cancelled() => Err(WireShellError::NoPrompt { output: String::new() }),
                started = started => started?,
            };
            started?;
            let shell: Box<dyn Shell> = Box::new(NodeShell { terminal: *self });
            Ok(shell)
        })
    }
}

struct NodeShell {
    terminal: NodeTerminal,
}

impl NodeShell {
    async fn step(&mut self, step: Step, limits: StepLimits<'_>) -> StepResult {
        let at = Instant::now();
        let done = self.terminal.ask(SandboxRequest::Step { step, left: left(limits) });
        let done: Result<StepOutput, WireShellError> = tokio::select! {
            biased;
            // As for a local session: the step is cancelled, and the shell can only be dropped.
            () = limits.cancel.cancelled() => return Ok(cancelled(at.elapsed())),
            done = done => done?,
        };
        Ok(done?)
    }
}

fn left(limits: StepLimits<'_>) -> Duration {
    limits.deadline.saturating_duration_since(Instant::now())
}

fn cancelled(duration: Duration) -> StepOutput {
    StepOutput {
        end: StepEnd::Cancelled,
        text: String::new(),
        full_text: None,
        screen: None,
        missing: None,
        folder: None,
        duration,
        notes: Vec::new(),
    }
}

impl Shell for NodeShell {
    fn run<'a>(&'a mut self, command: &'a str, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(async move {
            check_command(command)?;
            self.step(Step::Run(command.to_owned()), limits).await
        })
    }

    fn send_keys<'a>(&'a mut self, keys: &'a str, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(async move {
            // The bytes of a cursor key depend on the terminal's mode; whether the key exists does not.
            parse_keys(keys, CursorKeys::Normal)?;
            self.step(Step::Keys(keys.to_owned()), limits).await
        })
    }

    fn send_text<'a>(&'a mut self, text: &'a str, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(self.step(Step::Text(text.to_owned()), limits))
    }

    fn wait<'a>(&'a mut self, duration: Duration, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(self.step(Step::Wait(duration), limits))
    }

    fn signal<'a>(&'a mut self, signal: JobSignal, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(self.step(Step::Signal(signal), limits))
    }

    fn drop_line<'a>(&'a mut self, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(self.step(Step::DropLine, limits))
    }

    fn renew<'a>(&'a mut self, limits: StepLimits<'a>) -> BoxFuture<'a, StepResult> {
        Box::pin(self.step(Step::Renew, limits))
    }

    fn cast(&mut self) -> BoxFuture<'_, String> {
        Box::pin(async move { self.terminal.ask(SandboxRequest::Cast).await.unwrap_or_default() })
    }
}
