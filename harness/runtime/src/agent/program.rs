//! The process of an attempt: start, output and end.
//!
//! I1. The spawner starts the program with a mark, so that it ends with the harness, together with all processes that inherited
//! the mark. I2. All output is read, and only the tail is kept. I3. At the end of the attempt the program is notified, has
//! [`GRACE`] to exit, and is then killed.
//!
//! Cancellation: dropping the task kills the program in the background.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clawrl_core::{AgentDoor, Fault, NetworkPolicy, SandboxLimits};
use clawrl_sandbox::{
    Announcer, ExecError, Live, Program, ProgramSpec, Sandbox, SandboxBackend, SandboxCommand, SandboxSpec,
    Tail, Terminal, WorkspaceStart, available,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::timeout;

use super::session::Session;
use super::speech::speak;

/// Time for a program to exit by itself after the end of its attempt.
const GRACE: Duration = Duration::from_secs(2);

/// Time to read the remaining output after the program's end: other processes may hold the pipes open.
const LINGER: Duration = Duration::from_millis(300);

/// Bytes of one read.
const CHUNK: usize = 16 * 1024;

/// Maximum unread output that is buffered, bytes; a pipe holds less.
const MAX_UNREAD_BYTES: usize = 1 << 20;

/// The end of a program: its exit code, 128 + n for signal n, `None` if the harness killed it.
pub(super) type End = Result<Option<i32>, String>;

/// The tail of a program's output since the last read.
pub(super) type Written = Arc<Mutex<Tail>>;

/// A started program.
#[derive(Debug)]
pub(super) struct Running {
    /// `None` until it has ended.
    pub(super) ended: watch::Receiver<Option<End>>,
    written: Written,
    /// Duplicates of the output pipes, without the one that carries requests.
    pipes: Vec<OwnedFd>,
}

impl Running {
    /// Takes the output since the last call. Everything that the program wrote before its request is included, even if the
    /// runtime has not read it yet.
    pub(super) fn take_written(&self) -> String {
        let mut tail = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        for pipe in &self.pipes {
            tail.push(&available(pipe, MAX_UNREAD_BYTES));
        }
        let text = tail.text();
        *tail = Tail::default();
        text
    }
}

/// Settings of a program's start.
pub(super) struct Start<'a> {
    pub(super) command: &'a [String],
    pub(super) folder: &'a std::path::Path,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) door: AgentDoor,
    /// Held until the program and its child processes have ended.
    pub(super) live: Live,
}

/// Starts the program of an attempt. Its task ends when the session is over, or with the runtime.
///
/// # Errors
/// A [`Fault`] of the machine. A program that cannot be run is reported by [`End`].
pub(super) async fn start(
    backend: &dyn SandboxBackend,
    start: Start<'_>,
    session: Arc<Session>,
) -> Result<Running, Fault> {
    // An idle program holds the sandbox; the agent runs beside it, on pipes.
    let started = backend.start(place()).await?;
    let folder = start.folder.to_string_lossy().into_owned();
    let arguments = ["-C".to_owned(), folder].into_iter().chain(start.command.iter().cloned());
    let command = SandboxCommand {
        program: "/usr/bin/env".to_owned(),
        arguments: arguments.collect(),
        environment: start.environment,
    };
    let opened = started.sandbox.open(ProgramSpec { command, user: None }).await;
    let program = opened.map_err(|error| match error {
        ExecError::Fault(fault) => fault,
        ExecError::NotRun { message, .. } => {
            Fault::permanent(clawrl_core::Boundary::Policy, "agent-not-run", message)
        }
    })?;
    let (tell, ended) = watch::channel(None);
    let errors = program.errors.as_fd().try_clone_to_owned();
    let output = (start.door == AgentDoor::Http).then(|| program.output.as_fd().try_clone_to_owned());
    // Without a duplicate, output may be reported one turn late.
    let pipes = output.into_iter().chain([errors]).flatten().collect();
    let written = Written::default();
    let life =
        Life { sandbox: started.sandbox, _terminal: started.terminal, session, tell, _live: start.live };
    tokio::spawn(life.through(program, start.door, Arc::clone(&written)));
    Ok(Running { ended, written, pipes })
}

fn place() -> SandboxSpec {
    SandboxSpec {
        label: "agent".to_owned(),
        main: SandboxCommand {
            program: "sleep".to_owned(),
            arguments: vec!["infinity".to_owned()],
            ..SandboxCommand::default()
        },
        announced_by: Announcer::Wrapper,
        size: (80, 24),
        support_files: Vec::new(),
        limits: SandboxLimits::default(),
        network: NetworkPolicy::Host,
        image: None,
        read_only: Vec::new(),
        workspace: WorkspaceStart::Image,
        folders: Vec::new(),
        inner_sandbox: false,
    }
}

/// Resources that live as long as the program.
struct Life {
    sandbox: Box<dyn Sandbox>,
    /// A hang-up of this terminal would end the idle program.
    _terminal: Terminal,
    session: Arc<Session>,
    tell: watch::Sender<Option<End>>,
    _live: Live,
}

impl Life {
    async fn through(self, program: Program, door: AgentDoor, written: Written) {
        let Program { input, output, errors, mut handle } = program;
        let session = Arc::clone(&self.session);
        let pipes = async {
            let speaking = async {
                match (door, input) {
                    (AgentDoor::Stdio, Some(input)) => speak(&session, input, output, &written).await,
                    // The program's input has ended; its output is only collected.
                    _ => listen(output, &written).await,
                }
            };
            tokio::join!(speaking, listen(errors, &written));
        };
        tokio::pin!(pipes);
        let mut drained = false;
        let ended = loop {
            tokio::select! {
                ended = handle.ended() => break Some(ended),
                () = &mut pipes, if !drained => drained = true,
                () = self.session.over.cancelled() => break None,
            }
        };
        if let Some(ended) = ended {
            if !drained {
                let _ = timeout(LINGER, &mut pipes).await;
            }
            // The receiver may be gone.
            let _ = self.tell.send(Some(ended.map_err(|error| error.to_string())));
            self.session.over.cancelled().await;
        } else {
            let by_itself = async {
                if !drained {
                    (&mut pipes).await;
                }
                handle.ended().await
            };
            if timeout(GRACE, by_itself).await.is_err() {
                handle.kill().await;
            }
        }
        if let Err(fault) = self.sandbox.kill().await {
            tracing::error!(%fault, "what an agent program started could not be ended");
        }
    }
}

/// Reads to the end (I2).
async fn listen(mut from: pipe::Receiver, written: &Written) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(count @ 1..) = from.read(&mut chunk).await {
        written.lock().unwrap_or_else(PoisonError::into_inner).push(&chunk[..count]);
    }
}
