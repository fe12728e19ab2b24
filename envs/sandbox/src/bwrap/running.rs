//! A running sandbox: its files, further programs, processes and end.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clawrl_core::{Boundary, BoxFuture, Fault};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Signal, pidfd_send_signal};
use tokio::sync::watch;

use super::arguments;
use super::kill_queue::Killable;
use super::staging::StagingDir;
use super::start::Shared;
use crate::blocking::{blocking, put_files};
use crate::cgroup;
use crate::exec_error::ExecError;
use crate::identity::Identity;
use crate::live::Live;
use crate::network::SandboxNetwork;
use crate::procs::{self, ProcessStat};
use crate::program::{self, Program, ProgramContext};
use crate::safe_dir::{SafeDir, SafeReadError};
use crate::spawner::{CgroupRequest, Confinement, JoinTarget, LaunchKind, LaunchRequest, SpawnedProcess};
use crate::{ExposedFolder, ProcessFacts, ProgramSpec, PutFile, Sandbox, SandboxCommand, SandboxSpec};

/// A killed sandbox that has not ended by then is a harness fault: the kernel never takes this long.
const KILL_LIMIT: Duration = Duration::from_secs(30);

/// Time that all processes take to end after the kernel killed them for lack of memory.
const OOM_LIMIT: Duration = Duration::from_millis(300);

/// Exit code of a main program that was killed, as bubblewrap reports it.
const KILLED: i32 = 128 + 9;

#[derive(Debug)]
pub(super) struct KillHandle(Mutex<Target>);

#[derive(Debug)]
enum Target {
    /// Starting: only the outer process is known.
    Outer(u32),
    /// A handle of the first process inside, whose end ends all others.
    First(OwnedFd),
    /// Ended; the process ids may have been reused.
    Gone,
}

impl Killable for KillHandle {
    fn kill(&self) {
        match &*self.lock() {
            Target::First(handle) => {
                // ESRCH: it has already ended.
                let _ = pidfd_send_signal(handle, Signal::KILL);
            }
            Target::Outer(pid) => procs::kill_with_children(*pid),
            Target::Gone => {}
        }
    }

    fn has_ended(&self) -> bool {
        matches!(&*self.lock(), Target::Gone)
    }
}

impl KillHandle {
    /// Whether the first process inside is known. A sandbox that is still starting is ended by its start function.
    pub(super) fn is_started(&self) -> bool {
        matches!(&*self.lock(), Target::First(_))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Target> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The processes of one sandbox, held by their kill handle. Dropping it kills them.
#[derive(Debug)]
pub(super) struct KillOnDrop {
    shared: Arc<Shared>,
    handle: Arc<KillHandle>,
    /// Becomes true when everything has ended and the user id and the count were given back.
    ended: watch::Receiver<bool>,
    /// Set before `ended`: the main program was killed when the memory was used up.
    out_of_memory: Arc<AtomicBool>,
    cgroup: Option<CgroupRequest>,
    host_id: Option<u32>,
    first: Option<FirstProcess>,
}

/// The first process inside. When it ends, the kernel ends all others.
#[derive(Debug, Clone, Copy)]
struct FirstProcess {
    pid: u32,
    start_ticks: u64,
}

impl KillOnDrop {
    pub(super) fn new(
        shared: Arc<Shared>,
        live: Live,
        identity: Option<Identity>,
        cgroup: Option<CgroupRequest>,
        process: &SpawnedProcess,
    ) -> Self {
        let host_id = identity.as_ref().map(|identity| identity.id);
        let handle = Arc::new(KillHandle(Mutex::new(Target::Outer(process.pid))));
        shared.remember(process.pid, &handle);
        let pid = process.pid;
        // The user id and the count are given back when the kernel reports that everything has ended, not before.
        let mut exit = process.exit.clone();
        let (watched, killer) = (Arc::clone(&shared), Arc::clone(&handle));
        let (tell_ended, ended) = watch::channel(false);
        let out_of_memory = Arc::new(AtomicBool::new(false));
        let tell_out_of_memory = Arc::clone(&out_of_memory);
        tokio::spawn(async move {
            let report = exit.ended().await;
            // A main program that ended in another way outlived whatever the kernel killed before.
            let is_killed = report.code == Some(KILLED) || report.signal.is_some();
            tell_out_of_memory.store(report.out_of_memory && is_killed, Ordering::Release);
            *killer.lock() = Target::Gone;
            watched.ends.ended(&killer);
            drop(identity);
            watched.forget(pid);
            drop(live);
            let _ = tell_ended.send(true);
        });
        Self { shared, handle, ended, out_of_memory, cgroup, host_id, first: None }
    }

    /// Adopts the first process inside as the one to kill, after verifying that it is a child of the outer process.
    pub(super) fn pin(&mut self, outer: u32, inner: u32) -> Option<()> {
        let handle = procs::open(inner)?;
        let stat = ProcessStat::read(inner).filter(|stat| stat.parent == outer)?;
        self.first = Some(FirstProcess { pid: inner, start_ticks: stat.start_ticks });
        let mut target = self.handle.lock();
        if !matches!(*target, Target::Gone) {
            *target = Target::First(handle);
        }
        drop(target);
        if self.shared.is_closing() {
            // The run's end left killing this one to us.
            self.end();
        }
        Some(())
    }

    /// Kills it, now or when a place in the queue is free.
    fn end(&self) {
        self.shared.ends.end(&self.handle);
    }

    fn join_target(&self) -> Option<JoinTarget> {
        let first = self.first?;
        let inside = (arguments::INSIDE_ID, arguments::INSIDE_ID);
        Some(JoinTarget {
            pid: first.pid,
            start_ticks: first.start_ticks,
            inside_identity: inside,
            container: None,
        })
    }

    /// Processes of the sandbox's pid namespace, without the first one.
    fn processes(&self) -> Vec<ProcessFacts> {
        let Some(first) = self.first else { return Vec::new() };
        let Some(namespace) = pid_namespace(first.pid) else { return Vec::new() };
        let candidates = self.cgroup.as_ref().and_then(cgroup::members).unwrap_or_else(procs::all);
        candidates
            .into_iter()
            .filter(|&pid| pid != first.pid && pid_namespace(pid).as_ref() == Some(&namespace))
            .filter_map(procs::facts)
            .collect()
    }
}

impl ProgramContext for KillOnDrop {
    fn inside(&self) -> Vec<ProcessFacts> {
        self.processes()
    }

    fn kill_all(&self) {
        self.end();
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.end();
    }
}

fn pid_namespace(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// The [`Sandbox`] of this backend.
#[derive(Debug)]
pub(super) struct RunningSandbox {
    held: Arc<KillOnDrop>,
    /// The workspace comes first.
    exposed_folders: Vec<ExposedFolder>,
    workspace: ExposedFolder,
    /// Dropped after the sandbox that mounts them.
    _staged: Vec<Option<StagingDir>>,
    identity: (u32, u32),
    spec: SandboxSpec,
}

impl RunningSandbox {
    pub(super) fn new(
        held: KillOnDrop,
        exposed_folders: Vec<ExposedFolder>,
        staged: Vec<Option<StagingDir>>,
        identity: (u32, u32),
        spec: SandboxSpec,
    ) -> Result<Self, Fault> {
        let workspace = exposed_folders.first().cloned().ok_or_else(|| {
            Fault::permanent(Boundary::Harness, "no-workspace", "a sandbox was started without a workspace")
        })?;
        Ok(Self { held: Arc::new(held), exposed_folders, workspace, _staged: staged, identity, spec })
    }

    fn launch(&self, command: SandboxCommand, target: JoinTarget) -> LaunchRequest {
        let shared = &self.held.shared;
        let mut environment = arguments::variables(&self.spec.main, &shared.config.determinism);
        environment.extend(command.environment);
        let mut limits =
            super::start::resource_limits(&self.spec, shared.config.host.cgroups.limits_memory());
        limits.push((crate::spawner::ResourceLimit::Processes, u64::from(self.spec.limits.pids)));
        LaunchRequest {
            kind: LaunchKind::Descriptors,
            confinement: Confinement {
                identity: self.held.host_id.map(|id| (id, id)),
                cgroup_entrances: self
                    .held
                    .cgroup
                    .as_ref()
                    .map(|cgroup| cgroup.entrances.clone())
                    .unwrap_or_default(),
                limits,
                oom_score: Some(500),
                filter: Some(self.spec.filter()),
            },
            join: Some(target),
            parent: 0,
            label: String::new(),
            program: command.program.into(),
            hidden_arguments: Vec::new(),
            data: Vec::new(),
            arguments: command.arguments,
            environment,
            working_folder: Some(self.workspace.path.clone().into()),
        }
    }
}

impl Sandbox for RunningSandbox {
    fn put(&self, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        if files.is_empty() {
            return Box::pin(async { Ok(()) });
        }
        Box::pin(put_files(Arc::clone(&self.workspace.folder), files, self.workspace.owner))
    }

    /// The workspace is a mount point, which nothing inside can move away.
    fn workspace(&self) -> BoxFuture<'_, Result<Result<Arc<SafeDir>, SafeReadError>, Fault>> {
        Box::pin(async { Ok(Ok(Arc::clone(&self.workspace.folder))) })
    }

    fn exposed_folders(&self) -> BoxFuture<'_, Vec<ExposedFolder>> {
        Box::pin(async { self.exposed_folders.clone() })
    }

    fn open(&self, spec: ProgramSpec) -> BoxFuture<'_, Result<Program, ExecError>> {
        Box::pin(async move {
            if let Some(user) = &spec.user {
                let message = format!(
                    "the user `{user}` needs `sandbox: container`; bubblewrap supports only the \
                        agent's user"
                );
                return Err(Fault::permanent(Boundary::Env, "needs-container", message).into());
            }
            let gone = || Fault::transient(Boundary::Env, "sandbox-gone", "the sandbox has ended");
            let target = self.held.join_target().ok_or_else(gone)?;
            let launch = self.launch(spec.command, target);
            let held = Arc::downgrade(&self.held);
            program::start(self.held.shared.spawner.clone(), launch, held).await
        })
    }

    fn network(&self) -> BoxFuture<'_, Result<SandboxNetwork, Fault>> {
        Box::pin(async move {
            let gone = || Fault::transient(Boundary::Provider, "sandbox-gone", "the sandbox has ended");
            let target = self.held.join_target().ok_or_else(gone)?;
            let launch =
                LaunchRequest { kind: LaunchKind::Sockets, ..self.launch(SandboxCommand::default(), target) };
            let failed = |error: rustix::io::Errno| {
                Fault::transient(Boundary::Provider, "sandbox-network", error.to_string())
            };
            let (ours, theirs) =
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                    .map_err(failed)?;
            let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                .map_err(failed)?;
            let streams = [theirs.as_fd(), nothing.as_fd(), nothing.as_fd()];
            self.held.shared.spawner.spawn(launch, None, &streams).await?;
            Ok(SandboxNetwork::own(ours))
        })
    }

    fn processes(&self) -> BoxFuture<'_, Vec<ProcessFacts>> {
        let held = Arc::clone(&self.held);
        Box::pin(async move { blocking(move || held.processes()).await.unwrap_or_default() })
    }

    fn kill_processes<'a>(&'a self, victims: &'a [ProcessFacts]) -> BoxFuture<'a, ()> {
        Box::pin(async move { procs::kill_each(victims.iter()) })
    }

    fn identity(&self) -> (u32, u32) {
        self.identity
    }

    fn ran_out_of_memory(&self) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let mut ended = self.held.ended.clone();
            // Called after the shell has ended. If memory ran out, the kernel ends all processes at once; otherwise the
            // sandbox lives on.
            let _ = tokio::time::timeout(OOM_LIMIT, ended.wait_for(|&ended| ended)).await;
            self.held.out_of_memory.load(Ordering::Acquire)
        })
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            self.held.end();
            let mut ended = self.held.ended.clone();
            let ended = loop {
                let ended = tokio::time::timeout(KILL_LIMIT, ended.wait_for(|&ended| ended)).await.is_ok();
                // The limit is for the kernel's part; time spent waiting for other sandboxes to end does not count.
                if ended || !self.held.shared.ends.is_waiting(&self.held.handle) {
                    break ended;
                }
            };
            match ended {
                // The spawner retries a control group that is still busy, and reports it at the end of the run.
                true => Ok(()),
                false => {
                    let message = format!(
                        "sandbox {} has not ended {KILL_LIMIT:?} after it was killed",
                        self.spec.label
                    );
                    Err(Fault::permanent(Boundary::Harness, "sandbox-undead", message))
                }
            }
        })
    }
}
