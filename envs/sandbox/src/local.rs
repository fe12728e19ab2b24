//! A backend without isolation, for users who ask for it explicitly.
//!
//! Programs run as the harness's own user and can reach the host's files, network and processes. What remains of a
//! sandbox: its own workspace, a clean environment, and that all processes are ended. Processes are found by an
//! inherited environment variable, so one that clears its environment on purpose escapes the kill; nothing here can
//! prevent that.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clawrl_core::{Boundary, BoxFuture, Determinism, Fault, NetworkPolicy, RunId};

use crate::blocking::{blocking, put_files};
use crate::exec_error::ExecError;
use crate::live::LiveCount;
use crate::network::SandboxNetwork;
use crate::procs;
use crate::program::{self, Program, ProgramContext};
use crate::ready::{READY, until_ready};
use crate::safe_dir::{SafeDir, SafeReadError};
use crate::spawner::{Confinement, ExitWatch, LaunchKind, LaunchRequest, ResourceLimit, SpawnerClient};
use crate::{
    ProcessFacts, ProgramSpec, PutFile, Sandbox, SandboxBackend, SandboxCommand, SandboxSpec, StartedSandbox,
    Terminal,
};

/// The variable by which processes are found.
const MARK: &str = "CLAWRL_BOX";

/// How long a kill and the backend's shutdown wait.
const KILL_LIMIT: Duration = Duration::from_secs(30);

/// Programs without isolation.
pub struct LocalBackend {
    shared: Arc<Shared>,
}

struct Shared {
    spawner: SpawnerClient,
    determinism: Determinism,
    /// Folder of this process, in the system's temporary folder.
    folder: PathBuf,
    count: Arc<LiveCount>,
    next: AtomicU64,
    closing: AtomicBool,
    /// Running programs, for shutdown.
    running: Mutex<Vec<SandboxPrograms>>,
}

impl LocalBackend {
    /// Creates a backend that uses a spawner, with workspaces in the system's temporary folder.
    #[must_use]
    pub fn new(spawner: SpawnerClient, run: &RunId, determinism: Determinism) -> Self {
        Self::at(std::env::temp_dir().join(crate::cgroup::owner_name(run)), spawner, determinism)
    }

    /// Creates a further backend of the same run, with separate folders and process marks.
    #[must_use]
    pub fn beside(name: &str, spawner: SpawnerClient, run: &RunId, determinism: Determinism) -> Self {
        let folder = std::env::temp_dir().join(crate::cgroup::owner_name(run)).join(name);
        Self::at(folder, spawner, determinism)
    }

    fn at(folder: PathBuf, spawner: SpawnerClient, determinism: Determinism) -> Self {
        let shared = Shared {
            spawner,
            determinism,
            folder,
            count: Arc::default(),
            next: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            running: Mutex::new(Vec::new()),
        };
        Self { shared: Arc::new(shared) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Only an empty folder is removed; what could not be removed was reported before.
        let _ = std::fs::remove_dir(&self.folder);
        // Also the run's folder, if this was the last of its backends; the system's folder is not empty.
        if let Some(folder) = self.folder.parent().filter(|folder| *folder != std::env::temp_dir()) {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

impl Shared {
    async fn start(self: Arc<Self>, spec: SandboxSpec) -> Result<StartedSandbox, Fault> {
        if self.closing.load(Ordering::Acquire) {
            return Err(Fault::permanent(Boundary::Provider, "shut-down", "the backend was shut down"));
        }
        if spec.image.is_some() || !spec.folders.is_empty() || spec.network == NetworkPolicy::Public {
            let message = "`sandbox: none` is the host itself: an image and a verifier need `bubblewrap` or \
                           `container`, `network: public` needs `container`";
            return Err(Fault::permanent(Boundary::Provider, "needs-sandbox", message));
        }
        let live = self.count.begin();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = Folder(self.folder.join(format!("b{number}")));
        let mark = format!("{}/{number}", self.folder.display());
        let support = make_folders(&folder.0, &spec.support_files)
            .map_err(|error| Fault::transient(Boundary::Provider, "workspace", error.to_string()))?;
        let command = &spec.main;
        let mut arguments = spec.announced_by.before("sh", &format!("printf '%s' '{READY}'"));
        arguments.extend(std::iter::once(&command.program).chain(&command.arguments).cloned());
        for argument in &mut arguments {
            // Programs know support files by their paths inside; here the files are elsewhere.
            if let Some((_, real)) = support.iter().find(|(path, _)| path == argument) {
                *argument = real.to_string_lossy().into_owned();
            }
        }
        let kind = LaunchKind::Pty { cols: spec.size.0, rows: spec.size.1 };
        let launch = self.launch(&folder.0, &mark, kind, "/usr/bin/env".to_owned(), arguments, command);
        let process = self.spawner.spawn(launch, None, &[]).await?;
        let exit = process.exit.clone();
        let mut ended = exit.clone();
        tokio::spawn(async move {
            ended.ended().await;
            drop(live);
        });
        let victim = SandboxPrograms { mark, main: process.pid, exit };
        self.running.lock().unwrap_or_else(PoisonError::into_inner).push(victim.clone());
        let guard = Arc::new(KillOnDrop(victim));
        let terminal = process.master.ok_or_else(|| {
            Fault::permanent(Boundary::Harness, "no-terminal", "the spawner sent no terminal")
        })?;
        let (terminal, _) = until_ready(terminal).await?;
        let workspace = SafeDir::open(folder.0.join("work"))
            .map_err(|error| Fault::transient(Boundary::Provider, "workspace", error.to_string()))?;
        let sandbox = LocalSandbox { shared: self, guard, workspace: Arc::new(workspace), folder };
        Ok(StartedSandbox { sandbox: Box::new(sandbox), terminal: Terminal::Local(terminal) })
    }

    fn launch(
        &self,
        folder: &Path,
        mark: &str,
        kind: LaunchKind,
        program: String,
        arguments: Vec<String>,
        command: &SandboxCommand,
    ) -> LaunchRequest {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut environment = crate::bwrap::variables(command, &self.determinism);
        environment.push(("HOME".to_owned(), text(folder.join("home"))));
        environment.push((MARK.to_owned(), mark.to_owned()));
        LaunchRequest {
            kind,
            confinement: Confinement { limits: vec![(ResourceLimit::Core, 0)], ..Confinement::default() },
            join: None,
            parent: 0,
            label: program.clone(),
            program: program.into(),
            hidden_arguments: Vec::new(),
            data: Vec::new(),
            arguments,
            environment,
            working_folder: Some(folder.join("work")),
        }
    }
}

impl SandboxBackend for LocalBackend {
    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<StartedSandbox, Fault>> {
        // Runs in its own task: a caller that is dropped midway must not lose a starting process.
        let task = tokio::spawn(Arc::clone(&self.shared).start(spec));
        Box::pin(async move {
            task.await.unwrap_or_else(|error| {
                Err(Fault::permanent(Boundary::Harness, "panic", format!("starting a program: {error}")))
            })
        })
    }

    fn live(&self) -> u32 {
        self.shared.count.live()
    }

    fn peak(&self) -> u32 {
        self.shared.count.peak()
    }

    fn shutdown(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            self.shared.closing.store(true, Ordering::Release);
            let victims = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let _ = blocking(move || victims.iter().filter(|victim| !victim.kill()).count()).await;
            let undead = self.shared.count.all_ended(KILL_LIMIT).await;
            if undead > 0 { vec![format!("{undead} programs have not ended")] } else { Vec::new() }
        })
    }
}

/// A folder that is removed with its owner.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::warn!(folder = %self.0.display(), %error, "a workspace could not be removed");
        }
    }
}

#[derive(Debug, Clone)]
struct SandboxPrograms {
    mark: String,
    /// Process id of the main program. During an exec a process shows no environment, so the mark alone could miss it.
    main: u32,
    exit: ExitWatch,
}

impl SandboxPrograms {
    /// Kills the processes that are visible now; returns their number.
    fn kill_all(&self) -> usize {
        let seen = marked(&self.mark);
        procs::kill_each(seen.iter());
        if !self.exit.has_ended() {
            procs::kill(self.main);
        }
        seen.len()
    }

    /// Kills until none is left; false when some are left at the limit. Blocks.
    fn kill(&self) -> bool {
        let deadline = Instant::now() + KILL_LIMIT;
        loop {
            // A process forks faster than it is found only on purpose; each round kills all that were seen.
            if self.kill_all() == 0 && self.exit.has_ended() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::yield_now();
        }
    }
}

#[derive(Debug)]
struct KillOnDrop(SandboxPrograms);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill_all();
    }
}

impl ProgramContext for KillOnDrop {
    fn inside(&self) -> Vec<ProcessFacts> {
        marked(&self.0.mark)
    }

    fn kill_all(&self) {
        self.0.kill_all();
    }
}

struct LocalSandbox {
    shared: Arc<Shared>,
    /// Declared before the folder, so dropped before it.
    guard: Arc<KillOnDrop>,
    workspace: Arc<SafeDir>,
    folder: Folder,
}

impl Sandbox for LocalSandbox {
    fn put(&self, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(put_files(Arc::clone(&self.workspace), files, None))
    }

    fn workspace(&self) -> BoxFuture<'_, Result<Result<Arc<SafeDir>, SafeReadError>, Fault>> {
        Box::pin(async { Ok(Ok(Arc::clone(&self.workspace))) })
    }

    /// The user applies to containers only; here everything runs as the harness's user.
    fn open(&self, spec: ProgramSpec) -> BoxFuture<'_, Result<Program, ExecError>> {
        Box::pin(async move {
            let SandboxCommand { program, arguments, .. } = spec.command.clone();
            let (folder, mark) = (&self.folder.0, &self.guard.0.mark);
            let kind = LaunchKind::Descriptors;
            let launch = self.shared.launch(folder, mark, kind, program, arguments, &spec.command);
            let guard = Arc::downgrade(&self.guard);
            program::start(self.shared.spawner.clone(), launch, guard).await
        })
    }

    fn network(&self) -> BoxFuture<'_, Result<SandboxNetwork, Fault>> {
        Box::pin(async { Ok(SandboxNetwork::host()) })
    }

    fn processes(&self) -> BoxFuture<'_, Vec<ProcessFacts>> {
        let mark = self.guard.0.mark.clone();
        Box::pin(async move { blocking(move || marked(&mark)).await.unwrap_or_default() })
    }

    fn kill_processes<'a>(&'a self, victims: &'a [ProcessFacts]) -> BoxFuture<'a, ()> {
        Box::pin(async move { procs::kill_each(victims.iter()) })
    }

    fn identity(&self) -> (u32, u32) {
        let own = rustix::process::geteuid().as_raw();
        (own, own)
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            let victim = self.guard.0.clone();
            if blocking(move || victim.kill()).await? {
                return Ok(());
            }
            let message = format!("programs of {} have not ended after they were killed", self.guard.0.mark);
            Err(Fault::permanent(Boundary::Harness, "sandbox-undead", message))
        })
    }
}

fn marked(mark: &str) -> Vec<ProcessFacts> {
    let wanted = format!("{MARK}={mark}");
    let has_mark = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    procs::all().into_iter().filter(has_mark).filter_map(procs::facts).collect()
}

/// Creates the workspace, a home and the support files; returns the support files' real paths.
fn make_folders(folder: &Path, support: &[(String, String)]) -> std::io::Result<Vec<(String, PathBuf)>> {
    for name in ["work", "home", "support"] {
        std::fs::create_dir_all(folder.join(name))?;
    }
    let mut exposed_folders = Vec::new();
    for (number, (path, content)) in support.iter().enumerate() {
        let place = folder.join("support").join(number.to_string());
        std::fs::write(&place, content)?;
        exposed_folders.push((path.clone(), place));
    }
    Ok(exposed_folders)
}
