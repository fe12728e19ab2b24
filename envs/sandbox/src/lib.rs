//! Sandboxes: the only place where untrusted programs run.
//!
//! Holds the [`SandboxBackend`] and [`Sandbox`] traits, the bubblewrap backend with its spawner, and the persistent
//! shell session that runs on every backend's terminal.
//!
//! Isolation of the bubblewrap backend (each point has a test in `tests/it/hostile.rs`):
//! I1. Nothing starts as host uid 0; when the harness is root, each sandbox has its own uid.
//! I2. No capabilities, no new privileges, no further user namespaces, a system-call filter.
//! I3. Only listed folders are visible, read-only; everything writable is a tmpfs of bounded size.
//! I4. Killing a sandbox ends every process in it, daemons included.

mod backend;
mod backends;
mod blocking;
mod bwrap;
pub mod bytes;
mod cast;
mod cgroup;
mod exec;
mod exec_error;
mod freezer;
mod identity;
mod in_container;
mod live;
mod local;
mod network;
mod pool;
mod procs;
mod program;
mod pty;
mod readiness;
mod ready;
mod safe_dir;
mod screen;
mod seccomp;
mod shares;
mod shell;
pub mod spawner;
mod spec;
mod sweep;
mod tail;
mod transfer;
mod tree;

pub use backend::{RemoteTerminal, Sandbox, SandboxBackend, StartedSandbox, Terminal};
pub use backends::{Backends, backend_of, shut_down};
pub use bwrap::{BubblewrapBackend, BubblewrapConfig, HostReport, WORKSPACE, probe_host};
pub use cast::CastRecorder;
pub use cgroup::{CgroupHost, owner_is_alive, owner_name};
pub use exec_error::{ExecError, NotRun};
pub use in_container::{ContainerSandbox, RunningContainer, announce, enter};
pub use live::{Live, LiveCount};
pub use local::LocalBackend;
pub use network::SandboxNetwork;
pub use pool::{Maker, WarmMarks, WarmPool};
pub use program::{Program, ProgramHandle, ProgramLife, available, drain, read_open};
pub use pty::{LineMode, Pty, PtyRead};
pub use safe_dir::{
    EntryStat, FileKind, KeepAlive, Owner, SafeDir, SafeReadError, SafeWriteError, TreeMetadata,
};
pub use screen::ScreenView;
pub use shares::warm_shares;
pub use shell::{
    CastConfig, CommandError, CursorKeys, DirectKiller, ForegroundKiller, JobSignal, KeyError, Nonce, Shell,
    ShellConfig, ShellError, ShellSession, ShellState, StepEnd, StepLimits, StepNote, StepOutput, StepResult,
    UnknownSignal, bash_arguments, check_command, is_known_key, parse_keys, rc_script, supervisor_script,
    terminal_environment,
};
pub use spec::{
    Announcer, ExecOutput, ExecSpec, ProcessFacts, ProgramSpec, PutFile, SandboxCommand, SandboxFolder,
    SandboxSpec, WorkspaceStart, announcement,
};
pub use sweep::{SweepReport, sweep_orphans};
pub use tail::Tail;
pub use transfer::{ExposedFolder, FillRequest, TransferError, TransferRequest};
pub use tree::{
    CopyOptions, CopyReport, Exclusions, Existing, SizeLimit, SkipReason, Skipped, SkippedEntries, TreeBound,
    TreeBounds, TreeError, UnpackError, copy_part, copy_tree, pack_tree, remove_content, unpack_tree,
};
