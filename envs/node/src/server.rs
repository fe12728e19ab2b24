//! The other end: answers, beside the engine.
//!
//! S1. Every sandbox, shell and program here belongs to the one connection; when that ends, the process ends, and its
//! spawner ends what is left. S2. Numbers are never used twice.

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
    CarryError, CarryRequest, CopyReport, Enclosure, Exclusions, ExecSpec, Filling, LiveCount, Program,
    ProgramHandle, PutFile, Sandbox, Shell, ShellError, StepLimits, StepOutput, Terminal, TreeError,
    available, enter,
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

use crate::body::{Arriving, Outgoing, PieceReader, head, head_and, headed_with};
use crate::client::{CONNECTION_WINDOW, Connection, STREAM_WINDOW};
use crate::sandbox::blocking;
use crate::tree::{Arrived, Aside, Lost, Parcel};
use crate::wire::{
    Entered, Entry, Exec, ExecTrouble, OfProgram, OfSandbox, ReadTrouble, Request, Said, ShellTrouble, Step,
    TreeTrouble, reportable,
};

/// Questions under way at once: a few for each sandbox, and several for each program.
const MOST_QUESTIONS: u32 = 1 << 16;

/// Trees on their way at once: the names of a large folder are in memory while it is walked.
const TREES_AT_ONCE: usize = 4;

/// Bytes of a piece of output.
const PIECE: usize = 16 << 10;

/// Answers until the connection ends.
///
/// # Errors
/// When the connection broke in the middle of something.
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
        .max_concurrent_streams(MOST_QUESTIONS)
        // Whoever asks is nobody else than who started us: many questions may be taken back at once.
        .max_pending_accept_reset_streams(Some(MOST_QUESTIONS as usize))
        .max_local_error_reset_streams(None)
        .serve_connection(TokioIo::new(connection), answer)
        .await
        .map_err(|error| io::Error::other(error_text(&error)))
}

struct Host {
    spawner: SpawnerClient,
    live: Arc<LiveCount>,
    next: AtomicU64,
    sandboxes: Mutex<HashMap<u64, Arc<Housed>>>,
    programs: Mutex<HashMap<u64, Arc<Running>>>,
    /// Turns of trees on their way.
    trees: Arc<Semaphore>,
}

/// A sandbox, with the terminal of its main program and the shell on it.
struct Housed {
    /// Declared first, so dropped first: hanging the terminal up while the sandbox lives would wake the shell for
    /// nothing.
    sandbox: Box<dyn Sandbox>,
    terminal: Mutex<Option<Terminal>>,
    shell: AsyncMutex<Option<Box<dyn Shell>>>,
}

impl Host {
    /// A question that cannot be answered has its stream reset.
    async fn answer(self: Arc<Self>, body: Incoming) -> Outgoing {
        self.answered(Arriving::new(body)).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "a question could not be answered");
            failing(error)
        })
    }

    async fn answered(&self, mut arriving: Arriving) -> io::Result<Outgoing> {
        match arriving.head().await? {
            Request::Hello => head(&()),
            Request::Enter(entry) => head(&self.enter(*entry).await),
            Request::Leave(sandbox) => {
                let housed = locked(&self.sandboxes).remove(&sandbox);
                if let Some(housed) = housed {
                    // What could not be ended ends with the container.
                    let _ = housed.sandbox.kill().await;
                }
                head(&())
            }
            Request::OfSandbox(sandbox, question) => {
                let housed = locked(&self.sandboxes).get(&sandbox).map(Arc::clone);
                let housed =
                    housed.ok_or_else(|| io::Error::other(format!("there is no sandbox {sandbox}")))?;
                self.of_sandbox(&housed, question, arriving).await
            }
            Request::OfProgram(program, OfProgram::Close) => {
                let running = locked(&self.programs).remove(&program);
                if let Some(running) = running {
                    // Nobody waits for it, and questions about it may still be under way.
                    tokio::spawn(async move { running.order(Order::Kill).await });
                }
                head(&())
            }
            Request::OfProgram(program, question) => {
                let running = locked(&self.programs).get(&program).map(Arc::clone);
                let running =
                    running.ok_or_else(|| io::Error::other(format!("there is no program {program}")))?;
                of_program(&running, question, arriving).await
            }
        }
    }

    async fn enter(&self, entry: Entry) -> Result<Entered, Fault> {
        let Entry { spec, determinism, pid, mark, user, workdir, commons, environment, capabilities } = entry;
        let enclosure = Enclosure {
            pid,
            mark,
            user,
            workdir,
            commons,
            environment,
            capabilities,
            // The container is kept by whoever asks.
            keeper: Arc::new(()),
            live: self.live.begin(),
        };
        let started = enter(self.spawner.clone(), &determinism, &spec, enclosure).await?;
        let identity = started.sandbox.identity();
        let housed = Housed {
            sandbox: started.sandbox,
            terminal: Mutex::new(Some(started.terminal)),
            shell: AsyncMutex::default(),
        };
        let sandbox = self.number();
        locked(&self.sandboxes).insert(sandbox, Arc::new(housed));
        Ok(Entered { sandbox, identity })
    }

    /// For one tree.
    async fn turn(&self) -> io::Result<OwnedSemaphorePermit> {
        Arc::clone(&self.trees).acquire_owned().await.map_err(io::Error::other)
    }

    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    async fn of_sandbox(&self, housed: &Housed, question: OfSandbox, rest: Arriving) -> io::Result<Outgoing> {
        let sandbox = housed.sandbox.as_ref();
        match question {
            OfSandbox::Put { files } => head(&sandbox.put(files).await),
            OfSandbox::Lay { folder, files } => head(&sandbox.lay(folder, files).await),
            OfSandbox::Read { path, cap } => {
                let found = sandbox.read(path.clone(), cap).await;
                let file = |content: Vec<u8>| PutFile { path, mode: 0, content: content.into() };
                head(&found.map(|content| content.map(file)))
            }
            OfSandbox::HasWorkspace => {
                let found = sandbox.has_workspace().await;
                head(&found.map(|found| found.map_err(ReadTrouble::from)))
            }
            OfSandbox::Workspace { bounds } => {
                let tree = match sandbox.workspace().await {
                    Ok(Ok(tree)) => tree,
                    Ok(Err(error)) => return refused(TreeError::Read(error)),
                    Err(fault) => return head(&Err::<Copied, _>(fault)),
                };
                let (from, exclude, report) =
                    (PathBuf::from("."), Exclusions::default(), CopyReport::default());
                let turn = Some(self.turn().await?);
                follows(Parcel { tree, from, exclude, bounds, report, _turn: turn })
            }
            OfSandbox::CarryOut { inside, exclude, bounds } => {
                let turn = self.turn().await?;
                let made = blocking(Aside::empty).await;
                let (aside, outside) = match made.map(|made| made.map_err(|error| Lost::place(&error))) {
                    Ok(Ok(aside)) => aside,
                    Ok(Err(fault)) | Err(fault) => return head(&Err::<Copied, _>(fault)),
                };
                let request = CarryRequest { inside, outside, name: Aside::NAME.to_owned(), exclude, bounds };
                match sandbox.carry_out(request).await {
                    Ok(report) => follows(Parcel { _turn: Some(turn), ..aside.parcel(bounds, report)? }),
                    Err(CarryError::Tree(error)) => refused(error),
                    Err(CarryError::Fault(fault)) => head(&Err::<Copied, _>(fault)),
                }
            }
            OfSandbox::CarryIn { inside, bounds } => {
                let _turn = self.turn().await?;
                let arrived = match arrived(rest).await? {
                    Ok(arrived) => arrived,
                    Err(error) => return refused(error),
                };
                let (outside, name) = arrived.into_folder()?;
                let (outside, name) = (Arc::new(outside), name.to_owned());
                let request = CarryRequest { inside, outside, name, exclude: Exclusions::default(), bounds };
                match sandbox.carry_in(request).await {
                    Ok(report) => head(&Ok::<Copied, Fault>(Ok(reportable(report)))),
                    Err(CarryError::Tree(error)) => refused(error),
                    Err(CarryError::Fault(fault)) => head(&Err::<Copied, _>(fault)),
                }
            }
            OfSandbox::Fill { folder, bounds } => {
                let _turn = self.turn().await?;
                let tree = match arrived(rest).await? {
                    Ok(arrived) => Arc::new(arrived.into_tree()?),
                    Err(error) => return refused(error),
                };
                let filling = Filling { tree, folder, exclude: Exclusions::default(), bounds };
                let filled = sandbox.fill(filling).await;
                head(&filled.map(|filled| filled.map(reportable).map_err(TreeTrouble::from)))
            }
            OfSandbox::Exec(Exec { command, input, output_cap, left, user }) => {
                let exec = ExecSpec { command, input, output_cap, deadline: Instant::now() + left, user };
                head(&sandbox.exec(exec).await.map_err(ExecTrouble::from))
            }
            OfSandbox::Open(spec) => {
                let opened = sandbox.open(spec).await.map(|program| {
                    let number = self.number();
                    locked(&self.programs).insert(number, Arc::new(Running::new(program)));
                    number
                });
                head(&opened.map_err(ExecTrouble::from))
            }
            OfSandbox::Processes => head(&sandbox.processes().await),
            OfSandbox::KillProcesses { victims } => {
                sandbox.kill_processes(&victims).await;
                head(&())
            }
            OfSandbox::Kill => head(&sandbox.kill().await),
            OfSandbox::Halt => head(&sandbox.halt().await),
            OfSandbox::Lost => head(&sandbox.lost().await),
            OfSandbox::Shell { config, left } => {
                let terminal = locked(&housed.terminal).take().ok_or_else(no_shell)?;
                let cancel = CancelToken::new();
                let limits = StepLimits { deadline: Instant::now() + left, cancel: &cancel };
                let started = match terminal.shell(config, limits).await {
                    Ok(shell) => {
                        *housed.shell.lock().await = Some(shell);
                        Ok(())
                    }
                    Err(error) => Err(ShellTrouble::from(error)),
                };
                head(&started)
            }
            OfSandbox::Step { step, left } => {
                let mut shell = housed.shell.lock().await;
                let done = taken(shell.as_mut().ok_or_else(no_shell)?.as_mut(), step, left).await;
                head(&done.map_err(ShellTrouble::from))
            }
            OfSandbox::Cast => {
                let mut shell = housed.shell.lock().await;
                head(&shell.as_mut().ok_or_else(no_shell)?.cast().await)
            }
        }
    }
}

type Copied = Result<CopyReport, TreeTrouble>;

fn refused(error: TreeError) -> io::Result<Outgoing> {
    head(&Ok::<Copied, Fault>(Err(error.into())))
}

fn no_shell() -> io::Error {
    io::Error::other("this sandbox has no shell")
}

/// A tree after an answer; what becomes of it is said behind it.
fn follows(parcel: Parcel) -> io::Result<Outgoing> {
    head_and(&Ok::<Result<(), TreeTrouble>, Fault>(Ok(())), parcel.stream())
}

/// A tree after a question.
async fn arrived(rest: Arriving) -> io::Result<Result<Arrived, TreeError>> {
    let mut reader = PieceReader::of(rest);
    match blocking(move || Arrived::read(&mut reader)).await.map_err(io::Error::other)? {
        Ok(arrived) => Ok(Ok(arrived)),
        Err(Lost::Tree(error)) => Ok(Err(error)),
        Err(Lost::Place(error) | Lost::Stream(error)) => Err(error),
    }
}

async fn taken(shell: &mut dyn Shell, step: Step, left: Duration) -> Result<StepOutput, ShellError> {
    // A step that is given up is dropped with its question.
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

/// A program, taken apart: each part is asked for once.
struct Running {
    input: Mutex<Option<pipe::Sender>>,
    pipes: Mutex<Option<(pipe::Receiver, pipe::Receiver)>>,
    orders: mpsc::Sender<(Order, oneshot::Sender<()>)>,
    end: watch::Receiver<Option<Arc<End>>>,
}

type End = Result<Option<i32>, ExecTrouble>;

enum Order {
    Kill,
    Interrupt,
}

impl Running {
    fn new(program: Program) -> Self {
        let Program { input, output, errors, handle } = program;
        let (orders, to_follow) = mpsc::channel(1);
        let (told, end) = watch::channel(None);
        tokio::spawn(minded(handle, to_follow, told));
        Self { input: Mutex::new(input), pipes: Mutex::new(Some((output, errors))), orders, end }
    }

    /// Returns when it is followed, or the program has ended.
    async fn order(&self, order: Order) {
        let (done, followed) = oneshot::channel();
        if self.orders.send((order, done)).await.is_ok() {
            let _ = followed.await;
        }
    }
}

/// Follows orders until the program has ended, or nobody can give any; then it is dropped.
async fn minded(
    mut handle: ProgramHandle,
    mut orders: mpsc::Receiver<(Order, oneshot::Sender<()>)>,
    told: watch::Sender<Option<Arc<End>>>,
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
                let _ = told.send(Some(Arc::new(end.map_err(ExecTrouble::from))));
                return;
            }
        }
    }
}

async fn of_program(running: &Running, question: OfProgram, mut rest: Arriving) -> io::Result<Outgoing> {
    let taken = || io::Error::other("this part of a program was asked for before");
    let order = match question {
        OfProgram::Input => {
            let mut input = locked(&running.input).take().ok_or_else(taken)?;
            while let Some(piece) = rest.next().await? {
                if input.write_all(&piece).await.is_err() {
                    // The program does not read any more.
                    break;
                }
            }
            return head(&());
        }
        OfProgram::Said => {
            let (output, errors) = locked(&running.pipes).take().ok_or_else(taken)?;
            let saying = Saying { output: Some(output), errors: Some(errors), end: running.end.clone() };
            return head_and(&(), said(saying));
        }
        OfProgram::Close => return head(&()),
        OfProgram::Kill => Order::Kill,
        OfProgram::Interrupt => Order::Interrupt,
    };
    running.order(order).await;
    head(&())
}

/// What a program still may say. Of what it left behind there comes no more than is there at its end.
struct Saying {
    /// `None` where it was closed.
    output: Option<pipe::Receiver>,
    errors: Option<pipe::Receiver>,
    end: watch::Receiver<Option<Arc<End>>>,
}

/// What a program writes, and its end after all of it.
fn said(saying: Saying) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
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
            errors.extend_from_slice(&available(pipe, MOST_LEFT));
        }
        if end.is_some()
            && let Some(pipe) = &saying.output
        {
            output.extend_from_slice(&available(pipe, MOST_LEFT));
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

/// Reads once. A pipe that was closed is waited for without end.
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
const MOST_LEFT: usize = 4 << 20;

fn failing(error: io::Error) -> Outgoing {
    StreamBody::new(stream::once(async move { Err(error) })).boxed_unsync()
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each change is one insert, take or remove.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
