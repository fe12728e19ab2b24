//! The server side: answers requests, beside the container engine.
//!
//! S1. Every sandbox, shell and program here belongs to the one connection; when that ends, the process ends, and its
//! spawner ends what is left.
//! S2. Ids are never reused.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use clawrl_core::{CancelToken, Fault, error_text};
use clawrl_sandbox::spawner::SpawnerClient;
use clawrl_sandbox::{
    CopyReport, Exclusions, ExecSpec, FillRequest, LiveCount, Program, ProgramHandle, PutFile,
    RunningContainer, Sandbox, Shell, ShellError, StepLimits, StepOutput, Terminal, TransferError,
    TransferRequest, TreeError, available, enter,
};
use futures_util::{Stream, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request as HttpRequest, Response as HttpResponse};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;
use tokio::sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use crate::body::{IncomingBody, OutgoingBody, PieceReader, head, head_and, headed_with};
use crate::client::{CONNECTION_WINDOW, Connection, STREAM_WINDOW};
use crate::sandbox::blocking;
use crate::tree::{ReceiveError, ReceivedTree, SpooledDir, TreeStream};
use crate::wire::{
    EnterRequest, Entered, Exec, ProgramRequest, Request, Said, SandboxRequest, Step, WireExecError,
    WireReadError, WireShellError, WireTreeError, reportable,
};

/// Concurrent requests: a few for each sandbox, and several for each program.
const MAX_REQUESTS: u32 = 1 << 16;

/// Concurrent tree transfers: the names of a large folder are in memory while it is walked.
const TREES_AT_ONCE: usize = 4;

const PIECE: usize = 16 << 10;

/// Answers until the connection ends.
///
/// # Errors
/// When the connection broke in the middle of a message.
pub async fn serve(connection: impl Connection, spawner: SpawnerClient) -> io::Result<()> {
    let host = Arc::new(Host {
        spawner,
        live: Arc::default(),
        next: AtomicU64::new(0),
        sandboxes: Mutex::default(),
        programs: Mutex::default(),
        trees: Arc::new(Semaphore::new(TREES_AT_ONCE)),
    });
    let answer = service_fn(move |request: HttpRequest<Incoming>| {
        let host = Arc::clone(&host);
        async move { Ok::<_, Infallible>(HttpResponse::new(host.answer(request.into_body()).await)) }
    });
    http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_concurrent_streams(MAX_REQUESTS)
        // The client is our parent: cancelling many requests at once is legitimate.
        .max_pending_accept_reset_streams(Some(MAX_REQUESTS as usize))
        .max_local_error_reset_streams(None)
        .serve_connection(TokioIo::new(connection), answer)
        .await
        .map_err(|error| io::Error::other(error_text(&error)))
}

struct Host {
    spawner: SpawnerClient,
    live: Arc<LiveCount>,
    next: AtomicU64,
    sandboxes: Mutex<HashMap<u64, Arc<HostedSandbox>>>,
    programs: Mutex<HashMap<u64, Arc<RunningProgram>>>,
    /// Permits for tree transfers.
    trees: Arc<Semaphore>,
}

/// A sandbox, with the terminal of its main program and the shell on it.
struct HostedSandbox {
    /// Declared first, so dropped first: hanging the terminal up while the sandbox lives would wake the shell for
    /// nothing.
    sandbox: Box<dyn Sandbox>,
    terminal: Mutex<Option<Terminal>>,
    shell: AsyncMutex<Option<Box<dyn Shell>>>,
}

impl Host {
    /// If a request cannot be answered, its stream is reset.
    async fn answer(self: Arc<Self>, body: Incoming) -> OutgoingBody {
        self.answered(IncomingBody::new(body)).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "failed to answer a request");
            failing(error)
        })
    }

    async fn answered(&self, mut arriving: IncomingBody) -> io::Result<OutgoingBody> {
        match arriving.head().await? {
            Request::Hello => head(&()),
            Request::Enter(entry) => head(&self.enter(*entry).await),
            Request::Leave(sandbox) => {
                let housed = locked(&self.sandboxes).remove(&sandbox);
                if let Some(housed) = housed {
                    // Whatever could not be ended ends with the container.
                    let _ = housed.sandbox.kill().await;
                }
                head(&())
            }
            Request::Sandbox(sandbox, question) => {
                let housed = locked(&self.sandboxes).get(&sandbox).map(Arc::clone);
                let housed =
                    housed.ok_or_else(|| io::Error::other(format!("there is no sandbox {sandbox}")))?;
                self.of_sandbox(&housed, question, arriving).await
            }
            Request::Program(program, ProgramRequest::Close) => {
                let running = locked(&self.programs).remove(&program);
                if let Some(running) = running {
                    // Not awaited: requests about it may still be running.
                    tokio::spawn(async move { running.order(Order::Kill).await });
                }
                head(&())
            }
            Request::Program(program, question) => {
                let running = locked(&self.programs).get(&program).map(Arc::clone);
                let running =
                    running.ok_or_else(|| io::Error::other(format!("there is no program {program}")))?;
                of_program(&running, question, arriving).await
            }
        }
    }

    async fn enter(&self, entry: EnterRequest) -> Result<Entered, Fault> {
        let EnterRequest { spec, determinism, pid, mark, user, workdir, commons, environment, capabilities } =
            entry;
        let enclosure = RunningContainer {
            pid,
            mark,
            user,
            workdir,
            commons,
            environment,
            capabilities,
            // The client keeps the container.
            keep_alive: Arc::new(()),
            live: self.live.begin(),
        };
        let started = enter(self.spawner.clone(), &determinism, &spec, enclosure).await?;
        let identity = started.sandbox.identity();
        let housed = HostedSandbox {
            sandbox: started.sandbox,
            terminal: Mutex::new(Some(started.terminal)),
            shell: AsyncMutex::default(),
        };
        let sandbox = self.number();
        locked(&self.sandboxes).insert(sandbox, Arc::new(housed));
        Ok(Entered { sandbox, identity })
    }

    async fn turn(&self) -> io::Result<OwnedSemaphorePermit> {
        Arc::clone(&self.trees).acquire_owned().await.map_err(io::Error::other)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    async fn of_sandbox(
        &self,
        housed: &HostedSandbox,
        question: SandboxRequest,
        rest: IncomingBody,
    ) -> io::Result<OutgoingBody> {
        let sandbox = housed.sandbox.as_ref();
        match question {
            SandboxRequest::Put { files } => head(&sandbox.put(files).await),
            SandboxRequest::Lay { folder, files } => head(&sandbox.replace_folder(folder, files).await),
            SandboxRequest::Read { path, cap } => {
                let found = sandbox.read(path.clone(), cap).await;
                let file = |content: Vec<u8>| PutFile { path, mode: 0, content: content.into() };
                head(&found.map(|content| content.map(file)))
            }
            SandboxRequest::HasWorkspace => {
                let found = sandbox.has_workspace().await;
                head(&found.map(|found| found.map_err(WireReadError::from)))
            }
            SandboxRequest::Workspace { bounds } => {
                let tree = match sandbox.workspace().await {
                    Ok(Ok(tree)) => tree,
                    Ok(Err(error)) => return refused(TreeError::Read(error)),
                    Err(fault) => return head(&Err::<Copied, _>(fault)),
                };
                let (from, exclude, report) =
                    (PathBuf::from("."), Exclusions::default(), CopyReport::default());
                let turn = Some(self.turn().await?);
                follows(TreeStream { tree, from, exclude, bounds, report, _turn: turn })
            }
            SandboxRequest::CarryOut { inside, exclude, bounds } => {
                let turn = self.turn().await?;
                let made = blocking(SpooledDir::empty).await;
                let (aside, outside) =
                    match made.map(|made| made.map_err(|error| ReceiveError::place(&error))) {
                        Ok(Ok(aside)) => aside,
                        Ok(Err(fault)) | Err(fault) => return head(&Err::<Copied, _>(fault)),
                    };
                let request =
                    TransferRequest { inside, outside, name: SpooledDir::NAME.to_owned(), exclude, bounds };
                match sandbox.copy_out(request).await {
                    Ok(report) => {
                        follows(TreeStream { _turn: Some(turn), ..aside.tree_stream(bounds, report)? })
                    }
                    Err(TransferError::Tree(error)) => refused(error),
                    Err(TransferError::Fault(fault)) => head(&Err::<Copied, _>(fault)),
                }
            }
            SandboxRequest::CarryIn { inside, bounds } => {
                let _turn = self.turn().await?;
                let arrived = match arrived(rest).await? {
                    Ok(arrived) => arrived,
                    Err(error) => return refused(error),
                };
                let (outside, name) = arrived.into_folder()?;
                let (outside, name) = (Arc::new(outside), name.to_owned());
                let request =
                    TransferRequest { inside, outside, name, exclude: Exclusions::default(), bounds };
                match sandbox.copy_in(request).await {
                    Ok(report) => head(&Ok::<Copied, Fault>(Ok(reportable(report)))),
                    Err(TransferError::Tree(error)) => refused(error),
                    Err(TransferError::Fault(fault)) => head(&Err::<Copied, _>(fault)),
                }
            }
            SandboxRequest::Fill { folder, bounds } => {
                let _turn = self.turn().await?;
                let tree = match arrived(rest).await? {
                    Ok(arrived) => Arc::new(arrived.into_tree()?),
                    Err(error) => return refused(error),
                };
                let filling = FillRequest { tree, folder, exclude: Exclusions::default(), bounds };
                let filled = sandbox.fill(filling).await;
                head(&filled.map(|filled| filled.map(reportable).map_err(WireTreeError::from)))
            }
            SandboxRequest::Exec(Exec { command, input, output_cap, left, user }) => {
                let exec = ExecSpec { command, input, output_cap, deadline: Instant::now() + left, user };
                head(&sandbox.exec(exec).await.map_err(WireExecError::from))
            }
            SandboxRequest::Open(spec) => {
                let opened = sandbox.open(spec).await.map(|program| {
                    let number = self.number();
                    locked(&self.programs).insert(number, Arc::new(RunningProgram::new(program)));
                    number
                });
                head(&opened.map_err(WireExecError::from))
            }
            SandboxRequest::Processes => head(&sandbox.processes().await),
            SandboxRequest::KillProcesses { victims } => {
                sandbox.kill_processes(&victims).await;
                head(&())
            }
            SandboxRequest::Kill => head(&sandbox.kill().await),
            SandboxRequest::Halt => head(&sandbox.halt().await),
            SandboxRequest::Lost => head(&sandbox.lost().await),
            SandboxRequest::Shell { config, left } => {
                let terminal = locked(&housed.terminal).take().ok_or_else(no_shell)?;
                let cancel = CancelToken::new();
                let limits = StepLimits { deadline: Instant::now() + left, cancel: &cancel };
                let started = match terminal.shell(config, limits).await {
                    Ok(shell) => {
                        *housed.shell.lock().await = Some(shell);
                        Ok(())
                    }
                    Err(error) => Err(WireShellError::from(error)),
                };
                head(&started)
            }
            SandboxRequest::Step { step, left } => {
                let mut shell = housed.shell.lock().await;
                let done = taken(shell.as_mut().ok_or_else(no_shell)?.as_mut(), step, left).await;
                head(&done.map_err(WireShellError::from))
            }
            SandboxRequest::Cast => {
                let mut shell = housed.shell.lock().await;
                head(&shell.as_mut().ok_or_else(no_shell)?.cast().await)
            }
        }
    }
}

type Copied = Result<CopyReport, WireTreeError>;

fn refused(error: TreeError) -> io::Result<OutgoingBody> {
    head(&Ok::<Copied, Fault>(Err(error.into())))
}

fn no_shell() -> io::Error {
    io::Error::other("this sandbox lacks a shell")
}

/// A tree after a response; its result is sent behind it.
fn follows(tree_stream: TreeStream) -> io::Result<OutgoingBody> {
    head_and(&Ok::<Result<(), WireTreeError>, Fault>(Ok(())), tree_stream.stream())
}

async fn arrived(rest: IncomingBody) -> io::Result<Result<ReceivedTree, TreeError>> {
    let mut reader = PieceReader::of(rest);
    match blocking(move || ReceivedTree::read(&mut reader)).await.map_err(io::Error::other)? {
        Ok(arrived) => Ok(Ok(arrived)),
        Err(ReceiveError::Tree(error)) => Ok(Err(error)),
        Err(ReceiveError::Storage(error) | ReceiveError::Stream(error)) => Err(error),
    }
}

async fn taken(shell: &mut dyn Shell, step: Step, left: Duration) -> Result<StepOutput, ShellError> {
    // A cancelled step is dropped with its request.
    let cancel = CancelToken::new();
    let limits = StepLimits { deadline: Instant::now() + left, cancel: &cancel };
    match step {
        Step::Run(command) => shell.run(&command, limits).await,
        Step::Keys(keys) => shell.send_keys(&keys, limits).await,
        Step::Text(text) => shell.send_text(&text, limits).await,
        Step::Wait(duration) => shell.wait(duration, limits).await,
        Step::Signal(signal) => shell.signal(signal, limits).await,
        Step::DropLine => shell.drop_line(limits).await,
        Step::Renew => shell.renew(limits).await,
    }
}

/// A program in parts, each requested once.
struct RunningProgram {
    input: Mutex<Option<pipe::Sender>>,
    pipes: Mutex<Option<(pipe::Receiver, pipe::Receiver)>>,
    orders: mpsc::Sender<(Order, oneshot::Sender<()>)>,
    end: watch::Receiver<Option<Arc<End>>>,
}

type End = Result<Option<i32>, WireExecError>;

enum Order {
    Kill,
    Interrupt,
}

impl RunningProgram {
    fn new(program: Program) -> Self {
        let Program { input, output, errors, handle } = program;
        let (orders, to_follow) = mpsc::channel(1);
        let (end_sender, end) = watch::channel(None);
        tokio::spawn(carry_out_orders(handle, to_follow, end_sender));
        Self { input: Mutex::new(input), pipes: Mutex::new(Some((output, errors))), orders, end }
    }

    /// Returns when it is carried out, or the program has ended.
    async fn order(&self, order: Order) {
        let (done, followed) = oneshot::channel();
        if self.orders.send((order, done)).await.is_ok() {
            let _ = followed.await;
        }
    }
}

/// Carries out orders until the program has ended, or no more can come; then it is dropped.
async fn carry_out_orders(
    mut handle: ProgramHandle,
    mut orders: mpsc::Receiver<(Order, oneshot::Sender<()>)>,
    end_sender: watch::Sender<Option<Arc<End>>>,
) {
    loop {
        tokio::select! {
            order = orders.recv() => {
                let Some((order, done)) = order else { return };
                match order {
                    Order::Kill => handle.kill().await,
                    Order::Interrupt => handle.interrupt().await,
                }
                let _ = done.send(());
            }
            end = handle.ended() => {
                let _ = end_sender.send(Some(Arc::new(end.map_err(WireExecError::from))));
                return;
            }
        }
    }
}

async fn of_program(
    running: &RunningProgram,
    question: ProgramRequest,
    mut rest: IncomingBody,
) -> io::Result<OutgoingBody> {
    let taken = || io::Error::other("this part of a program was already requested");
    let order = match question {
        ProgramRequest::Input => {
            let mut input = locked(&running.input).take().ok_or_else(taken)?;
            while let Some(piece) = rest.next().await? {
                if input.write_all(&piece).await.is_err() {
                    // The program has stopped reading.
                    break;
                }
            }
            return head(&());
        }
        ProgramRequest::Said => {
            let (output, errors) = locked(&running.pipes).take().ok_or_else(taken)?;
            let saying =
                RemainingOutput { output: Some(output), errors: Some(errors), end: running.end.clone() };
            return head_and(&(), said(saying));
        }
        ProgramRequest::Close => return head(&()),
        ProgramRequest::Kill => Order::Kill,
        ProgramRequest::Interrupt => Order::Interrupt,
    };
    running.order(order).await;
    head(&())
}

/// Output that the program may still write. After its end, only what is already there counts from its descendants.
struct RemainingOutput {
    /// `None` once closed.
    output: Option<pipe::Receiver>,
    errors: Option<pipe::Receiver>,
    end: watch::Receiver<Option<Arc<End>>>,
}

/// A program's output, followed by its end.
fn said(saying: RemainingOutput) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    stream::try_unfold(Some(saying), |saying| async move {
        let Some(mut saying) = saying else { return Ok(None) };
        let (mut output, mut errors) = (BytesMut::new(), BytesMut::new());
        let open = (saying.output.is_some(), saying.errors.is_some());
        let end = tokio::select! {
            read = more(&mut saying.output, &mut output) => {
                read?;
                None
            }
            read = more(&mut saying.errors, &mut errors) => {
                read?;
                None
            }
            end = saying.end.wait_for(Option::is_some) => Some(end.map_err(io::Error::other)?.clone()),
        };
        // What it wrote there before it wrote here.
        if (end.is_some() || !output.is_empty())
            && let Some(pipe) = &saying.errors
        {
            errors.extend_from_slice(&available(pipe, MAX_REMAINING));
        }
        if end.is_some()
            && let Some(pipe) = &saying.output
        {
            output.extend_from_slice(&available(pipe, MAX_REMAINING));
        }
        let mut bytes = BytesMut::new();
        if !errors.is_empty() {
            bytes.extend_from_slice(&headed_with(&Said::Errors(errors.len() as u32), &errors)?);
        }
        if !output.is_empty() {
            bytes.extend_from_slice(&headed_with(&Said::Output(output.len() as u32), &output)?);
        }
        if open.0 && saying.output.is_none() {
            bytes.extend_from_slice(&headed_with(&Said::Output(0), &[])?);
        }
        if open.1 && saying.errors.is_none() {
            bytes.extend_from_slice(&headed_with(&Said::Errors(0), &[])?);
        }
        let Some(end) = end else { return Ok(Some((bytes.freeze(), Some(saying)))) };
        let end = end.map_or_else(|| Ok(None), |end| end.as_ref().clone());
        bytes.extend_from_slice(&headed_with(&Said::End(end), &[])?);
        Ok(Some((bytes.freeze(), None)))
    })
}

/// Reads once. A closed pipe is never ready.
async fn more(pipe: &mut Option<pipe::Receiver>, into: &mut BytesMut) -> io::Result<()> {
    into.reserve(PIECE);
    let read = match pipe {
        Some(open) => open.read_buf(into).await?,
        None => std::future::pending().await,
    };
    if read == 0 {
        *pipe = None;
    }
    Ok(())
}

/// More than a pipe holds.
const MAX_REMAINING: usize = 4 << 20;

fn failing(error: io::Error) -> OutgoingBody {
    StreamBody::new(stream::once(async move { Err(error) })).boxed_unsync()
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each change is one insert, take or remove.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
