//! Starting a sandbox: request to the spawner, bubblewrap's report on the terminal, the ready mark.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use clawrl_core::{Boundary, BoxFuture, Determinism, Fault, RunId};
use tokio::sync::Notify;

use super::arguments::{self, INSIDE_ID, READY, WORKSPACE};
use super::host::HostReport;
use super::running::{Held, KillHandle, RunningSandbox};
use crate::cgroup::{self, CgroupRoot};
use crate::identity::IdentityPool;
use crate::readiness::watched;
use crate::safe_dir::SafeDir;
use crate::spawner::{
    Confinement, LaunchKind, LaunchRequest, ResourceLimit, SpawnedProcess, SpawnerClient, SpawnerError,
};
use crate::{SandboxBackend, SandboxSpec, StartedSandbox};

/// A sandbox that is not ready by then is given up. Generous: a loaded machine starts hundreds at once.
const START_LIMIT: Duration = Duration::from_secs(60);

/// How long `shutdown` waits for what it killed.
const END_LIMIT: Duration = Duration::from_secs(60);

/// bubblewrap's report and its complaints are far smaller; more means that something else is talking.
const MAX_PREAMBLE_BYTES: usize = 16 * 1024;

/// Sandboxes that are being started at once. More would only queue in the spawner, each holding memory.
const STARTS_AT_ONCE: usize = 32;

/// What the backend is made of.
#[derive(Debug, Clone)]
pub struct BubblewrapConfig {
    /// From [`super::probe_host`].
    pub host: HostReport,
    /// Label of everything created.
    pub run: RunId,
    /// Held fixed in every sandbox.
    pub determinism: Determinism,
}

/// Sandboxes by bubblewrap.
#[derive(Debug, Clone)]
pub struct BubblewrapBackend {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) spawner: SpawnerClient,
    pub(super) config: BubblewrapConfig,
    pub(super) cgroups: CgroupRoot,
    identities: Option<IdentityPool>,
    /// By outer process id: what `shutdown` kills although somebody still holds it.
    running: Mutex<HashMap<u32, Weak<KillHandle>>>,
    live: AtomicU32,
    peak: AtomicU32,
    all_ended: Notify,
    next: AtomicU64,
    starts: tokio::sync::Semaphore,
}

impl BubblewrapBackend {
    /// A backend on a spawner.
    ///
    /// # Errors
    /// A provider [`Fault`] when this process's control groups cannot be made.
    pub fn new(spawner: SpawnerClient, config: BubblewrapConfig) -> Result<Self, Fault> {
        let cgroups = config
            .host
            .cgroups
            .open(&config.run)
            .map_err(|error| Fault::permanent(Boundary::Provider, "cgroup", error.to_string()))?;
        let shared = Shared {
            spawner,
            identities: config.host.root.then(IdentityPool::of_this_process),
            config,
            cgroups,
            running: Mutex::new(HashMap::new()),
            live: AtomicU32::new(0),
            peak: AtomicU32::new(0),
            all_ended: Notify::new(),
            next: AtomicU64::new(0),
            starts: tokio::sync::Semaphore::new(STARTS_AT_ONCE),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What was found on this machine.
    #[must_use]
    pub fn host(&self) -> &HostReport {
        &self.shared.config.host
    }

    async fn start_now(shared: Arc<Shared>, spec: SandboxSpec) -> Result<StartedSandbox, Fault> {
        let _permit = shared.starts.acquire().await.map_err(|_| ended())?;
        let live = Live::new(&shared);
        let identity = match &shared.identities {
            Some(pool) => Some(pool.take().ok_or_else(|| {
                Fault::transient(
                    Boundary::Provider,
                    "too-many-sandboxes",
                    "no user id is free for another sandbox",
                )
            })?),
            None => None,
        };
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let cgroup = shared.cgroups.request(&format!("b{number}"), &spec.limits);
        let (hidden_arguments, data) = arguments::hidden(&spec, &shared.config.determinism);
        let host_id = identity.as_ref().map(|identity| (identity.id, identity.id));
        let confinement = Confinement {
            identity: host_id,
            cgroup_procs: cgroup.as_ref().map(cgroup::procs_files).unwrap_or_default(),
            limits: resource_limits(&spec, shared.config.host.cgroups.limits_memory()),
            oom_score: Some(500),
            filter_calls: true,
        };
        let launch = LaunchRequest {
            kind: LaunchKind::Pty { cols: spec.size.0, rows: spec.size.1 },
            confinement,
            join: None,
            parent: 0,
            label: format!("clawrl-box {} {}", cgroup::owner_name(&shared.config.run), spec.label),
            program: shared.config.host.program.clone(),
            hidden_arguments,
            data,
            arguments: arguments::main_program(&spec),
            environment: Vec::new(),
            working_folder: None,
        };
        let process = shared.spawner.spawn(launch, cgroup.clone(), &[]).await.map_err(spawn_fault)?;
        // From here on the guard ends the sandbox whatever happens.
        let mut held = Held::new(Arc::clone(&shared), live, identity, cgroup, &process);
        let SpawnedProcess { pid, master, .. } = process;
        let terminal = master
            .ok_or_else(|| Fault::permanent(Boundary::Harness, "no-terminal", "the spawner sent none"))?;
        let ready = tokio::time::timeout(START_LIMIT, until_ready(terminal)).await.map_err(|_| {
            Fault::transient(Boundary::Provider, "start-timeout", "a sandbox did not start within 60 s")
        })??;
        held.pin(pid, ready.first_process).ok_or_else(|| {
            Fault::transient(Boundary::Provider, "sandbox-start", "the sandbox ended as it started")
        })?;
        let path = format!("/proc/{}/root{WORKSPACE}", ready.first_process);
        let workspace = SafeDir::open(std::path::Path::new(&path)).map_err(|error| {
            Fault::transient(Boundary::Provider, "workspace", format!("cannot open the workspace: {error}"))
        })?;
        let identity = (host_id.map_or_else(|| rustix::process::geteuid().as_raw(), |id| id.0), INSIDE_ID);
        let sandbox = RunningSandbox::new(held, workspace, identity, spec);
        Ok(StartedSandbox { sandbox: Box::new(sandbox), terminal: ready.terminal })
    }
}

/// One in the count of what exists, from before its start until the kernel says that all of it has ended.
#[derive(Debug)]
pub(super) struct Live(Arc<Shared>);

impl Live {
    fn new(shared: &Arc<Shared>) -> Self {
        let live = shared.live.fetch_add(1, Ordering::AcqRel) + 1;
        shared.peak.fetch_max(live, Ordering::AcqRel);
        Self(Arc::clone(shared))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if self.0.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.all_ended.notify_waiters();
        }
    }
}

impl Shared {
    pub(super) fn is_closing(&self) -> bool {
        self.starts.is_closed()
    }

    pub(super) fn remember(&self, outer: u32, handle: &Arc<KillHandle>) {
        self.running().insert(outer, Arc::downgrade(handle));
    }

    pub(super) fn forget(&self, outer: u32) {
        self.running().remove(&outer);
    }

    fn running(&self) -> MutexGuard<'_, HashMap<u32, Weak<KillHandle>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SandboxBackend for BubblewrapBackend {
    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<StartedSandbox, Fault>> {
        let shared = Arc::clone(&self.shared);
        // In a task of its own: a caller that is dropped half-way must not lose a process that is on its way.
        let task = tokio::spawn(Self::start_now(shared, spec));
        Box::pin(async move {
            task.await.unwrap_or_else(|error| {
                Err(Fault::permanent(Boundary::Harness, "panic", format!("starting a sandbox: {error}")))
            })
        })
    }

    fn live(&self) -> u32 {
        self.shared.live.load(Ordering::Acquire)
    }

    fn peak(&self) -> u32 {
        self.shared.peak.load(Ordering::Acquire)
    }

    fn shutdown(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            self.shared.starts.close();
            let running: Vec<_> = self.shared.running().values().filter_map(Weak::upgrade).collect();
            running.iter().for_each(|handle| handle.kill());
            loop {
                let ended = self.shared.all_ended.notified();
                if self.live() == 0 {
                    break;
                }
                if tokio::time::timeout(END_LIMIT, ended).await.is_err() {
                    break;
                }
            }
            let mut left = Vec::new();
            if self.live() > 0 {
                left.push(format!("{} sandboxes have not ended", self.live()));
            }
            for folder in self.shared.cgroups.folders() {
                left.extend(crate::cgroup::remains_of(folder));
            }
            left
        })
    }
}

pub(super) fn resource_limits(spec: &SandboxSpec, memory_by_cgroup: bool) -> Vec<(ResourceLimit, u64)> {
    let mut limits = vec![
        (ResourceLimit::Core, 0),
        (ResourceLimit::OpenFiles, 1024),
        (ResourceLimit::LockedMemory, 64 << 10),
        (ResourceLimit::MessageQueues, 64 << 10),
        (ResourceLimit::PendingSignals, 1024),
    ];
    if !memory_by_cgroup {
        limits.push((ResourceLimit::Data, u64::from(spec.limits.memory_mib) << 20));
    }
    limits
}

/// A terminal whose sandbox is in place.
struct Ready {
    terminal: OwnedFd,
    /// Host process id of the first inside process, from bubblewrap's report.
    first_process: u32,
}

/// Reads the terminal until the ready mark.
async fn until_ready(terminal: OwnedFd) -> Result<Ready, Fault> {
    let failed = |error: io::Error| Fault::transient(Boundary::Provider, "terminal", error.to_string());
    let terminal = watched(terminal).map_err(failed)?;
    let mut preamble = Vec::new();
    let mut chunk = [0u8; READY.len()];
    loop {
        // Never more than what the mark may still lack, so that nothing behind it is taken.
        let wanted = READY.len() - begun(&preamble, READY.as_bytes());
        let mut ready = terminal.readable().await.map_err(failed)?;
        let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref().as_fd(), &mut chunk[..wanted])?));
        match read {
            Ok(Ok(read)) if read > 0 => preamble.extend_from_slice(&chunk[..read]),
            // A terminal whose last process is gone gives EIO, or the end of the file.
            Ok(Ok(_)) => return Err(not_started(&preamble)),
            Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Err(not_started(&preamble)),
            Ok(Err(error)) => return Err(failed(error)),
            Err(_would_block) => continue,
        }
        if let Some(report) = preamble.strip_suffix(READY.as_bytes()) {
            let first_process =
                first_process(&String::from_utf8_lossy(report)).ok_or_else(|| not_started(&preamble))?;
            return Ok(Ready { terminal: terminal.into_inner(), first_process });
        }
        if preamble.len() > MAX_PREAMBLE_BYTES {
            return Err(not_started(&preamble));
        }
    }
}

/// Length of the longest end of `text` that is a proper beginning of `mark`.
fn begun(text: &[u8], mark: &[u8]) -> usize {
    (1..mark.len()).rev().find(|&length| text.ends_with(&mark[..length])).unwrap_or(0)
}

/// `"child-pid": N` in bubblewrap's report.
fn first_process(report: &str) -> Option<u32> {
    let (_, rest) = report.split_once("\"child-pid\"")?;
    let digits: String =
        rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn not_started(said: &[u8]) -> Fault {
    let said = String::from_utf8_lossy(said);
    // The report may have come before the complaint.
    let said = said.rsplit('}').next().unwrap_or_default().trim();
    let said: String = said.chars().take(500).collect();
    let (code, hint) = if said.contains("No space left") || said.contains("Cannot allocate") {
        ("host-exhausted", "; the machine is out of namespaces or memory, lower the concurrency")
    } else {
        ("sandbox-start", "; `clawrl doctor` checks what a sandbox needs")
    };
    Fault::transient(Boundary::Provider, code, format!("the sandbox did not start: {said}{hint}"))
}

pub(super) fn spawn_fault(error: SpawnerError) -> Fault {
    match error {
        SpawnerError::Gone => Fault::permanent(Boundary::Harness, "spawner-gone", error.to_string()),
        other => Fault::transient(Boundary::Provider, "spawn", other.to_string()),
    }
}

fn ended() -> Fault {
    Fault::permanent(Boundary::Provider, "shut-down", "the sandbox backend was shut down")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_read_with_terminal_line_ends() {
        assert_eq!(first_process("{\r\n    \"child-pid\": 2164,\r\n    \"net-namespace\": 4026"), Some(2164));
        assert_eq!(first_process("bwrap: nothing"), None);
    }

    #[test]
    fn a_mark_is_never_read_past() {
        let check =
            |text: &str, expected: usize| assert_eq!(begun(text.as_bytes(), b"abac"), expected, "{text}");
        check("", 0);
        check("xa", 1);
        check("xaba", 3);
        check("ababa", 3);
        check("abab", 2);
        check("abax", 0);
    }

    #[test]
    fn complaints_are_kept() {
        let fault =
            not_started(b"{\"child-pid\": 1}\r\nbwrap: Can't mkdir /work: No space left on device\r\n");
        assert_eq!(fault.code, "host-exhausted");
        assert!(fault.message.contains("Can't mkdir /work"), "{}", fault.message);
    }
}
