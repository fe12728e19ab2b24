//! A program run to its end or its deadline: its input, its output up to a cap, its exit code.
//!
//! I1. A daemon that a program left behind does not hold it back, whatever pipes it holds open.

use std::convert::Infallible;
use std::time::Instant;

use clawrl_core::{Boundary, Fault};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::program::{self, Program};
use crate::spawner::SpawnerError;
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

/// What a refusal of the spawner means for whoever asked.
pub(crate) fn spawn_fault(error: SpawnerError) -> Fault {
    match error {
        SpawnerError::Gone => Fault::permanent(Boundary::Harness, "spawner-gone", error.to_string()),
        other => Fault::transient(Boundary::Provider, "spawn", other.to_string()),
    }
}

/// Feeds and reads a program until it ends or its deadline has come, when it is killed with what it started.
pub(crate) async fn to_end(
    program: Program,
    spec: &ExecSpec,
    started: Instant,
) -> Result<ExecOutput, ExecError> {
    let Program { input, output, errors, mut handle } = program;
    let mut stdout = Stream { pipe: output, kept: Vec::new(), cap: spec.output_cap };
    let mut stderr = Stream { pipe: errors, kept: Vec::new(), cap: spec.output_cap };
    let feed = async {
        if let Some(mut pipe) = input {
            // A program that does not read its input is no fault.
            let _ = pipe.write_all(&spec.input).await;
        }
    };
    let finish = async {
        let talk = async {
            tokio::join!(feed, stdout.read_to_end(), stderr.read_to_end());
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            end = handle.ended() => end,
            never = talk => match never {},
        }
    };
    let code = match tokio::time::timeout_at(spec.deadline.into(), finish).await {
        Ok(code) => code?,
        Err(_) => {
            handle.kill().await;
            None
        }
    };
    // I1: only what is there already is taken.
    Ok(ExecOutput { code, stdout: stdout.taken(), stderr: stderr.taken(), duration: started.elapsed() })
}

struct Stream {
    pipe: pipe::Receiver,
    kept: Vec<u8>,
    cap: usize,
}

impl Stream {
    async fn read_to_end(&mut self) {
        let mut chunk = [0u8; 8192];
        while let Ok(read @ 1..) = self.pipe.read(&mut chunk).await {
            let room = self.cap - self.kept.len();
            self.kept.extend_from_slice(&chunk[..read.min(room)]);
        }
    }

    /// What was read and what is there still.
    fn taken(mut self) -> Vec<u8> {
        self.kept.extend(program::available(&self.pipe, self.cap - self.kept.len()));
        self.kept
    }
}
