//! An entered container: its files, programs, processes and end.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clawrl_core::{Boundary, BoxFuture, Determinism, Fault};
use rustix::process::{Signal, pidfd_send_signal};
use tokio::io::Interest;
use tokio::sync::watch;

use super::first_process;
use super::root::ContainerRoot;
use super::user::ContainerUser;
use crate::blocking::{blocking, put_files};
use crate::exec_error::ExecError;
use crate::freezer::Freezer;
use crate::live::Live;
use crate::procs;
use crate::program::{self, Program, ProgramContext};
use crate::readiness::watched_for;
use crate::safe_dir::{Owner, SafeDir, SafeReadError};
use crate::seccomp::CallFilter;
use crate::spawner::{
    Confinement, ContainerJoin, ExitWatch, JoinTarget, LaunchKind, LaunchRequest, ResourceLimit,
    SpawnerClient,
};
use crate::{ExposedFolder, ProcessFacts, ProgramSpec, PutFile, Sandbox, SandboxCommand};

/// A killed container that has not ended by then is a harness fault: the kernel never takes this long.
const KILL_LIMIT: Duration = Duration::from_secs(30);

/// A container that has not frozen by then is killed while it runs.
const FREEZE_LIMIT: Duration = Duration::from_secs(1);

/// The limit that an engine would set: programs of images are ordinary programs.
const OPEN_FILES: u64 = 65_536;

#[derive(Debug)]
pub(super) struct EnteredContainer {
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
    pub(super) handle: OwnedFd,
    /// Set when we end it, so that its end is not a fault.
    pub(super) killed: AtomicBool,
    pub(super) user: ContainerUser,
    /// Ids of the agent on the host.
    pub(super) owner: Owner,
    /// Ids on the host of root inside.
    pub(super) host_root: Owner,
    pub(super) workdir: String,
    pub(super) environment: Vec<(String, String)>,
    pub(super) capabilities: u64,
    pub(super) label: Option<String>,
    pub(super) entrances: Vec<PathBuf>,
    pub(super) determinism: Determinism,
    pub(super) main: SandboxCommand,
}

impl EnteredContainer {
    /// The launch request for a program that a user runs.
    pub(super) fn launch(
        &self,
        kind: LaunchKind,
        words: Vec<String>,
        command: &SandboxCommand,
        user: &ContainerUser,
    ) -> LaunchRequest {
        let mut words = words.into_iter();
        LaunchRequest {
            kind,
            confinement: Confinement {
                identity: None,
                // The program enters the control groups itself; the launcher stays outside.
                cgroup_entrances: Vec::new(),
                limits: vec![(ResourceLimit::Core, 0), (ResourceLimit::OpenFiles, OPEN_FILES)],
                oom_score: Some(500),
                filter: Some(CallFilter::Programs),
            },
            join: Some(JoinTarget {
                pid: self.pid,
                start_ticks: self.start_ticks,
                inside_identity: (user.uid, user.gid),
                container: Some(ContainerJoin {
                    groups: user.groups.clone(),
                    capabilities: self.capabilities,
                    entrances: self.entrances.clone(),
                    label: self.label.clone(),
                }),
            }),
            parent: 0,
            label: String::new(),
            program: words.next().unwrap_or_default().into(),
            hidden_arguments: Vec::new(),
            data: Vec::new(),
            arguments: words.collect(),
            environment: self.variables(command, user),
            working_folder: Some(self.workdir.clone().into()),
        }
    }

    /// Environment: the image's variables, overridden by the plan's fixed ones, by the user's, and by the command's
    /// own.
    fn variables(&self, command: &SandboxCommand, user: &ContainerUser) -> Vec<(String, String)> {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let mut variables = vec![("PATH".to_owned(), path.to_owned())];
        variables.extend(self.environment.iter().cloned());
        let settled = [
            ("TERM", "xterm-256color".to_owned()),
            ("HOME", user.home.clone()),
            ("USER", user.name.clone()),
            ("LOGNAME", user.name.clone()),
            ("SHELL", "/bin/bash".to_owned()),
        ];
        variables.extend(settled.map(|(name, value)| (name.to_owned(), value)));
        variables.extend(self.determinism.variables());
        variables.extend(command.environment.clone());
        variables
    }

    fn kill_all(&self) {
        self.killed.store(true, Ordering::Release);
        // ESRCH: it has already ended.
        let _ = pidfd_send_signal(&self.handle, Signal::KILL);
    }

    /// Processes of the container's pid namespace, without the first one.
    fn processes(&self) -> Vec<ProcessFacts> {
        let namespace = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let Some(own) = namespace(self.pid) else { return Vec::new() };
        procs::all()
            .into_iter()
            .filter(|&pid| pid != self.pid && namespace(pid).as_ref() == Some(&own))
            .filter_map(procs::facts)
            .collect()
    }

    /// Kills all processes but the first; false when some are left at the limit. Blocks.
    fn kill_all_but_first(&self) -> bool {
        let deadline = Instant::now() + KILL_LIMIT;
        loop {
            // While frozen, no process can fork between being listed and being killed; the signals take effect on thaw.
            let freezer = Freezer::among(&self.entrances);
            if let Some(freezer) = &freezer {
                freezer.freeze(FREEZE_LIMIT);
            }
            let seen = self.processes();
            procs::kill_each(seen.iter());
            if let Some(freezer) = &freezer {
                freezer.thaw();
            }
            if seen.is_empty() {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::yield_now();
        }
    }
}

impl ProgramContext for EnteredContainer {
    fn inside(&self) -> Vec<ProcessFacts> {
        self.processes()
    }

    fn kill_all(&self) {
        Self::kill_all(self);
    }
}

/// The [`Sandbox`] of a container. Dropping it kills everything inside.
#[derive(Debug)]
pub struct ContainerSandbox {
    spawner: SpawnerClient,
    inside: Arc<EnteredContainer>,
    root: ContainerRoot,
    ended: watch::Receiver<bool>,
    /// The main program's launcher, which runs outside.
    main: Mutex<Option<ExitWatch>>,
}

impl ContainerSandbox {
    pub(super) fn new(
        spawner: SpawnerClient,
        live: Live,
        inside: EnteredContainer,
        root: ContainerRoot,
    ) -> Result<Self, Fault> {
        let failed = |error: std::io::Error| {
            Fault::transient(Boundary::Provider, "container-start", error.to_string())
        };
        // The watched descriptor is a second one of the same process, so that the task owns it alone.
        let watched =
            inside.handle.try_clone().and_then(|fd| watched_for(fd, Interest::READABLE)).map_err(failed)?;
        let (tell_ended, ended) = watch::channel(false);
        tokio::spawn(async move {
            // Readable when it has ended. The kernel lets it end after all others in its namespace.
            let _ = watched.readable().await.map(drop);
            drop(live);
            let _ = tell_ended.send(true);
        });
        Ok(Self { spawner, inside: Arc::new(inside), root, ended, main: Mutex::new(None) })
    }

    pub(super) fn has_main(&self, exit: ExitWatch) {
        *self.main.lock().unwrap_or_else(PoisonError::into_inner) = Some(exit);
    }

    fn undead(&self, what: &str) -> Fault {
        let message = format!(
            "{what} of container process {} have not ended {KILL_LIMIT:?} after they were killed",
            self.inside.pid
        );
        Fault::permanent(Boundary::Harness, "sandbox-undead", message)
    }
}

impl Drop for ContainerSandbox {
    fn drop(&mut self) {
        self.inside.kill_all();
    }
}

impl Sandbox for ContainerSandbox {
    fn put(&self, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        if files.is_empty() {
            return Box::pin(async { Ok(()) });
        }
        Box::pin(async move {
            let workspace = self.workspace().await?.map_err(|error| {
                Fault::permanent(Boundary::Env, "put-file", format!("the workspace: {error}"))
            })?;
            put_files(workspace, files, Some(self.inside.owner)).await
        })
    }

    /// Looked up each time: the agent owns the whole container and may have put another folder at the path.
    fn workspace(&self) -> BoxFuture<'_, Result<Result<Arc<SafeDir>, SafeReadError>, Fault>> {
        let (root, path) = (self.root.clone(), self.inside.workdir.clone());
        Box::pin(async move {
            match blocking(move || root.workspace(&path)).await? {
                Err(error) if error.is_infrastructure() => {
                    let message = format!("the workspace: {error}");
                    Err(Fault::transient(Boundary::Env, "workspace-unreadable", message))
                }
                found => Ok(found.map(Arc::new)),
            }
        })
    }

    fn open(&self, spec: ProgramSpec) -> BoxFuture<'_, Result<Program, ExecError>> {
        Box::pin(async move {
            if *self.ended.borrow() {
                let message = "the container has ended";
                return Err(Fault::transient(Boundary::Env, "sandbox-gone", message).into());
            }
            let user = match spec.user.clone() {
                None => self.inside.user.clone(),
                Some(wanted) => {
                    let root = self.root.clone();
                    blocking(move || ContainerUser::find(&root, &wanted)).await??
                }
            };
            let words =
                std::iter::once(&spec.command.program).chain(&spec.command.arguments).cloned().collect();
            let mut command = self.inside.main.clone();
            command.environment.extend(spec.command.environment.clone());
            let launch = self.inside.launch(LaunchKind::Descriptors, words, &command, &user);
            let inside = Arc::downgrade(&self.inside);
            program::start(self.spawner.clone(), launch, inside).await
        })
    }

    fn processes(&self) -> BoxFuture<'_, Vec<ProcessFacts>> {
        let inside = Arc::clone(&self.inside);
        Box::pin(async move { blocking(move || inside.processes()).await.unwrap_or_default() })
    }

    fn kill_processes<'a>(&'a self, victims: &'a [ProcessFacts]) -> BoxFuture<'a, ()> {
        Box::pin(async move { procs::kill_each(victims.iter()) })
    }

    fn identity(&self) -> (u32, u32) {
        (self.inside.owner.uid, self.inside.user.uid)
    }

    fn kill(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            self.inside.kill_all();
            let mut ended = self.ended.clone();
            let mut main = self.main.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let all = async {
                let _ = ended.wait_for(|&ended| ended).await;
                if let Some(main) = &mut main {
                    main.ended().await;
                }
            };
            tokio::time::timeout(KILL_LIMIT, all).await.map_err(|_| self.undead("processes"))
        })
    }

    fn halt(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(async move {
            let inside = Arc::clone(&self.inside);
            if blocking(move || inside.kill_all_but_first()).await? {
                Ok(())
            } else {
                Err(self.undead("programs"))
            }
        })
    }

    fn verifies_in_place(&self) -> bool {
        true
    }

    fn replace_folder(&self, folder: String, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        let (root, owner) = (self.root.clone(), self.inside.host_root);
        Box::pin(async move {
            let laid = blocking(move || {
                root.replace_folder(&folder, &files, owner).map_err(|error| format!("{folder}: {error}"))
            });
            laid.await?.map_err(|error| Fault::permanent(Boundary::Env, "put-file", error))
        })
    }

    /// Without a workspace, its path is looked up from the root, where it is not found.
    fn exposed_folders(&self) -> BoxFuture<'_, Vec<ExposedFolder>> {
        Box::pin(async move {
            let exposed = |path: &str, folder, owner| ExposedFolder {
                path: path.to_owned(),
                folder,
                owner: Some(owner),
                is_bounded: false,
            };
            let workspace = self.workspace().await.ok().and_then(Result::ok);
            let workspace = workspace.map(|folder| exposed(&self.inside.workdir, folder, self.inside.owner));
            let root = exposed("/", Arc::new(self.root.dir().clone()), self.inside.host_root);
            workspace.into_iter().chain([root]).collect()
        })
    }

    fn lost(&self) -> BoxFuture<'_, Option<Fault>> {
        Box::pin(async move {
            let ended = *self.ended.borrow() || first_process::is_ending(self.inside.pid);
            (ended && !self.inside.killed.load(Ordering::Acquire)).then(|| {
                let message = "the container ended, and nothing inside can have ended it: the container \
                    engine was restarted, or another process stopped the container";
                Fault::transient(Boundary::Env, "container-lost", message)
            })
        })
    }
}
