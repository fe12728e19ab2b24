//! The harness's side: starts the spawner, and turns its responses into futures.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use clawrl_core::{Boundary, Fault};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tokio::io::unix::AsyncFd;
use tokio::sync::{oneshot, watch};

use super::descriptor;
use super::protocol::{CgroupRequest, ExitReport, LaunchRequest, Request, Response};
use crate::readiness::watched;

/// Why the spawner could not be started or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnerError {
    /// `clawrl-sbx` is not at its expected path.
    #[error("cannot find `clawrl-sbx` beside {}; install both programs into one folder", .0.display())]
    Missing(PathBuf),
    /// It could not be started.
    #[error("cannot start the spawner {}: {error}", .path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The spawner has ended, and all sandboxes with it.
    #[error("the spawner process ended; every sandbox ended with it")]
    Gone,
    /// It refused one request.
    #[error("{0}")]
    Refused(String),
}

impl From<SpawnerError> for Fault {
    fn from(error: SpawnerError) -> Self {
        match error {
            SpawnerError::Gone => Self::permanent(Boundary::Harness, "spawner-gone", error.to_string()),
            other => Self::transient(Boundary::Provider, "spawn", other.to_string()),
        }
    }
}

/// A spawner process. Start it early in `main`, from the main thread, before any runtime.
#[derive(Debug)]
pub struct Spawner {
    socket: OwnedFd,
    child: Child,
}

impl Spawner {
    /// Starts the spawner from `clawrl-sbx`, found by [`Spawner::find`].
    ///
    /// # Errors
    /// [`SpawnerError::Missing`] or [`SpawnerError::Start`].
    pub fn start() -> Result<Self, SpawnerError> {
        Self::start_program(&Self::find()?)
    }

    /// Starts the spawner from this program.
    ///
    /// # Errors
    /// [`SpawnerError::Start`].
    pub fn start_program(path: &Path) -> Result<Self, SpawnerError> {
        let start = || {
            let (ours, theirs) =
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            // Its own process group, because the harness handles Ctrl-C.
            let child = Command::new(path)
                .arg("spawner")
                .env_clear()
                .current_dir("/")
                .stdin(Stdio::from(theirs))
                .stdout(Stdio::null())
                .process_group(0)
                .spawn()?;
            Ok(Self { socket: ours, child })
        };
        start().map_err(|error| SpawnerError::Start { path: path.to_owned(), error })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Where `clawrl-sbx` is: beside the running program, or one folder up (test programs live one below).
    ///
    /// # Errors
    /// [`SpawnerError::Missing`].
    pub fn find() -> Result<PathBuf, SpawnerError> {
        let own = std::env::current_exe().unwrap_or_default();
        let folders = own.ancestors().skip(1).take(2);
        let candidates = folders.map(|folder| folder.join("clawrl-sbx"));
        let mut existing = candidates.filter(|path| path.is_file());
        existing.next().ok_or_else(|| SpawnerError::Missing(own.clone()))
    }
}

/// Sends requests to a spawner from a runtime. Clones share it; the last one dropped ends the spawner, and with it
/// every sandbox.
#[derive(Debug, Clone)]
pub struct SpawnerClient {
    shared: Arc<Shared>,
    /// Owns the task that reads responses; ended with the last client.
    _reader: Arc<ReaderTask>,
}

#[derive(Debug)]
struct Shared {
    socket: AsyncFd<OwnedFd>,
    next_id: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    gone: bool,
    started: HashMap<u64, oneshot::Sender<Result<StartedPid, String>>>,
    exits: HashMap<u64, watch::Sender<Option<ExitReport>>>,
}

#[derive(Debug)]
struct StartedPid {
    pid: u32,
    master: Option<OwnedFd>,
}

/// A process that the spawner started.
#[derive(Debug)]
pub struct SpawnedProcess {
    /// Process id on the host. Not reused before `exit` is known.
    pub pid: u32,
    /// The master of its terminal, if it has one.
    pub master: Option<OwnedFd>,
    /// Becomes `Some` when the process has ended and was reaped.
    pub exit: ExitWatch,
}

/// Waits for the end of a process.
#[derive(Debug, Clone)]
pub struct ExitWatch {
    receiver: watch::Receiver<Option<ExitReport>>,
}

impl ExitWatch {
    /// Ready when the process has ended. If the spawner itself is gone, everything has ended: an empty report.
    pub async fn ended(&mut self) -> ExitReport {
        match self.receiver.wait_for(Option::is_some).await {
            Ok(report) => report.clone().unwrap_or_default(),
            Err(_) => ExitReport::default(),
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.receiver.borrow().is_some() || self.receiver.has_changed().is_err()
    }
}

impl SpawnerClient {
    /// Connects a runtime to a spawner. Must be called inside a tokio runtime with I/O enabled.
    ///
    /// # Errors
    /// When the socket cannot be registered.
    pub fn attach(spawner: Spawner) -> io::Result<Self> {
        let Spawner { socket, child } = spawner;
        let shared = Arc::new(Shared {
            socket: watched(socket)?,
            next_id: AtomicU64::new(0),
            waiting: Mutex::new(Waiting::default()),
        });
        let task = tokio::spawn(read_answers(Arc::clone(&shared)));
        Ok(Self {
            shared: Arc::clone(&shared),
            _reader: Arc::new(ReaderTask { task, shared, child: Mutex::new(child) }),
        })
    }

    /// Starts a process. `descriptors` are input, output and error for a launch without a terminal.
    ///
    /// If the future is dropped, a process that starts nevertheless runs until the harness ends: callers that may be
    /// dropped run this in their own task.
    ///
    /// # Errors
    /// [`SpawnerError::Gone`] or [`SpawnerError::Refused`].
    pub async fn spawn(
        &self,
        launch: LaunchRequest,
        cgroup: Option<CgroupRequest>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<SpawnedProcess, SpawnerError> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (started, on_start) = oneshot::channel();
        let (exited, on_exit) = watch::channel(None);
        {
            let mut waiting = self.shared.lock();
            if waiting.gone {
                return Err(SpawnerError::Gone);
            }
            waiting.started.insert(id, started);
            waiting.exits.insert(id, exited);
        }
        let request = Request::Spawn { id, launch: Box::new(launch), cgroup };
        let sent = self.send(&request, descriptors).await;
        if let Err(error) = sent {
            let mut waiting = self.shared.lock();
            waiting.started.remove(&id);
            waiting.exits.remove(&id);
            // The reader of the other direction may not have noticed the end yet.
            let gone = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
            return Err(if gone { SpawnerError::Gone } else { SpawnerError::Refused(error.to_string()) });
        }
        match on_start.await {
            Ok(Ok(StartedPid { pid, master })) => {
                Ok(SpawnedProcess { pid, master, exit: ExitWatch { receiver: on_exit } })
            }
            Ok(Err(message)) => Err(SpawnerError::Refused(message)),
            Err(_) => Err(SpawnerError::Gone),
        }
    }

    /// Whether the spawner has ended.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.shared.lock().gone
    }

    async fn send(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        loop {
            let mut ready = self.shared.socket.writable().await?;
            match ready.try_io(|socket| descriptor::send(socket.get_ref().as_fd(), request, descriptors)) {
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        // The maps are valid after any panic of a holder: each change is one insert or remove.
        self.waiting.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct ReaderTask {
    task: tokio::task::JoinHandle<()>,
    shared: Arc<Shared>,
    child: Mutex<Child>,
}

impl Drop for ReaderTask {
    fn drop(&mut self) {
        self.task.abort();
        // The reader task may still hold the socket for a moment; the spawner notices the shutdown.
        let _ = rustix::net::shutdown(self.shared.socket.get_ref(), rustix::net::Shutdown::Both);
        // It kills what is left and ends by itself within its grace period; waiting for it guarantees that nothing is
        // left when the harness returns.
        if let Ok(child) = self.child.get_mut() {
            let _ = child.wait();
        }
    }
}

async fn read_answers(shared: Arc<Shared>) {
    let mut buffer = Vec::new();
    loop {
        let Ok(mut ready) = shared.socket.readable().await else { break };
        let received =
            ready.try_io(|socket| descriptor::receive::<Response>(socket.get_ref().as_fd(), &mut buffer));
        match received {
            Ok(Ok(Some((response, descriptors)))) => deliver(&shared, response, descriptors),
            Ok(Ok(None)) => break,
            Ok(Err(error)) => {
                tracing::error!(%error, "lost the connection to the spawner");
                break;
            }
            Err(_would_block) => {}
        }
    }
    let mut waiting = shared.lock();
    waiting.gone = true;
    // Dropping the senders wakes every waiting caller.
    waiting.started.clear();
    waiting.exits.clear();
}

fn deliver(shared: &Shared, response: Response, descriptors: Vec<OwnedFd>) {
    let mut waiting = shared.lock();
    match response {
        Response::Spawned { id, pid } => {
            if let Some(started) = waiting.started.remove(&id) {
                let master = descriptors.into_iter().next();
                // If the caller is gone, the master is dropped, and the sandbox's terminal hangs up.
                let _ = started.send(Ok(StartedPid { pid, master }));
            }
        }
        Response::Failed { id, message } => {
            waiting.exits.remove(&id);
            if let Some(started) = waiting.started.remove(&id) {
                let _ = started.send(Err(message));
            }
        }
        Response::Exited { id, report } => {
            if let Some(exited) = waiting.exits.remove(&id) {
                let _ = exited.send(Some(report));
            }
        }
    }
}
