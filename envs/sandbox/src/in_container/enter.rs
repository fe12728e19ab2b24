//! Entering a container: its files, a terminal, and the main program.

use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clawrl_core::{Boundary, Determinism, Fault};

use super::root::{self, ContainerRoot};
use super::sandbox::{ContainerSandbox, EnteredContainer};
use super::user::ContainerUser;
use super::{first_process, terminal};
use crate::blocking::blocking;
use crate::live::Live;
use crate::procs::{self, ProcessStat};
use crate::ready::{READY, until_ready};
use crate::safe_dir::KeepAlive;
use crate::spawner::{LaunchKind, SpawnerClient};
use crate::{Owner, SandboxSpec, StartedSandbox, Terminal, WorkspaceStart};

/// How long the first process may take to exec its final program, and how often it is checked meanwhile.
const SETTLE_LIMIT: Duration = Duration::from_secs(30);
const SETTLE_SLICE: Duration = Duration::from_millis(2);

/// Shell code that prints the ready mark. It sets no process limit: that would count the processes of all containers
/// with this user id. The control group limits the container itself.
#[must_use]
pub fn announce() -> String {
    format!("printf '%s' '{READY}'")
}

/// A running container, as reported by its container engine.
pub struct RunningContainer {
    /// Host process id of its first process.
    pub pid: u32,
    /// A variable that only this container's first process was started with. The process must ignore SIGCHLD, so that
    /// the kernel reaps its orphans.
    pub mark: (String, String),
    /// `USER[:GROUP]` of the agent, names or numbers; empty for root.
    pub user: String,
    /// Absolute path of the workspace.
    pub workdir: String,
    /// Absolute paths of folders that are created if missing, writable by all.
    pub commons: Vec<String>,
    /// Environment variables of the image.
    pub environment: Vec<(String, String)>,
    /// Capabilities of root inside, one bit each. The first process must hold one more, so that nothing inside can
    /// trace it.
    pub capabilities: u64,
    /// Dropped when the container's files can no longer be read.
    pub keep_alive: KeepAlive,
    /// The container's place in the backend's count, given back when it has ended.
    pub live: Live,
}

/// Starts the main program of `spec` in a container, on its own terminal.
///
/// # Errors
/// A provider [`Fault`]: the container does not match its description, or nothing can be started in it. The caller then
/// has to end the container.
pub async fn enter(
    spawner: SpawnerClient,
    determinism: &Determinism,
    spec: &SandboxSpec,
    enclosure: RunningContainer,
) -> Result<StartedSandbox, Fault> {
    let RunningContainer { pid, mark, user, workdir, commons, environment, capabilities, keep_alive, live } =
        enclosure;
    let gone = || Fault::transient(Boundary::Provider, "container-gone", "the container ended as it started");
    let handle = procs::open(pid).ok_or_else(gone)?;
    let stat = ProcessStat::read(pid).filter(|stat| !stat.zombie).ok_or_else(gone)?;
    // The engine has started it, but it may not have executed its final program yet.
    let until = Instant::now() + SETTLE_LIMIT;
    while !(first_process::carries(pid, &mark.0, &mark.1) && first_process::reaps(pid)) {
        if first_process::is_ending(pid) {
            return Err(gone());
        }
        if Instant::now() >= until {
            let message = "the container engine's processes are not visible here: run `clawrl` on the \
                engine's machine, in a process namespace that contains them";
            return Err(Fault::permanent(Boundary::Provider, "engine-elsewhere", message));
        }
        // timer: the kernel has no event for an exec in another process.
        tokio::time::sleep(SETTLE_SLICE).await;
    }
    let (folders, support, size) = (spec.folders.clone(), spec.support_files.clone(), spec.size);
    let (folder, emptied) = (workdir.clone(), spec.workspace == WorkspaceStart::Empty);
    let prepared = blocking(move || {
        let transient = |error: String| Fault::transient(Boundary::Provider, "container-start", error);
        let root = ContainerRoot::open(pid, keep_alive).map_err(|error| transient(error.to_string()))?;
        let user = ContainerUser::find(&root, &user)?;
        let host = |inside, map| {
            first_process::outside(pid, map, inside).ok_or_else(|| {
                let message =
                    format!("user or group {inside} does not exist in the container's user namespace");
                Fault::permanent(Boundary::Provider, "no-such-user", message)
            })
        };
        let owner = Owner { uid: host(user.uid, "uid_map")?, gid: host(user.gid, "gid_map")? };
        let host_root = Owner { uid: host(0, "uid_map")?, gid: host(0, "gid_map")? };
        let failed = |what: &str, error: &dyn std::fmt::Display| transient(format!("{what}: {error}"));
        let workspace = root.workspace(&folder).map_err(|error| failed(&folder, &error))?;
        if emptied {
            root::empty(&workspace).map_err(|error| failed(&folder, &error))?;
        }
        for folder in &folders {
            let laid = match &folder.files {
                Some(files) => root.replace_folder(&folder.path, files, host_root),
                None => root.fresh_folder(&folder.path, 0o777, owner).map(drop),
            };
            laid.map_err(|error| failed(&folder.path, &error))?;
        }
        for path in &commons {
            root.dir()
                .make_dirs(path.trim_start_matches('/'), 0o777, Some(host_root))
                .map_err(|error| failed(path, &error))?;
        }
        for (path, content) in &support {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let folder = root
                .folder(if folder.is_empty() { "/" } else { folder })
                .map_err(|error| failed(path, &error))?;
            folder
                .write_file(name, content.as_bytes(), 0o444, Some(host_root))
                .map_err(|error| failed(path, &error))?;
        }
        let (master, terminal) =
            terminal::open(&root, size, owner.uid).map_err(|error| transient(error.to_string()))?;
        // If memory runs out inside, the first process must not be the victim. If the machine forbids this setting, the
        // agent's programs are still preferred: see `oom_score` of a launch.
        let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "-1000");
        let entrances = first_process::entrances(pid).map_err(|error| transient(error.to_string()))?;
        Ok::<_, Fault>((root, user, owner, host_root, master, terminal, entrances))
    })
    .await??;
    let (root, user, owner, host_root, master, terminal, entrances) = prepared;
    let inside = EnteredContainer {
        pid,
        start_ticks: stat.start_ticks,
        handle,
        killed: AtomicBool::new(false),
        user,
        owner,
        host_root,
        workdir,
        environment,
        capabilities,
        label: first_process::label(pid),
        entrances,
        determinism: determinism.clone(),
        main: spec.main.clone(),
    };
    let mut words = spec.announced_by.before("/bin/sh", &format!("printf '%s' '{READY}'"));
    words.extend(std::iter::once(&spec.main.program).chain(&spec.main.arguments).cloned());
    let launch = inside.launch(LaunchKind::OwnTerminal, words, &spec.main, &inside.user);
    let sandbox = ContainerSandbox::new(spawner.clone(), live, inside, root)?;
    let ends = [terminal.as_fd(), terminal.as_fd(), terminal.as_fd()];
    let process = spawner.spawn(launch, None, &ends).await?;
    drop(terminal);
    sandbox.has_main(process.exit);
    let (terminal, _) = until_ready(master).await?;
    Ok(StartedSandbox { sandbox: Box::new(sandbox), terminal: Terminal::Local(terminal) })
}
