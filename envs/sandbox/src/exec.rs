//! A program beside the main one: its pipes, its deadline, its end.
//!
//! I1. Whether the program ran at all is never told by an exit code, which it could choose, nor by its output: a launcher
//! that could not run it says so on a pipe that the program never holds.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use clawrl_core::{Boundary, Fault};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::procs;
use crate::spawner::{
    ExitReport, ExitWatch, LaunchRequest, MOST_TROUBLE, SpawnerClient, SpawnerError, Trouble,
};
use crate::{ExecOutput, ExecSpec};

/// Why a program has no result.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It was not run. Whose doing that was depends on who could change what is inside.
    #[error("{message}")]
    NotRun {
        /// What stood in the way.
        obstacle: NotRun,
        /// In words.
        message: String,
    },
    /// The machine failed, or the sandbox is gone.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What kept a program from being run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum NotRun {
    /// The workspace cannot be entered.
    Folder,
    /// The program is not there, or is none.
    Program,
    /// The launcher failed: no room for a process, or the sandbox has ended.
    Launcher,
}

/// For whoever runs a program where nothing of an agent could stand in the way.
impl From<ExecError> for Fault {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::NotRun { obstacle: NotRun::Launcher, message } => {
                Self::transient(Boundary::Env, "launch-failed", message)
            }
            ExecError::NotRun { message, .. } => Self::permanent(Boundary::Env, "not-run", message),
            ExecError::Fault(fault) => fault,
        }
    }
}

/// Runs a program to its end or its deadline. At the deadline `kill` gets the launcher's process id and ends the
/// program with what it started; the launcher itself is then killed here, in case it had not come that far.
pub(crate) async fn run<F: Future<Output = Result<(), Fault>>>(
    spawner: &SpawnerClient,
    launch: LaunchRequest,
    spec: &ExecSpec,
    kill: impl FnOnce(u32) -> F,
) -> Result<ExecOutput, ExecError> {
    let started = Instant::now();
    let mut running = start(spawner, launch, spec).await?;
    let output = match tokio::time::timeout_at(spec.deadline.into(), running.finish()).await {
        Ok(output) => output?,
        Err(_) => {
            kill(running.pid).await?;
            procs::kill(running.pid);
            running.give_up().await
        }
    };
    Ok(ExecOutput { duration: started.elapsed(), ..output })
}

/// What a refusal of the spawner means for whoever asked.
pub(crate) fn spawn_fault(error: SpawnerError) -> Fault {
    match error {
        SpawnerError::Gone => Fault::permanent(Boundary::Harness, "spawner-gone", error.to_string()),
        other => Fault::transient(Boundary::Provider, "spawn", other.to_string()),
    }
}

/// A started program with our ends of its pipes.
struct RunningExec {
    pid: u32,
    exit: ExitWatch,
    input: Option<(pipe::Sender, Vec<u8>)>,
    stdout: Stream,
    stderr: Stream,
    trouble: Stream,
    /// A launcher that no program inside can kill, not even by using up the sandbox's memory.
    launcher_is_apart: bool,
}

struct Stream {
    pipe: Option<pipe::Receiver>,
    kept: Vec<u8>,
    cap: usize,
}

/// Starts it on fresh pipes.
async fn start(
    spawner: &SpawnerClient,
    launch: LaunchRequest,
    spec: &ExecSpec,
) -> Result<RunningExec, ExecError> {
    let failed = |error: std::io::Error| Fault::transient(Boundary::Env, "pipe", error.to_string());
    let make = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()));
    let (their_input, our_input) = make()?;
    let (our_output, their_output) = make()?;
    let (our_error, their_error) = make()?;
    let (our_trouble, their_trouble) = make()?;
    // Only who joins a sandbox has a launcher that stays.
    let joins = launch.join.is_some();
    let launcher_is_apart = joins && launch.confinement.cgroup_entrances.is_empty();
    let trouble: Option<BorrowedFd<'_>> = joins.then(|| their_trouble.as_fd());
    let descriptors: Vec<BorrowedFd<'_>> =
        [their_input.as_fd(), their_output.as_fd(), their_error.as_fd()].into_iter().chain(trouble).collect();
    let process = spawner.spawn(launch, None, &descriptors).await.map_err(|error| match error {
        // The launcher was not even started: the sandbox's control group is gone with it, or there is no room.
        SpawnerError::Refused(message) if joins => ExecError::NotRun { obstacle: NotRun::Launcher, message },
        error => spawn_fault(error).into(),
    })?;
    let receive = |fd: OwnedFd| pipe::Receiver::from_owned_fd(fd).map_err(failed);
    let stream = |pipe, cap| Stream { pipe: Some(pipe), kept: Vec::new(), cap };
    Ok(RunningExec {
        pid: process.pid,
        exit: process.exit,
        input: Some((pipe::Sender::from_owned_fd(our_input).map_err(failed)?, spec.input.clone())),
        stdout: stream(receive(our_output)?, spec.output_cap),
        stderr: stream(receive(our_error)?, spec.output_cap),
        trouble: stream(receive(our_trouble)?, MOST_TROUBLE),
        launcher_is_apart,
    })
}

impl RunningExec {
    /// Feeds and reads it until it ends. Safe to drop; then [`RunningExec::give_up`] takes what there is.
    async fn finish(&mut self) -> Result<ExecOutput, ExecError> {
        let Self { exit, input, stdout, stderr, .. } = self;
        let report = {
            let feed = async {
                if let Some((mut pipe, bytes)) = input.take() {
                    // A program that does not read its input is no fault.
                    let _ = pipe.write_all(&bytes).await;
                }
                std::future::pending::<ExitReport>().await
            };
            let read = async {
                tokio::join!(stdout.read_to_end(), stderr.read_to_end());
                std::future::pending::<ExitReport>().await
            };
            tokio::select! {
                report = exit.ended() => report,
                report = feed => report,
                report = read => report,
            }
        };
        // A daemon it left behind may hold the pipes open: only what is there already is taken.
        stdout.take_available();
        stderr.take_available();
        self.trouble.take_available();
        if let Some(Trouble { not_run, message }) = Trouble::read(&self.trouble.kept) {
            return Err(ExecError::NotRun { obstacle: not_run, message });
        }
        match (report.code, report.signal) {
            (None, None) => Err(spawn_fault(SpawnerError::Gone).into()),
            // What ends the program itself is told by the launcher's exit code.
            (None, Some(signal)) if self.launcher_is_apart => {
                let message = format!(
                    "signal {signal} ended the launcher of a program, which only this machine can do"
                );
                Err(Fault::transient(Boundary::Env, "launcher-killed", message).into())
            }
            (code, signal) => Ok(self.output(code.or(signal.map(|signal| 128 + signal)))),
        }
    }

    /// After a kill: waits for the end and takes what there is.
    async fn give_up(&mut self) -> ExecOutput {
        self.exit.ended().await;
        self.stdout.take_available();
        self.stderr.take_available();
        self.output(None)
    }

    fn output(&mut self, code: Option<i32>) -> ExecOutput {
        ExecOutput {
            code,
            stdout: std::mem::take(&mut self.stdout.kept),
            stderr: std::mem::take(&mut self.stderr.kept),
            ..ExecOutput::default()
        }
    }
}

impl Stream {
    async fn read_to_end(&mut self) {
        let mut chunk = [0u8; 8192];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut chunk).await {
                Ok(0) | Err(_) => self.pipe = None,
                Ok(read) => self.keep(&chunk[..read]),
            }
        }
    }

    fn take_available(&mut self) {
        let mut chunk = [0u8; 8192];
        while let Some(pipe) = &self.pipe {
            // Asked of the kernel itself: the runtime may not have heard yet of what was written just before the end.
            match rustix::io::read(pipe, &mut chunk) {
                Ok(read) if read > 0 && self.kept.len() < self.cap => self.keep(&chunk[..read]),
                _ => self.pipe = None,
            }
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = self.cap - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}
