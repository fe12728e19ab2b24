//! The messages between the harness and the spawner.
//!
//! One JSON document per packet of a `SOCK_SEQPACKET` socket pair, with descriptors as ancillary data. Both ends are
//! built from the same source, so there is no version.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::seccomp::CallFilter;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Start a process.
    Spawn {
        /// Chosen by the harness, unique for the life of the spawner.
        id: u64,
        /// What to start, and how.
        launch: Box<LaunchRequest>,
        /// Cgroups to create before and to remove after.
        cgroup: Option<CgroupRequest>,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    /// It runs. For a terminal, the PTY master is attached as one descriptor.
    Spawned {
        id: u64,
        /// Process id, not reaped before `Exited` is sent.
        pid: u32,
    },
    /// It could not be started.
    Failed { id: u64, message: String },
    /// It ended and was reaped.
    Exited {
        id: u64,
        /// How, and what could not be removed.
        report: ExitReport,
    },
}

/// How a spawned process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitReport {
    /// Exit code, or `None` when a signal killed it.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Cgroups that could not be removed.
    pub leftovers: Vec<PathBuf>,
    /// Whether the kernel killed something in its cgroups because their memory was used up.
    #[serde(default)]
    pub out_of_memory: bool,
}

/// Cgroups of one sandbox: created by the spawner before the process starts, removed after it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupRequest {
    /// Folders to create, one per hierarchy, and later to remove.
    pub folders: Vec<PathBuf>,
    /// Files to write after creation, in order: limits.
    pub settings: Vec<(PathBuf, String)>,
    /// Files by which a single-threaded process enters: it writes `0`.
    pub entrances: Vec<PathBuf>,
}

/// A program to start, and what is done before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchRequest {
    /// On a terminal, or on descriptors that come with the request.
    pub kind: LaunchKind,
    /// Applied before the program starts.
    pub confinement: Confinement,
    /// The sandbox to join, or `None` for a program that creates its own.
    pub join: Option<JoinTarget>,
    /// Process id of the spawner, filled in by it: a launch with another parent aborts.
    pub parent: u32,
    /// Shown as the process's name in listings; never the real arguments.
    pub label: String,
    /// Program, an absolute path on the host, or inside the sandbox when joining.
    pub program: PathBuf,
    /// Arguments passed through a descriptor (`--args`), so that they are not in `/proc/*/cmdline`. Only
    /// for bubblewrap; empty for others.
    pub hidden_arguments: Vec<String>,
    /// Contents passed as descriptors; each replaces `{fd:N}` in the hidden arguments, N counting from 0.
    pub data: Vec<String>,
    /// Arguments on the command line.
    pub arguments: Vec<String>,
    /// The whole environment.
    pub environment: Vec<(String, String)>,
    /// Working folder, inside the sandbox when joining; the host's `/` when `None`.
    pub working_folder: Option<PathBuf>,
}

/// Where standard input, output and error go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaunchKind {
    /// A new terminal.
    Pty {
        /// Columns.
        cols: u16,
        /// Rows.
        rows: u16,
    },
    /// Descriptors that come with the request: input, output, error. When joining, a fourth one may follow: the writing
    /// end of a pipe, on which the launcher reports why the program was not run.
    Descriptors,
    /// As `Descriptors`, all three of them one terminal, which becomes the program's own. Only when joining a
    /// container, whose first process does not outlive the harness then.
    OwnTerminal,
    /// No program: the launcher itself joins the sandbox's network, and creates sockets there on request over the
    /// socket that is its input. Only when joining.
    Sockets,
}

/// Limits and identity of a started process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// User and group id to become, when the harness is root. Never 0.
    pub identity: Option<(u32, u32)>,
    /// Files by which the process enters cgroups, see [`CgroupRequest::entrances`].
    pub cgroup_entrances: Vec<PathBuf>,
    /// Resource limits, soft and hard alike.
    pub limits: Vec<(ResourceLimit, u64)>,
    /// `oom_score_adj`: the kernel's preference for killing it.
    pub oom_score: Option<i16>,
    /// The system-call filter, applied by bubblewrap, or by the launcher when joining.
    pub filter: Option<CallFilter>,
}

/// Resource limits that can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResourceLimit {
    /// Core dumps, bytes.
    Core,
    /// Private writable memory of one process, bytes.
    Data,
    /// Open descriptors.
    OpenFiles,
    /// Locked memory, bytes.
    LockedMemory,
    /// Bytes in POSIX message queues.
    MessageQueues,
    /// Queued signals.
    PendingSignals,
    /// Processes of the user in its user namespace. Only meaningful when joining.
    Processes,
}

/// A running sandbox to start something in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinTarget {
    /// Host process id of the sandbox's first process.
    pub pid: u32,
    /// Its start time in clock ticks since boot, against reuse of the id.
    pub start_ticks: u64,
    /// User and group id inside.
    pub inside_identity: (u32, u32),
    /// Additional data for an engine's container.
    pub container: Option<ContainerJoin>,
}

/// What a program needs, besides namespaces, when it joins a container: everything that the engine would apply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerJoin {
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Capabilities that may be held, one bit each by the kernel's numbers. Only user 0 holds any.
    pub capabilities: u64,
    /// Files by which the program enters the container's control groups. The launcher stays outside, so it is neither
    /// limited nor killed with it.
    pub entrances: Vec<PathBuf>,
    /// Label of the security module, as on the first process.
    pub label: Option<String>,
}
