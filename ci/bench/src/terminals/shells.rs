//! Shells that say hello: through the whole environment, through the session alone, and in a bare loop.

use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{CancelToken, Env, TaskSpec, ToolCall};
use clawrl_sandbox::{
    BubblewrapBackend, DirectKiller, Nonce, Pty, PtyRead, Sandbox, SandboxBackend, ShellConfig, ShellSession,
    StepEnd, StepLimits, rc_script,
};
use serde_json::json;

use super::{Failure, LIMIT, Terminals, bash_sandbox, ctx};

const COMMAND: &str = "echo hello";
const ANSWER: &str = "hello";

/// The prompt of a bare shell.
const SENTINEL: &[u8] = b"<prompt>";

/// Takes one step at a time. A step that gives anything but the answer is a failure.
pub(crate) trait Shell: Send + Sized + 'static {
    /// `echo hello`, from the command to its output.
    fn step(&mut self) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Ends it; ready when nothing of it runs.
    fn close(self) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Our environment, as the scheduler drives it.
pub(crate) struct EnvShell {
    env: Box<dyn Env>,
    calls: [ToolCall; 1],
    seq: u32,
}

impl EnvShell {
    /// Leases and resets.
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

/// Our shell session without the environment around it.
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
        Self::take_over(started.sandbox, started.terminal.master()?, nonce).await
    }

    /// Waits for the first prompt on a terminal.
    pub(crate) async fn take_over(
        sandbox: Box<dyn Sandbox>,
        terminal: std::os::fd::OwnedFd,
        nonce: Nonce,
    ) -> Result<Self, Failure> {
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

/// The least there is: a line written to the terminal, and its output read up to the next prompt. Nothing is parsed,
/// no exit code is known, no screen is kept, and a command that prints the prompt's text breaks it.
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
        // The line editor's last word before the output ends with a carriage return.
        let mut shown = text.lines().filter_map(|line| line.rsplit('\r').next());
        expect(shown.find(|line| *line == ANSWER), "step of the bare loop")
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(self.sandbox.kill().await?)
    }
}

/// Reads afresh until enough has come.
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
                return Err(format!("the shell of a bare loop ended; it wrote: {said}").into());
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
