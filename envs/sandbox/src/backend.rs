//! The traits of a sandbox, the same for bubblewrap and containers.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{Boundary, BoxFuture, Fault, ImageSpec, LINK_MODE, NetworkPolicy, SandboxLimits};
use serde::{Deserialize, Serialize};

use crate::exec::{self, ExecError};
use crate::network::SandboxNetwork;
use crate::program::Program;
use crate::ready::READY;
use crate::safe_dir::{Owner, SafeDir, SafeReadError, SafeWriteError};
use crate::seccomp::CallFilter;
use crate::shell::{Shell, ShellConfig, ShellError, StepLimits};
use crate::transfer::{self, ExposedFolder, FillRequest, TransferError, TransferRequest};
use crate::tree::{CopyReport, TreeError};

/// What a sandbox is to be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// Unique within the run; part of the cgroup's name and of the process's label.
    pub label: String,
    /// The program on its terminal. The sandbox lives as long as this program.
    pub main: SandboxCommand,
    /// Who says that the sandbox is in place.
    pub announced_by: Announcer,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// Read-only files outside the workspace: absolute path inside, content.
    pub support_files: Vec<(String, String)>,
    /// Resource limits.
    pub limits: SandboxLimits,
    /// Network.
    pub network: NetworkPolicy,
    /// The root file system. Without one: the host's programs, read-only.
    pub image: Option<ImageSpec>,
    /// What the workspace begins with.
    pub workspace: WorkspaceStart,
    /// Folders beside the workspace.
    pub folders: Vec<SandboxFolder>,
    /// Absolute paths of the host's folders that are seen inside at the same paths, where nothing can write to them.
    pub read_only: Vec<PathBuf>,
    /// Whether programs inside may make user namespaces, as browsers do for sandboxes of their own.
    pub inner_sandbox: bool,
}

impl SandboxSpec {
    pub(crate) fn filter(&self) -> CallFilter {
        if self.inner_sandbox { CallFilter::Browsers } else { CallFilter::Programs }
    }
}

/// What a workspace begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WorkspaceStart {
    /// A copy of what the image has in that folder; nothing where there is no image.
    #[default]
    Image,
    /// Nothing, whatever the image has there: somebody copies a workspace into it.
    Empty,
    /// As [`Self::Image`], for programs that only begin there: nobody judges, copies or empties the folder, so that in a
    /// container it may be any, also the root.
    Unseen,
}

/// A folder beside the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxFolder {
    /// Absolute path inside.
    pub path: String,
    /// Its files, which nothing inside can change. `None` stands for a folder that is empty and writable.
    pub files: Option<Vec<PutFile>>,
}

/// Who prints the ready mark and sets the limit that only means this sandbox inside it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Announcer {
    /// A small shell before the main program: right for any program, and one more program to start.
    #[default]
    Wrapper,
    /// A script of `sh` among the support files, by its path. It begins with [`announcement`] and is given the main
    /// program and its arguments.
    Script(String),
}

impl Announcer {
    /// What is run before the main program and its arguments; `sh` is that shell.
    pub(crate) fn before(&self, sh: &str, announcement: &str) -> Vec<String> {
        match self {
            Self::Wrapper => {
                let script = format!("{announcement}; exec \"$@\"");
                [sh, "-c", &script, "sh"].map(str::to_owned).to_vec()
            }
            Self::Script(path) => [sh, path].map(str::to_owned).to_vec(),
        }
    }
}

/// Shell code that says that the sandbox is in place, for [`Announcer::Script`].
#[must_use]
pub fn announcement(limits: &SandboxLimits) -> String {
    // `ulimit -u` is `-p` in dash.
    let limit = limits.pids;
    format!("printf '%s' '{READY}'; ulimit -u {limit} 2>/dev/null || ulimit -p {limit}")
}

/// A program, its arguments and the variables it gets beyond the sandbox's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxCommand {
    /// Program, looked up in the sandbox's PATH.
    pub program: String,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Further variables.
    pub environment: BTreeMap<String, String>,
}

/// A sandbox whose main program runs.
pub struct StartedSandbox {
    /// The sandbox.
    pub sandbox: Box<dyn Sandbox>,
    /// Its terminal. Nothing of the main program's output was read yet.
    pub terminal: Terminal,
}

/// The terminal of a main program. Dropping it hangs it up.
pub enum Terminal {
    /// Its master, not blocking.
    Local(OwnedFd),
    /// On the machine of its sandbox.
    Remote(Box<dyn RemoteTerminal>),
}

/// A terminal on another machine.
pub trait RemoteTerminal: Send + Sync {
    /// As [`Terminal::shell`].
    fn shell<'a>(
        self: Box<Self>,
        config: ShellConfig,
        limits: StepLimits<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Shell>, ShellError>>;
}

/// A file to lay into the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutFile {
    /// Path relative to the workspace.
    pub path: String,
    /// Permission bits; [`LINK_MODE`] for a symbolic link.
    pub mode: u32,
    /// Content; of a symbolic link, where it leads.
    #[serde(with = "crate::bytes")]
    pub content: Arc<[u8]>,
}

impl PutFile {
    /// Lays it into a folder, a file with these permission bits.
    ///
    /// # Errors
    /// As [`SafeDir::write_file`] and [`SafeDir::write_link`].
    pub(crate) fn lay(
        &self,
        folder: &SafeDir,
        mode: u32,
        owner: Option<Owner>,
    ) -> Result<(), SafeWriteError> {
        if self.mode == LINK_MODE {
            folder.write_link(&self.path, &self.content, owner)
        } else {
            folder.write_file(&self.path, &self.content, mode, owner)
        }
    }
}

/// A program to start beside the main one, on pipes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramSpec {
    /// The program.
    pub command: SandboxCommand,
    /// Who runs it, in a container. `None`: the user of the sandbox.
    pub user: Option<String>,
}

/// A program to run beside the main one to its end, with pipes instead of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    /// The program.
    pub command: SandboxCommand,
    /// Its standard input.
    pub input: Vec<u8>,
    /// Most bytes kept of output and of error, each; the rest is read and dropped.
    pub output_cap: usize,
    /// It is killed by then.
    pub deadline: Instant,
    /// Who runs it, in a container. `None`: the user of the sandbox.
    pub user: Option<String>,
}

/// What came of an [`ExecSpec`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecOutput {
    /// Exit code; 128 + n for signal n; `None` when the deadline killed it.
    pub code: Option<i32>,
    /// Standard output, up to the cap.
    #[serde(with = "crate::bytes")]
    pub stdout: Vec<u8>,
    /// Standard error, up to the cap.
    #[serde(with = "crate::bytes")]
    pub stderr: Vec<u8>,
    /// Wall time.
    pub duration: Duration,
}

/// A process inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// Process id on the host.
    pub host_pid: u32,
    /// Parent's process id on the host.
    pub host_parent: u32,
    /// Start time in clock ticks since boot.
    pub start_ticks: u64,
    /// Arguments joined by spaces.
    pub command_line: String,
}

/// Starts sandboxes. Shared, long-lived.
///
/// `start` may be called concurrently; dropping its future ends what it began. `shutdown` is called once.
pub trait SandboxBackend: Send + Sync {
    /// Starts a sandbox and waits until its main program is about to run.
    ///
    /// # Errors
    /// A provider [`Fault`] that says what is missing and what to do.
    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<StartedSandbox, Fault>>;

    /// Shell code that says that a sandbox of this kind is in place, for [`Announcer::Script`].
    fn announcement(&self, limits: &SandboxLimits) -> String {
        announcement(limits)
    }

    /// Sandboxes that exist now: started and not yet fully ended.
    fn live(&self) -> u32;

    /// Most that ever existed at once.
    fn peak(&self) -> u32;

    /// Ends everything and waits for it; returns what could not be removed.
    fn shutdown(&self) -> BoxFuture<'_, Vec<String>>;
}

/// A sandbox. Dropping it ends everything in it (asynchronously); `kill` waits for that.
pub trait Sandbox: Send + Sync {
    /// Lays files into the workspace, owned by the agent.
    ///
    /// # Errors
    /// An env [`Fault`]: no room, or the agent put something in the way.
    fn put(&self, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>>;

    /// The workspace: the folder that its path names inside now. It stays readable after `kill`, until the last clone is
    /// dropped. Call after [`Sandbox::halt`], when nobody can put another folder in its place.
    ///
    /// # Errors
    /// The inner one when the agent left no folder there; an env [`Fault`] when the machine failed.
    fn workspace(&self) -> BoxFuture<'_, Result<Result<Arc<SafeDir>, SafeReadError>, Fault>>;

    /// Whether [`Sandbox::workspace`] would find one, without bringing it here.
    ///
    /// # Errors
    /// As there.
    fn has_workspace(&self) -> BoxFuture<'_, Result<Result<(), SafeReadError>, Fault>> {
        Box::pin(async move { Ok(self.workspace().await?.map(drop)) })
    }

    /// Starts a program beside the main one, with pipes instead of a terminal. That it could not be run is told by its
    /// end.
    ///
    /// # Errors
    /// [`ExecError`] when not even its launcher could be started.
    fn open(&self, spec: ProgramSpec) -> BoxFuture<'_, Result<Program, ExecError>>;

    /// Runs a program beside the main one and waits for it. Dropping the future ends the program.
    ///
    /// # Errors
    /// [`ExecError`] when it was not run, or nobody knows how it ended; a failing program is no error.
    fn exec(&self, spec: ExecSpec) -> BoxFuture<'_, Result<ExecOutput, ExecError>> {
        Box::pin(async move {
            let started = Instant::now();
            let program = ProgramSpec { command: spec.command.clone(), user: spec.user.clone() };
            exec::to_end(self.open(program).await?, &spec, started).await
        })
    }

    /// Its network, for sockets of this process.
    ///
    /// # Errors
    /// A provider [`Fault`]: the sandbox is gone, or of a kind that has none to offer.
    fn network(&self) -> BoxFuture<'_, Result<SandboxNetwork, Fault>> {
        let message = "this kind of sandbox has no network that the harness could listen in";
        Box::pin(async move { Err(Fault::permanent(Boundary::Provider, "no-network", message)) })
    }

    /// The processes inside, without the sandbox's own.
    fn processes(&self) -> BoxFuture<'_, Vec<ProcessFacts>>;

    /// Kills processes of the sandbox by their facts; one that ended meanwhile is passed over.
    fn kill_processes<'a>(&'a self, victims: &'a [ProcessFacts]) -> BoxFuture<'a, ()>;

    /// User id on the host and inside, of everything the agent owns.
    fn identity(&self) -> (u32, u32);

    /// Kills every process inside, daemons included, and returns when all are gone. Idempotent.
    ///
    /// # Errors
    /// A harness [`Fault`] when something could not be ended or removed.
    fn kill(&self) -> BoxFuture<'_, Result<(), Fault>>;

    /// Whether its main program, which has ended, was killed because the sandbox's memory, which files in memory use, too, was used
    /// up. False where nobody knows.
    fn ran_out_of_memory(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    /// Why it ended, where neither [`Sandbox::kill`] nor anything inside can have done it.
    fn lost(&self) -> BoxFuture<'_, Option<Fault>> {
        Box::pin(async { None })
    }

    /// Kills every process of the agent. What was written stays readable by [`Sandbox::workspace`],
    /// [`Sandbox::read`] and [`Sandbox::copy_out`]. Where [`Sandbox::verifies_in_place`], programs can be run again.
    ///
    /// # Errors
    /// A harness [`Fault`] when something could not be ended.
    fn halt(&self) -> BoxFuture<'_, Result<(), Fault>> {
        self.kill()
    }

    /// Whether a verifier runs in this sandbox, after [`Sandbox::halt`], instead of in a fresh one on a copy of the
    /// workspace.
    fn verifies_in_place(&self) -> bool {
        false
    }

    /// Replaces whatever is at an absolute path by a folder with these files, which belongs to the sandbox's root
    /// and is closed to other writers if it has any. Called only where [`Sandbox::verifies_in_place`].
    ///
    /// # Errors
    /// An env [`Fault`] when it cannot be made.
    fn lay(&self, folder: String, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        drop(files);
        let message = format!("this kind of sandbox cannot be given the folder {folder} once it runs");
        Box::pin(async { Err(Fault::permanent(Boundary::Harness, "not-in-place", message)) })
    }

    /// The folders inside that can be reached from outside, before and after [`Sandbox::kill`]; the workspace first, if it is
    /// there.
    fn exposed_folders(&self) -> BoxFuture<'_, Vec<ExposedFolder>> {
        Box::pin(async { Vec::new() })
    }

    /// A regular file by its absolute path, no link followed; `None` when nothing is there. Call after
    /// [`Sandbox::halt`].
    ///
    /// # Errors
    /// An env [`Fault`]: something else than a file of at most `cap` bytes is there, or it is in no place that is
    /// kept.
    fn read(&self, path: String, cap: u64) -> BoxFuture<'_, Result<Option<Vec<u8>>, Fault>> {
        Box::pin(async move { transfer::read(self.exposed_folders().await, path, cap).await })
    }

    /// Copies a tree into the workspace, or into another folder that this sandbox keeps; all of it is the agent's then.
    ///
    /// # Errors
    /// The inner one when the tree cannot be copied; a [`Fault`] when there is no such folder.
    fn fill(&self, filling: FillRequest) -> BoxFuture<'_, Result<Result<CopyReport, TreeError>, Fault>> {
        Box::pin(async move {
            let mut exposed_folders = self.exposed_folders().await;
            if exposed_folders.is_empty() && filling.folder.is_none() {
                let folder = self.workspace().await?.map_err(|error| {
                    Fault::transient(Boundary::Env, "workspace", format!("of a fresh sandbox: {error}"))
                })?;
                exposed_folders.push(ExposedFolder {
                    path: "/".to_owned(),
                    folder,
                    owner: None,
                    is_bounded: false,
                });
            }
            transfer::fill(exposed_folders, filling).await
        })
    }

    /// Copies a file or folder out; the answer says what the copy lacks. Call after [`Sandbox::halt`].
    ///
    /// # Errors
    /// [`TransferError`]; nothing at the source is [`SafeReadError::Missing`](crate::SafeReadError).
    fn copy_out(&self, request: TransferRequest) -> BoxFuture<'_, Result<CopyReport, TransferError>> {
        Box::pin(async move { transfer::out(self.exposed_folders().await, request).await })
    }

    /// Copies a file or folder in; what is there already is replaced, folders are filled.
    ///
    /// # Errors
    /// [`TransferError`]
    fn copy_in(&self, request: TransferRequest) -> BoxFuture<'_, Result<CopyReport, TransferError>> {
        Box::pin(async move { transfer::into(self.exposed_folders().await, request).await })
    }
}
