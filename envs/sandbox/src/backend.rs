//! The traits of a sandbox, implemented by bubblewrap and by containers.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{Boundary, BoxFuture, Fault, SandboxLimits};

use crate::exec;
use crate::exec_error::ExecError;
use crate::network::SandboxNetwork;
use crate::program::Program;
use crate::safe_dir::{SafeDir, SafeReadError};
use crate::shell::{Shell, ShellConfig, ShellError, StepLimits};
use crate::spec::{ExecOutput, ExecSpec, ProcessFacts, ProgramSpec, PutFile, SandboxSpec, announcement};
use crate::transfer::{self, ExposedFolder, FillRequest, TransferError, TransferRequest};
use crate::tree::{CopyReport, TreeError};

/// A sandbox whose main program is running.
pub struct StartedSandbox {
    /// The sandbox.
    pub sandbox: Box<dyn Sandbox>,
    /// The main program's terminal. None of its output has been read yet.
    pub terminal: Terminal,
}

/// The terminal of a main program. Dropping it hangs the terminal up.
pub enum Terminal {
    /// The terminal's master on this machine, non-blocking.
    Local(OwnedFd),
    /// A terminal on the machine of its sandbox.
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

/// Starts sandboxes. Shared and long-lived.
///
/// `start` may be called concurrently; dropping its future ends the sandbox it was starting. `shutdown` is called once.
pub trait SandboxBackend: Send + Sync {
    /// Starts a sandbox and waits until its main program is about to run.
    ///
    /// # Errors
    /// A provider [`Fault`] that names what is missing and how to fix it.
    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<StartedSandbox, Fault>>;

    /// Shell code that prints the ready mark of this backend, for [`Announcer::Script`].
    fn announcement(&self, limits: &SandboxLimits) -> String {
        announcement(limits)
    }

    /// Number of sandboxes that have started and not fully ended.
    fn live(&self) -> u32;

    /// Highest number of sandboxes that existed at the same time.
    fn peak(&self) -> u32;

    /// Ends all sandboxes and waits for them; returns a message for everything that could not be removed.
    fn shutdown(&self) -> BoxFuture<'_, Vec<String>>;
}

/// A sandbox. Dropping it ends everything in it (asynchronously); `kill` waits for that.
pub trait Sandbox: Send + Sync {
    /// Writes files into the workspace, owned by the agent.
    ///
    /// # Errors
    /// An env [`Fault`]: the disk is full, or the agent put something in the way.
    fn put(&self, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>>;

    /// The folder that the workspace's path refers to now. It stays readable after `kill`, until the last clone is
    /// dropped. Call it after [`Sandbox::halt`], when the agent can no longer replace the folder.
    ///
    /// # Errors
    /// The inner error when the agent left no folder there; an env [`Fault`] when the machine failed.
    fn workspace(&self) -> BoxFuture<'_, Result<Result<Arc<SafeDir>, SafeReadError>, Fault>>;

    /// Checks whether [`Sandbox::workspace`] would find a folder, without transferring it.
    ///
    /// # Errors
    /// As [`Sandbox::workspace`].
    fn has_workspace(&self) -> BoxFuture<'_, Result<Result<(), SafeReadError>, Fault>> {
        Box::pin(async move { Ok(self.workspace().await?.map(drop)) })
    }

    /// Starts a program beside the main program, on pipes. If the program cannot be run, [`Program::ended`] reports it.
    ///
    /// # Errors
    /// [`ExecError`] when not even the launcher could be started.
    fn open(&self, spec: ProgramSpec) -> BoxFuture<'_, Result<Program, ExecError>>;

    /// Runs a program beside the main program and waits for it. Dropping the future ends the program.
    ///
    /// # Errors
    /// [`ExecError`] when the program was not run or its end is unknown. A program that fails is not an error.
    fn exec(&self, spec: ExecSpec) -> BoxFuture<'_, Result<ExecOutput, ExecError>> {
        Box::pin(async move {
            let started = Instant::now();
            let program = ProgramSpec { command: spec.command.clone(), user: spec.user.clone() };
            exec::to_end(self.open(program).await?, &spec, started).await
        })
    }

    /// The sandbox's network, for sockets of this process.
    ///
    /// # Errors
    /// A provider [`Fault`]: the sandbox has ended, or its backend offers no network.
    fn network(&self) -> BoxFuture<'_, Result<SandboxNetwork, Fault>> {
        let message = "this kind of sandbox has no network of its own";
        Box::pin(async move { Err(Fault::permanent(Boundary::Provider, "no-network", message)) })
    }

    /// The processes inside, without those that belong to the sandbox itself.
    fn processes(&self) -> BoxFuture<'_, Vec<ProcessFacts>>;

    /// Kills the given processes; one that has ended meanwhile is skipped.
    fn kill_processes<'a>(&'a self, victims: &'a [ProcessFacts]) -> BoxFuture<'a, ()>;

    /// User id of the agent, on the host and inside. It owns everything the agent owns.
    fn identity(&self) -> (u32, u32);

    /// Kills every process inside, daemons included, and returns when all have ended. Idempotent.
    ///
    /// # Errors
    /// A harness [`Fault`] when something could not be ended or removed.
    fn kill(&self) -> BoxFuture<'_, Result<(), Fault>>;

    /// Whether the kernel killed the main program, which has ended, because the sandbox was out of memory. Files in
    /// memory count. False when unknown.
    fn ran_out_of_memory(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { false })
    }

    /// Why the sandbox ended, if neither [`Sandbox::kill`] nor anything inside can have ended it.
    fn lost(&self) -> BoxFuture<'_, Option<Fault>> {
        Box::pin(async { None })
    }

    /// Kills every process of the agent. The agent's files stay readable through [`Sandbox::workspace`],
    /// [`Sandbox::read`] and [`Sandbox::copy_out`]. If [`Sandbox::verifies_in_place`], programs can be run again.
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

    /// Replaces whatever is at an absolute path with a folder that holds these files. The folder belongs to the
    /// sandbox's root; if it has files, only root can write to it. Called only if [`Sandbox::verifies_in_place`].
    ///
    /// # Errors
    /// An env [`Fault`] when the folder cannot be created.
    fn replace_folder(&self, folder: String, files: Vec<PutFile>) -> BoxFuture<'_, Result<(), Fault>> {
        drop(files);
        let message = format!("this kind of sandbox cannot receive the folder {folder} while it runs");
        Box::pin(async { Err(Fault::permanent(Boundary::Harness, "not-in-place", message)) })
    }

    /// The folders inside that can be reached from outside, before and after [`Sandbox::kill`]; the workspace comes
    /// first, if it exists.
    fn exposed_folders(&self) -> BoxFuture<'_, Vec<ExposedFolder>> {
        Box::pin(async { Vec::new() })
    }

    /// Reads a regular file by its absolute path, following no link; `None` when nothing is there. Call it after
    /// [`Sandbox::halt`].
    ///
    /// # Errors
    /// An env [`Fault`]: the path is not a regular file of at most `cap` bytes, or lies outside the exposed folders.
    fn read(&self, path: String, cap: u64) -> BoxFuture<'_, Result<Option<Vec<u8>>, Fault>> {
        Box::pin(async move { transfer::read(self.exposed_folders().await, path, cap).await })
    }

    /// Copies a tree into the workspace, or into another exposed folder; the copy belongs to the agent.
    ///
    /// # Errors
    /// The inner error when the tree cannot be copied; a [`Fault`] when the folder does not exist.
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

    /// Copies a file or folder out of the sandbox; the report lists what the copy lacks. Call it after
    /// [`Sandbox::halt`].
    ///
    /// # Errors
    /// [`TransferError`]; if the source does not exist, [`SafeReadError::Missing`](crate::SafeReadError).
    fn copy_out(&self, request: TransferRequest) -> BoxFuture<'_, Result<CopyReport, TransferError>> {
        Box::pin(async move { transfer::out(self.exposed_folders().await, request).await })
    }

    /// Copies a file or folder into the sandbox. Existing files are replaced, existing folders are filled.
    fn copy_in(&self, request: TransferRequest) -> BoxFuture<'_, Result<CopyReport, TransferError>> {
        Box::pin(async move { transfer::into(self.exposed_folders().await, request).await })
    }
}
