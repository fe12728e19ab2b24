//! Sandboxes: the only place where untrusted programs run.
//!
//! Holds the [`SandboxBackend`] and [`Sandbox`] traits, the bubblewrap backend with its spawner, and the
//! persistent shell session that every backend's terminal carries.
//!
//! Isolation of the bubblewrap backend (each point has a test in `tests/it/hostile.rs`):
//! I1. Nothing starts as host uid 0; when the harness is root, each sandbox has a uid of its own.
//! I2. No capabilities, no new privileges, no further user namespaces, a system-call filter.
//! I3. Only listed folders are visible, read-only; what is writable is a tmpfs of bounded size.
//! I4. Killing a sandbox ends every process in it, daemons included.

mod backend;
mod backends;
mod blocking;
mod bwrap;
pub mod bytes;
mod carry;
mod cast;
mod cgroup;
mod enclosed;
mod exec;
mod freezer;
mod identity;
mod lines;
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
mod sweep;
mod tail;
mod tree;

pub use backend::{
    Announcer, ExecOutput, ExecSpec, ProcessFacts, ProgramSpec, PutFile, Sandbox, SandboxBackend,
    SandboxCommand, SandboxFolder, SandboxSpec, StartedSandbox, Terminal, TerminalElsewhere, WorkspaceStart,
    announcement,
};
pub use backends::{Backends, backend_of, shut_down};
pub use bwrap::{BubblewrapBackend, BubblewrapConfig, HostReport, WORKSPACE, probe_host};
pub use carry::{CarryError, CarryRequest, Filling, Place};
pub use cast::CastRecorder;
pub use cgroup::{CgroupHost, owner_is_alive, owner_name};
pub use enclosed::{EnclosedSandbox, Enclosure, announce, enter};
pub use exec::{ExecError, NotRun};
pub use lines::{LineTooLong, ProgramEvent, ProgramLines};
pub use live::{Live, LiveCount};
pub use local::LocalBackend;
pub use network::SandboxNetwork;
pub use pool::{Maker, WarmMarks, WarmPool};
pub use program::{Program, ProgramHandle, ProgramLife, available};
pub use pty::{LineMode, Pty, PtyRead};
pub use safe_dir::{EntryStat, FileKind, Keeper, Owner, SafeDir, SafeReadError, SafeWriteError, Told};
pub use screen::ScreenView;
pub use shares::warm_shares;
pub use shell::{
    CastConfig, CommandError, CursorKeys, DirectKiller, ForegroundKiller, JobSignal, KeyError, Nonce, Shell,
    ShellConfig, ShellError, ShellSession, ShellState, StepEnd, StepLimits, StepNote, StepOutput, StepResult,
    UnknownSignal, bash_arguments, check_command, is_known_key, keeper_script, parse_keys, rc_script,
    terminal_environment,
};
pub use sweep::{SweepReport, sweep_orphans};
pub use tail::Tail;
pub use tree::{
    CopyOptions, CopyReport, Exclusions, Existing, LeftOut, Room, SkipReason, Skipped, TreeBound, TreeBounds,
    TreeError, UnpackError, copy_part, copy_tree, pack_tree, remove_content, unpack_tree,
};
