//! One `echo hello` per step: through the whole environment, through the shell session alone, and in a bare loop.

use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{CancelToken, Env, TaskSpec, ToolCall};
use clawrl_sandbox::{
    BubblewrapBackend, DirectKiller, Nonce, Pty, PtyRead, Sandbox, SandboxBackend, ShellConfig, ShellSession,
    StepEnd, StepLimits, rc_script,
};
use serde_json::json;

use crate::Failure;

use super::{LIMIT, Terminals, bash_sandbox, ctx};

const COMMAND: &str = "echo hello";
const ANSWER: &str = "hello";

/// The prompt of a bare shell.
const SENTINEL: &[u8] = b"<prompt>";

/// A shell that takes one step at a time. A step with any other output than the answer fails.
pub(crate) trait Shell: Send + Sized + 'static {
    /// Runs `echo hello` and waits for its output.
    fn step(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Ends the shell; ready when none of its processes runs.
    fn close(self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The terminal environment, driven as the scheduler drives it.
pub(crate) struct EnvShell {
    env: Box<dyn Env>,
    calls: [ToolCall; 1],
    seq: u32,
}

impl EnvShell {
    /// Leases and resets an environment.
    pub(crate) async fn start(terminals: &Terminals, task: &Arc<TaskSpec>) -> Result<Self, Failure> {
        let mut env = terminals.lease(task).await?;
        env.reset(ctx(0)).await?;
        Ok(Self { env, calls: [ToolCall::new("run", json!({ "command": COMMAND }))], seq: 0 })
    }
}

impl Shell for EnvShell {
    async fn step(&mut self) -> Result<(), Failure> {
        self.seq += 1;
        let result = self.env.step(&self.calls, ctx(self.seq)).await?;
        expect(result.observation.joined_text().lines().next(), "step of the environment")
    }

    async fn close(mut self) -> Result<(), Failure> {
        let left = self.env.close().await.leftovers;
        if left.is_empty() { Ok(()) } else { Err(left.join("; ").into()) }
    }
}

/// The shell session without the environment around it.
pub(crate) struct SessionShell {
    sandbox: Box<dyn Sandbox>,
    session: ShellSession,
    cancel: CancelToken,
}

impl SessionShell {
    /// Starts a sandbox and waits for its prompt.
    pub(crate) async fn start(backend: &BubblewrapBackend) -> Result<Self, Failure> {
        let nonce = Nonce::from_bytes([0xbe; 16]);
        let started = backend.start(bash_sandbox(&nonce, rc_script(&nonce))).await?;
        let (sandbox, terminal) = (started.sandbox, started.terminal.master()?);
        let cancel = CancelToken::new();
        let limits = StepLimits { deadline: Instant::now() + LIMIT, cancel: &cancel };
        let pty = Pty::from_master(terminal)?;
        let session =
            ShellSession::start(pty, ShellConfig::new(nonce), Arc::new(DirectKiller), limits).await?;
        Ok(Self { sandbox, session, cancel })
    }
}

impl Shell for SessionShell {
    async fn step(&mut self) -> Result<(), Failure> {
        let limits = StepLimits { deadline: Instant::now() + LIMIT, cancel: &self.cancel };
        let output = self.session.run(COMMAND, limits).await?;
        if output.end != (StepEnd::Completed { exit_code: Some(0) }) {
            return Err(format!("a step of the session: {output:?}").into());
        }
        expect(output.text.lines().next(), "step of the session")
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(self.sandbox.kill().await?)
    }
}

/// The lower bound: writes a line to the terminal and reads up to the next prompt. It parses nothing, knows no exit code,
/// keeps no screen, and a command that prints the prompt's text breaks it.
pub(crate) struct BareShell {
    sandbox: Box<dyn Sandbox>,
    pty: Pty,
    seen: Vec<u8>,
}

impl BareShell {
    /// Starts a sandbox and waits for its prompt.
    pub(crate) async fn start(backend: &BubblewrapBackend) -> Result<Self, Failure> {
        let started = backend
            .start(bash_sandbox(&Nonce::from_bytes([0xbe; 16]), "PS1='<prompt>'\n".to_owned()))
            .await?;
        let pty = Pty::from_master(started.terminal.master()?)?;
        let mut seen = Vec::new();
        read_until(&pty, &mut seen, |seen| seen.ends_with(SENTINEL)).await?;
        Ok(Self { sandbox: started.sandbox, pty, seen })
    }
}

impl Shell for BareShell {
    async fn step(&mut self) -> Result<(), Failure> {
        self.pty.write_all(b"echo hello\r").await?;
        read_until(&self.pty, &mut self.seen, |seen| seen.ends_with(SENTINEL)).await?;
        let text = String::from_utf8_lossy(&self.seen);
        // The text that the line editor prints before the output ends with a carriage return.
        let mut shown = text.lines().filter_map(|line| line.rsplit('\r').next());
        expect(shown.find(|line| *line == ANSWER), "step of the bare loop")
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(self.sandbox.kill().await?)
    }
}

/// Clears `seen` and reads until `enough` holds.
pub(crate) async fn read_until(
    pty: &Pty,
    seen: &mut Vec<u8>,
    enough: impl Fn(&[u8]) -> bool,
) -> Result<(), Failure> {
    let mut buffer = [0; 4096];
    seen.clear();
    while !enough(seen) {
        match pty.read(&mut buffer).await? {
            PtyRead::Bytes(count) => seen.extend_from_slice(&buffer[..count]),
            PtyRead::Empty | PtyRead::HungUp => {
                let said = String::from_utf8_lossy(seen);
                return Err(format!("the shell of the bare loop ended after: {said}").into());
            }
        }
    }
    Ok(())
}

fn expect(found: Option<&str>, what: &str) -> Result<(), Failure> {
    if found == Some(ANSWER) {
        return Ok(());
    }
    Err(format!("{what}: {found:?} instead of {ANSWER:?}").into())
}
