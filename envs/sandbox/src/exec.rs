//! Runs a program until it ends or its deadline passes: input, capped output, exit code.
//!
//! I1. A daemon that the program left behind does not delay its end, whatever pipes it holds open.

use std::convert::Infallible;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::exec_error::ExecError;
use crate::program::{self, Program};
use crate::spec::{ExecOutput, ExecSpec};

/// Feeds and reads a program until it ends, or until its deadline, at which it is killed with its descendants.
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
            // A program that does not read its input is not a fault.
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
    // I1: only what is already there is read.
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

    /// What was read, and what is still in the pipe.
    fn taken(mut self) -> Vec<u8> {
        self.kept.extend(program::available(&self.pipe, self.cap - self.kept.len()));
        self.kept
    }
}
