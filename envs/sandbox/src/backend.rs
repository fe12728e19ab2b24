//! The traits of a sandbox, the same for bubblewrap and, later, containers.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{BoxFuture, Fault, NetworkPolicy, SandboxLimits};

use crate::ready::READY;
use crate::safe_dir::SafeDir;

/// What a sandbox is to be.
#[derive(Debug, Clone, PartialEq)]
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
}

/// Who prints the ready mark and sets the limit that only means this sandbox inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Announcer {
    /// A small shell before the main program: right for any program, and one more program to start.
    #[default]
    Wrapper,
    /// The main program itself, a shell whose start file begins with [`announcement`].
    Main,
}

/// Shell code that says that the sandbox is in place, for [`Announcer::Main`].
#[must_use]
pub fn announcement(limits: &SandboxLimits) -> String {
    // `ulimit -u` is `-p` in dash.
    let limit = limits.pids;
    format!("printf '%s' '{READY}'; ulimit -u {limit} 2>/dev/null || ulimit -p {limit}")
}

/// A program, its arguments and the variables it gets beyond the sandbox's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// The master of its terminal, not blocking. Nothing of the main program's output was read yet.
    pub terminal: OwnedFd,
}

/// A file to lay into the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutFile {
    /// Path relative to the workspace.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Content.
    pub content: Arc<[u8]>,
}

/// A program to run beside the main one, with pipes instead of a terminal.
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
}

/// What came of an [`ExecSpec`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Exit code; 128 + n for signal n; `None` when the deadline killed it.
    pub code: Option<i32>,
    /// Standard output, up to the cap.
    pub stdout: Vec<u8>,
    /// Standard error, up to the cap.
    pub stderr: Vec<u8>,
    /// Wall time.
    pub duration: Duration,
}

/// A process inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Process id on the host.
    pub host_pid: u32,
    /// Parent's process id on the host.
    pub host_parent: u32,
    /// Process group on the host.
    pub host_group: u32,
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

    /// The workspace. Stays readable after `kill`, until the last clone is dropped.
    fn workspace(&self) -> Arc<SafeDir>;

    /// Runs a program beside the main one and waits for it.
    ///
    /// # Errors
    /// An env [`Fault`] when it could not be run; a failing program is no fault.
    fn exec(&self, spec: ExecSpec) -> BoxFuture<'_, Result<ExecOutput, Fault>>;

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
}
