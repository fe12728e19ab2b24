//! A program beside the main one: its pipes, its deadline, its end.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use clawrl_core::{Boundary, Fault};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::procs;
use crate::spawner::{ExitReport, ExitWatch, LaunchRequest, SpawnerClient, SpawnerError};
use crate::{ExecOutput, ExecSpec};

/// Runs a program to its end or its deadline. At the deadline `kill` gets the launcher's process id and ends the
/// program with what it started; the launcher itself is then killed here, in case it had not come that far.
pub(crate) async fn run<F: Future<Output = Result<(), Fault>>>(
    spawner: &SpawnerClient,
    launch: LaunchRequest,
    spec: &ExecSpec,
    kill: impl FnOnce(u32) -> F,
) -> Result<ExecOutput, Fault> {
    let started = Instant::now();
    let mut running = start(spawner, launch, spec).await?;
    let output = match tokio::time::timeout_at(spec.deadline.into(), running.finish()).await {
        Ok(output) => output,
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
}

struct Stream {
    pipe: Option<pipe::Receiver>,
    kept: Vec<u8>,
    cap: usize,
}

/// Starts it on three fresh pipes.
async fn start(
    spawner: &SpawnerClient,
    launch: LaunchRequest,
    spec: &ExecSpec,
) -> Result<RunningExec, Fault> {
    let failed = |error: std::io::Error| Fault::transient(Boundary::Env, "pipe", error.to_string());
    let make = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()));
    let (their_input, our_input) = make()?;
    let (our_output, their_output) = make()?;
    let (our_error, their_error) = make()?;
    let descriptors = [their_input.as_fd(), their_output.as_fd(), their_error.as_fd()];
    let process = spawner.spawn(launch, None, &descriptors).await.map_err(spawn_fault)?;
    let receive = |fd: OwnedFd| pipe::Receiver::from_owned_fd(fd).map_err(failed);
    let stream = |pipe| Stream { pipe: Some(pipe), kept: Vec::new(), cap: spec.output_cap };
    Ok(RunningExec {
        pid: process.pid,
        exit: process.exit,
        input: Some((pipe::Sender::from_owned_fd(our_input).map_err(failed)?, spec.input.clone())),
        stdout: stream(receive(our_output)?),
        stderr: stream(receive(our_error)?),
    })
}

impl RunningExec {
    /// Feeds and reads it until it ends. Safe to drop; then [`RunningExec::give_up`] takes what there is.
    async fn finish(&mut self) -> ExecOutput {
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
        self.output(report.code.or(report.signal.map(|signal| 128 + signal)))
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
