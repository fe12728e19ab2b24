//! Starting a sandbox: request to the spawner, bubblewrap's report on the terminal, the ready mark.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use clawrl_core::{Boundary, BoxFuture, Determinism, Fault, RunId};
use tokio::sync::Notify;

use super::arguments::{self, INSIDE_ID, READY, WORKSPACE};
use super::host::HostReport;
use super::running::{Held, RunningSandbox};
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
    pub(super) live: AtomicU32,
    pub(super) peak: AtomicU32,
    pub(super) all_ended: Notify,
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
        let mut held = Held::new(Arc::clone(&shared), identity, cgroup, &process);
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
        Ok(StartedSandbox {
            sandbox: Box::new(sandbox),
            terminal: ready.terminal,
            early_output: ready.early_output,
        })
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
            loop {
                let ended = self.shared.all_ended.notified();
                if self.live() == 0 {
                    break;
                }
                if tokio::time::timeout(START_LIMIT, ended).await.is_err() {
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
    /// What the main program had already printed when the mark was read.
    early_output: Vec<u8>,
}

/// Reads the terminal until the ready mark.
async fn until_ready(terminal: OwnedFd) -> Result<Ready, Fault> {
    let failed = |error: io::Error| Fault::transient(Boundary::Provider, "terminal", error.to_string());
    let terminal = watched(terminal).map_err(failed)?;
    let mut preamble = Vec::new();
    let mut chunk = [0u8; 512];
    loop {
        let mut ready = terminal.readable().await.map_err(failed)?;
        let read = ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref().as_fd(), &mut chunk)?));
        match read {
            Ok(Ok(read)) if read > 0 => preamble.extend_from_slice(&chunk[..read]),
            // A terminal whose last process is gone gives EIO, or the end of the file.
            Ok(Ok(_)) => return Err(not_started(&preamble)),
            Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Err(not_started(&preamble)),
            Ok(Err(error)) => return Err(failed(error)),
            Err(_would_block) => continue,
        }
        if let Some(at) = find(&preamble, READY.as_bytes()) {
            let report = String::from_utf8_lossy(&preamble[..at]);
            let first_process = first_process(&report).ok_or_else(|| not_started(&preamble))?;
            let early_output = preamble.split_off(at + READY.len());
            return Ok(Ready { terminal: terminal.into_inner(), first_process, early_output });
        }
        if preamble.len() > MAX_PREAMBLE_BYTES {
            return Err(not_started(&preamble));
        }
    }
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|window| window == pattern)
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
    fn complaints_are_kept() {
        let fault =
            not_started(b"{\"child-pid\": 1}\r\nbwrap: Can't mkdir /work: No space left on device\r\n");
        assert_eq!(fault.code, "host-exhausted");
        assert!(fault.message.contains("Can't mkdir /work"), "{}", fault.message);
    }
}
