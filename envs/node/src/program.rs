//! A program on a node, with pipes of this machine in front of its own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Buf as _;
use clawrl_core::{Boundary, BoxFuture, Fault};
use clawrl_sandbox::{ExecError, Program, ProgramHandle, ProgramLife};
use futures_util::stream;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::watch;

use crate::client::Node;
use crate::wire::{ExecTrouble, OfProgram, Request};

/// Bytes of a piece of input.
const PIECE: usize = 16 << 10;

/// A program that was started there, connected.
pub(crate) fn opened(node: &Node, number: u64) -> Result<Program, ExecError> {
    let failed = |error: io::Error| Fault::transient(Boundary::Env, "pipe", error.to_string());
    let make = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()));
    let (input_read, input_write) = make()?;
    let (output_read, output_write) = make()?;
    let (errors_read, errors_write) = make()?;
    let from_input = pipe::Receiver::from_owned_fd(input_read).map_err(failed)?;
    let to_output = pipe::Sender::from_owned_fd(output_write).map_err(failed)?;
    let to_errors = pipe::Sender::from_owned_fd(errors_write).map_err(failed)?;
    let drained = |question, pipe| {
        let (tell, state) = watch::channel(Drain::Flows);
        tokio::spawn(drain(node.clone(), Request::OfProgram(number, question), pipe, tell));
        state
    };
    let drains = [drained(OfProgram::Output, to_output), drained(OfProgram::Errors, to_errors)];
    let life = NodeProgram::new(node.clone(), number, drains);
    let program = Program {
        input: Some(pipe::Sender::from_owned_fd(input_write).map_err(failed)?),
        output: pipe::Receiver::from_owned_fd(output_read).map_err(failed)?,
        errors: pipe::Receiver::from_owned_fd(errors_read).map_err(failed)?,
        handle: ProgramHandle::new(life),
    };
    tokio::spawn(feed(node.clone(), number, from_input));
    Ok(program)
}

/// What is written here goes there, until it is closed here or nobody reads it there.
async fn feed(node: Node, number: u64, input: pipe::Receiver) {
    let pieces = stream::try_unfold(input, |mut input| async move {
        let mut piece = bytes::BytesMut::with_capacity(PIECE);
        let read = input.read_buf(&mut piece).await?;
        Ok::<_, io::Error>((read > 0).then(|| (piece.freeze(), input)))
    });
    let _: Result<(), Fault> = node.tell(&Request::OfProgram(number, OfProgram::Input), pieces).await;
}

/// How far what is written there has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drain {
    /// More may be on its way.
    Flows,
    /// As much as a pipe holds is here, and nobody has read it.
    Full,
}

/// What is written there comes here, until it is closed there or nobody reads it here. Dropping `tell` says that all of
/// it is here.
async fn drain(node: Node, question: Request, output: pipe::Sender, tell: watch::Sender<Drain>) {
    let Ok(((), mut arriving)) = node.listen(&question).await else { return };
    while let Ok(Some(mut piece)) = arriving.next().await {
        while !piece.is_empty() {
            match output.try_write(&piece) {
                Ok(written) => piece.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tell.send_replace(Drain::Full);
                    if output.writable().await.is_err() {
                        return;
                    }
                    tell.send_replace(Drain::Flows);
                }
                Err(_) => return,
            }
        }
    }
}

type End = Result<Option<i32>, Arc<ExecTrouble>>;

#[derive(Debug)]
struct NodeProgram {
    node: Node,
    number: u64,
    end: watch::Receiver<Option<End>>,
    drains: [watch::Receiver<Drain>; 2],
    killed: AtomicBool,
    runtime: tokio::runtime::Handle,
}

impl NodeProgram {
    fn new(node: Node, number: u64, drains: [watch::Receiver<Drain>; 2]) -> Self {
        let (told, end) = watch::channel(None);
        let asked = node.clone();
        tokio::spawn(async move {
            let question = Request::OfProgram(number, OfProgram::Ended);
            let end: Result<Result<Option<i32>, ExecTrouble>, Fault> = asked.ask(&question).await;
            let end = end.unwrap_or_else(|fault| Err(ExecTrouble::Fault(fault)));
            let _ = told.send(Some(end.map_err(Arc::new)));
        });
        let runtime = tokio::runtime::Handle::current();
        Self { node, number, end, drains, killed: AtomicBool::new(false), runtime }
    }

    async fn told(&self) -> Option<End> {
        let mut end = self.end.clone();
        let end = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        // What it wrote before its end is here by then, as it would be in pipes of its own.
        for drain in &self.drains {
            let _ = drain.clone().wait_for(|drain| *drain == Drain::Full).await;
        }
        end
    }

    async fn say(&self, what: OfProgram) {
        let _: Result<(), Fault> = self.node.ask(&Request::OfProgram(self.number, what)).await;
    }
}

impl ProgramLife for NodeProgram {
    fn ended(&mut self) -> BoxFuture<'_, Result<Option<i32>, ExecError>> {
        Box::pin(async move {
            let end = self.told().await;
            if self.killed.load(Ordering::Acquire) {
                return Ok(None);
            }
            match end {
                Some(Ok(code)) => Ok(code),
                Some(Err(trouble)) => Err(match trouble.as_ref() {
                    ExecTrouble::NotRun { obstacle, message } => {
                        ExecError::NotRun { obstacle: *obstacle, message: message.clone() }
                    }
                    ExecTrouble::Fault(fault) => ExecError::Fault(fault.clone()),
                }),
                None => Err(self.node.lost(&"a program's end is unknown").into()),
            }
        })
    }

    fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    fn kill(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.has_ended() {
                return;
            }
            self.killed.store(true, Ordering::Release);
            self.say(OfProgram::Kill).await;
            self.told().await;
        })
    }

    fn interrupt(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if !self.has_ended() {
                self.say(OfProgram::Interrupt).await;
            }
        })
    }
}

impl Drop for NodeProgram {
    fn drop(&mut self) {
        let (node, question) = (self.node.clone(), Request::OfProgram(self.number, OfProgram::Close));
        self.runtime.spawn(async move {
            let _: Result<(), Fault> = node.ask(&question).await;
        });
    }
}
