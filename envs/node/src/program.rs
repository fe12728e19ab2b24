//! A program on a node, with local pipes in front of its own.
//!
//! P1. Its output and its end come over one stream: errors written before some output arrive before that output, and
//! everything written arrives before the end.
//! P2. A stream without an end record is a lost connection: a part is never taken for the whole.
//! P3. Dropping the program ends it on the node.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Buf as _, Bytes};
use clawrl_core::{Boundary, BoxFuture, Fault};
use clawrl_sandbox::{ExecError, Program, ProgramHandle, ProgramLife, ProgramSpec};
use futures_util::stream;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::body::IncomingBody;
use crate::client::Node;
use crate::wire::{ProgramRequest, Request, Said, SandboxRequest, WireExecError};

const PIECE: usize = 16 << 10;

/// Starts a program on the node. Dropping the future ends what it began.
pub(crate) async fn open(node: Node, sandbox: u64, spec: ProgramSpec) -> Result<Program, ExecError> {
    let task = tokio::spawn(open_now(node, sandbox, spec));
    task.await.unwrap_or_else(|error| {
        let message = format!("starting a program: {error}");
        Err(Fault::permanent(Boundary::Harness, "panic", message).into())
    })
}

async fn open_now(node: Node, sandbox: u64, spec: ProgramSpec) -> Result<Program, ExecError> {
    // Created first: a remote program without local pipes would have no owner to end it.
    let failed = |error: io::Error| Fault::transient(Boundary::Env, "pipe", error.to_string());
    let make = || pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed(errno.into()));
    let (input_read, input_write) = make()?;
    let (output_read, output_write) = make()?;
    let (errors_read, errors_write) = make()?;
    let from_input = pipe::Receiver::from_owned_fd(input_read).map_err(failed)?;
    let input = pipe::Sender::from_owned_fd(input_write).map_err(failed)?;
    let output = pipe::Receiver::from_owned_fd(output_read).map_err(failed)?;
    let errors = pipe::Receiver::from_owned_fd(errors_read).map_err(failed)?;
    let to_output = pipe::Sender::from_owned_fd(output_write).map_err(failed)?;
    let to_errors = pipe::Sender::from_owned_fd(errors_write).map_err(failed)?;
    let opened: Result<u64, WireExecError> =
        node.ask(&Request::Sandbox(sandbox, SandboxRequest::Open(spec))).await?;
    let number = opened?;
    let (tell_end, end) = watch::channel(None);
    let (tell_flow, flow) = watch::channel(Flow::Flows);
    let pipes = Pipes { output: Some(to_output), errors: Some(to_errors), tell: tell_flow };
    let heard = tokio::spawn(forward_output(node.clone(), number, pipes, tell_end));
    let fed = tokio::spawn(feed(node.clone(), number, from_input));
    let tasks = [heard.abort_handle(), fed.abort_handle()];
    let runtime = tokio::runtime::Handle::current();
    let killed = AtomicBool::new(false);
    let life = NodeProgram { node, number, end, flow, tasks, killed, runtime };
    Ok(Program { input: Some(input), output, errors, handle: ProgramHandle::new(life) })
}

/// Forwards local input, until it is closed here or the program stops reading.
async fn feed(node: Node, number: u64, input: pipe::Receiver) {
    let pieces = stream::try_unfold(input, |mut input| async move {
        let mut piece = bytes::BytesMut::with_capacity(PIECE);
        let read = input.read_buf(&mut piece).await?;
        Ok::<_, io::Error>((read > 0).then(|| (piece.freeze(), input)))
    });
    let _: Result<(), Fault> = node.tell(&Request::Program(number, ProgramRequest::Input), pieces).await;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Flows,
    /// The local pipe is full, and has not been read.
    Full,
}

/// Our ends of the pipes that stand for the program's; `None` if the other end was closed.
struct Pipes {
    output: Option<pipe::Sender>,
    errors: Option<pipe::Sender>,
    tell: watch::Sender<Flow>,
}

impl Pipes {
    fn close(&mut self, which: PipeKind) {
        match which {
            PipeKind::Output => self.output = None,
            PipeKind::Errors => self.errors = None,
        }
    }

    async fn write(&mut self, into: PipeKind, mut piece: Bytes) {
        let pipe = match into {
            PipeKind::Output => &mut self.output,
            PipeKind::Errors => &mut self.errors,
        };
        while let Some(open) = pipe.as_ref().filter(|_| !piece.is_empty()) {
            match open.try_write(&piece) {
                Ok(written) => piece.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.tell.send_replace(Flow::Full);
                    if open.writable().await.is_err() {
                        *pipe = None;
                    }
                    self.tell.send_replace(Flow::Flows);
                }
                Err(_) => *pipe = None,
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum PipeKind {
    Output,
    Errors,
}

/// Forwards its output, and then its end (P1).
async fn forward_output(node: Node, number: u64, mut pipes: Pipes, tell: watch::Sender<Option<End>>) {
    let heard = async {
        let ((), mut arriving) = node.listen(&Request::Program(number, ProgramRequest::Said)).await?;
        said(&mut arriving, &mut pipes).await.map_err(|error| node.lost(&error))
    };
    let end = heard.await.unwrap_or_else(|fault: Fault| Err(WireExecError::Fault(fault)));
    // Closed before the end is reported, like pipes of a local program that has ended.
    drop(pipes);
    let _ = tell.send(Some(end.map_err(Arc::new)));
}

async fn said(
    arriving: &mut IncomingBody,
    pipes: &mut Pipes,
) -> io::Result<Result<Option<i32>, WireExecError>> {
    loop {
        let (into, length) = match arriving.head().await? {
            Said::Output(length) => (PipeKind::Output, length),
            Said::Errors(length) => (PipeKind::Errors, length),
            Said::End(end) => return Ok(end),
        };
        match length {
            0 => pipes.close(into),
            _ => {
                let piece = arriving.exactly(length as usize).await?;
                pipes.write(into, piece).await;
            }
        }
    }
}

type End = Result<Option<i32>, Arc<WireExecError>>;

#[derive(Debug)]
struct NodeProgram {
    node: Node,
    number: u64,
    end: watch::Receiver<Option<End>>,
    flow: watch::Receiver<Flow>,
    tasks: [AbortHandle; 2],
    killed: AtomicBool,
    runtime: tokio::runtime::Handle,
}

impl NodeProgram {
    async fn wait_for_end(&self) -> Option<End> {
        let mut end = self.end.clone();
        end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone())
    }

    async fn say(&self, what: ProgramRequest) {
        let _: Result<(), Fault> = self.node.ask(&Request::Program(self.number, what)).await;
    }
}

impl ProgramLife for NodeProgram {
    fn ended(&mut self) -> BoxFuture<'_, Result<Option<i32>, ExecError>> {
        Box::pin(async move {
            if self.killed.load(Ordering::Acquire) {
                return Ok(None);
            }
            match self.wait_for_end().await {
                Some(Ok(code)) => Ok(code),
                Some(Err(trouble)) => Err(match trouble.as_ref() {
                    WireExecError::NotRun { obstacle, message } => {
                        ExecError::NotRun { obstacle: *obstacle, message: message.clone() }
                    }
                    WireExecError::Fault(fault) => ExecError::Fault(fault.clone()),
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
            self.say(ProgramRequest::Kill).await;
            self.killed.store(true, Ordering::Release);
            // Everything written before has arrived, if it is being read.
            let mut flow = self.flow.clone();
            tokio::select! {
                _ = self.wait_for_end() => {}
                Ok(_) = flow.wait_for(|flow| *flow == Flow::Full) => {}
            }
        })
    }

    fn interrupt(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if !self.has_ended() {
                self.say(ProgramRequest::Interrupt).await;
            }
        })
    }
}

impl Drop for NodeProgram {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        let (node, question) = (self.node.clone(), Request::Program(self.number, ProgramRequest::Close));
        self.runtime.spawn(async move {
            let _: Result<(), Fault> = node.ask(&question).await;
        });
    }
}
