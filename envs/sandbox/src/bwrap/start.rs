//! Starting a sandbox: the request to the spawner, bubblewrap's report on the terminal, the ready mark.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use clawrl_core::{Boundary, BoxFuture, Determinism, Fault, ImageSource, ImageSpec, NetworkPolicy, RunId};

use super::arguments::{self, INSIDE_ID, MountContext};
use super::exposed_folders;
use super::host::HostReport;
use super::host_folders;
use super::image::Image;
use super::kill_queue::KillQueue;
use super::running::{KillHandle, KillOnDrop, RunningSandbox};
use super::staging::StagingDir;
use crate::blocking::blocking;
use crate::cgroup::{self, CgroupRoot};
use crate::identity::IdentityPool;
use crate::live::LiveCount;
use crate::ready::{not_started, until_ready};
use crate::safe_dir::Owner;
use crate::spawner::{Confinement, LaunchKind, LaunchRequest, ResourceLimit, SpawnedProcess, SpawnerClient};
use crate::{SandboxBackend, SandboxSpec, StartedSandbox, Terminal, WorkspaceStart};

/// How long `shutdown` waits for killed sandboxes.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of concurrent starts. More would only queue in the spawner, each holding memory.
const STARTS_AT_ONCE: usize = 32;

/// Settings of the backend.
#[derive(Debug, Clone)]
pub struct BubblewrapConfig {
    /// From [`super::probe_host`].
    pub host: HostReport,
    /// Labels everything created.
    pub run: RunId,
    /// Values held fixed in every sandbox.
    pub determinism: Determinism,
}

/// Sandboxes made with bubblewrap.
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
    /// By outer process id: `shutdown` kills these even if their owners still hold them.
    running: Mutex<HashMap<u32, Weak<KillHandle>>>,
    pub(super) ends: KillQueue<KillHandle>,
    count: Arc<LiveCount>,
    next: AtomicU64,
    /// Images by specification, each checked once.
    images: Mutex<HashMap<ImageSpec, Arc<Image>>>,
    starts: tokio::sync::Semaphore,
}

/// What is ready on the host before a sandbox starts.
#[derive(Debug, Default)]
struct Prepared {
    image: Option<Arc<Image>>,
    /// In the order of the specification's folders; `None` for a writable one.
    staged: Vec<Option<StagingDir>>,
}

impl BubblewrapBackend {
    /// Creates a backend that uses a spawner.
    ///
    /// # Errors
    /// A provider [`Fault`] when this process's control groups cannot be created.
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
            ends: KillQueue::default(),
            count: Arc::default(),
            next: AtomicU64::new(0),
            images: Mutex::default(),
            starts: tokio::sync::Semaphore::new(STARTS_AT_ONCE),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Result of the probe.
    #[must_use]
    pub fn host(&self) -> &HostReport {
        &self.shared.config.host
    }

    async fn start_now(shared: Arc<Shared>, spec: SandboxSpec) -> Result<StartedSandbox, Fault> {
        refuse_what_needs_an_engine(&spec)?;
        let _permit = shared.starts.acquire().await.map_err(|_| ended())?;
        // Counted before the first await: `shutdown` waits for the count.
        let live = shared.count.begin();
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let identity = match &shared.identities {
            Some(pool) => Some(pool.take().ok_or_else(|| {
                Fault::transient(
                    Boundary::Provider,
                    "too-many-sandboxes",
                    "all user ids for sandboxes are in use",
                )
            })?),
            None => None,
        };
        let user = identity.as_ref().map(|identity| identity.id);
        let is_bare = spec.image.is_none() && spec.folders.is_empty() && spec.read_only.is_empty();
        let Prepared { image, staged } = if is_bare {
            Prepared::default()
        } else {
            let (shared, spec) = (Arc::clone(&shared), spec.clone());
            blocking(move || shared.prepare(&spec, number, user)).await??
        };
        let cgroup = shared.cgroups.request(&format!("b{number}"), &spec.limits);
        let folders: Vec<_> =
            staged.iter().map(|staged| staged.as_ref().map(|staged| staged.folder().to_owned())).collect();
        let ground = MountContext { image: image.as_deref(), staged: &folders };
        let (hidden_arguments, data) = arguments::hidden(&spec, &shared.config.determinism, ground)?;
        let confinement = Confinement {
            identity: user.map(|id| (id, id)),
            cgroup_entrances: cgroup.as_ref().map(|cgroup| cgroup.entrances.clone()).unwrap_or_default(),
            limits: resource_limits(&spec, shared.config.host.cgroups.limits_memory()),
            oom_score: Some(500),
            filter: Some(spec.filter()),
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
        let process = shared.spawner.spawn(launch, cgroup.clone(), &[]).await?;
        // From here on the guard ends the sandbox whatever happens.
        let mut held = KillOnDrop::new(Arc::clone(&shared), live, identity, cgroup, &process);
        let SpawnedProcess { pid, master, .. } = process;
        let terminal = master.ok_or_else(|| {
            Fault::permanent(Boundary::Harness, "no-terminal", "the spawner sent no terminal")
        })?;
        let (terminal, report) = until_ready(terminal).await?;
        let first_process = first_process(&report).ok_or_else(|| not_started(report.as_bytes()))?;
        held.pin(pid, first_process).ok_or_else(|| {
            Fault::transient(Boundary::Provider, "sandbox-start", "the sandbox ended as it started")
        })?;
        let owner = user.map(|id| Owner { uid: id, gid: id });
        let user = user.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        let exposed_folders = exposed_folders::of(first_process, &spec, ground, owner)?;
        if let (Some(image), WorkspaceStart::Image | WorkspaceStart::Unseen) = (image, spec.workspace) {
            let (exposed_folders, disk_mib) = (exposed_folders.clone(), spec.limits.disk_mib);
            blocking(move || exposed_folders::begin(&exposed_folders, &image, disk_mib)).await??;
        }
        let sandbox = RunningSandbox::new(held, exposed_folders, staged, (user, INSIDE_ID), spec)?;
        Ok(StartedSandbox { sandbox: Box::new(sandbox), terminal: Terminal::Local(terminal) })
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

    /// Checks the image, and writes the files of the specification's folders. Blocks.
    fn prepare(&self, spec: &SandboxSpec, number: u64, user: Option<u32>) -> Result<Prepared, Fault> {
        let image = spec.image.as_ref().map(|image| self.image(image)).transpose()?;
        if let Some(image) = &image {
            image.must_have("/bin/sh")?;
            image.must_have(&spec.main.program)?;
        }
        let workspace = MountContext { image: image.as_deref(), staged: &[] }.workspace().to_owned();
        for folder in &spec.read_only {
            host_folders::examine(folder, &workspace, user)?;
        }
        let own = std::env::temp_dir().join(cgroup::owner_name(&self.config.run));
        let staged = spec.folders.iter().enumerate().map(|(index, folder)| {
            let files = folder.files.as_ref();
            files.map(|files| StagingDir::write(own.join(format!("b{number}-{index}")), files)).transpose()
        });
        Ok(Prepared { staged: staged.collect::<Result<_, _>>()?, image })
    }

    fn image(&self, spec: &ImageSpec) -> Result<Arc<Image>, Fault> {
        let ImageSource::Rootfs(folder) = &spec.source else {
            return Err(Fault::permanent(Boundary::Harness, "needs-container", "not an unpacked image"));
        };
        // Held while it checks: of many sandboxes that start at once, one checks and the others wait for it.
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = images.get(spec) {
            return Ok(Arc::clone(known));
        }
        let image = Arc::new(Image::examine(folder, spec, self.config.host.root)?);
        images.insert(spec.clone(), Arc::clone(&image));
        Ok(image)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<u32, Weak<KillHandle>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SandboxBackend for BubblewrapBackend {
    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<StartedSandbox, Fault>> {
        let shared = Arc::clone(&self.shared);
        // Runs in its own task: a caller that is dropped midway must not lose a starting process.
        let task = tokio::spawn(Self::start_now(shared, spec));
        Box::pin(async move {
            task.await.unwrap_or_else(|error| {
                Err(Fault::permanent(Boundary::Harness, "panic", format!("starting a sandbox: {error}")))
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
            self.shared.starts.close();
            let running: Vec<_> = self.shared.running().values().filter_map(Weak::upgrade).collect();
            running
                .iter()
                .filter(|handle| handle.is_started())
                .for_each(|handle| self.shared.ends.end(handle));
            let mut left = Vec::new();
            let undead = self.shared.count.all_ended(END_LIMIT).await;
            if undead > 0 {
                left.push(format!("{undead} sandboxes have not ended"));
            }
            for folder in self.shared.cgroups.folders() {
                left.extend(crate::cgroup::remains_of(folder));
            }
            left
        })
    }
}

/// Refuses image names, Dockerfiles, users and bridges, which only a container engine supports.
fn refuse_what_needs_an_engine(spec: &SandboxSpec) -> Result<(), Fault> {
    let what = match (&spec.image, spec.network) {
        (_, NetworkPolicy::Public) => "`network: public`",
        (Some(ImageSpec { source: ImageSource::Rootfs(_), user: None, .. }) | None, _) => return Ok(()),
        (Some(ImageSpec { source: ImageSource::Rootfs(_), .. }), _) => "`image: { user: … }`",
        (Some(ImageSpec { source: ImageSource::Build { .. }, .. }), _) => "`image: { build: … }`",
        (Some(_), _) => "`image: NAME`",
    };
    let message =
        format!("{what} needs `sandbox: container`; bubblewrap takes `image: {{ rootfs: FOLDER }}`");
    Err(Fault::permanent(Boundary::Provider, "needs-container", message))
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

/// Parses `"child-pid": N` in bubblewrap's report.
fn first_process(report: &str) -> Option<u32> {
    let (_, rest) = report.split_once("\"child-pid\"")?;
    let digits: String =
        rest.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
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
}
