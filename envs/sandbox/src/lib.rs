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
mod bwrap;
mod cgroup;
mod identity;
mod procs;
mod readiness;
mod safe_dir;
mod seccomp;
pub mod spawner;
mod sweep;
mod tree;

pub use backend::{
    ExecOutput, ExecSpec, ProcessFacts, PutFile, Sandbox, SandboxBackend, SandboxCommand, SandboxSpec,
    StartedSandbox,
};
pub use bwrap::{BubblewrapBackend, BubblewrapConfig, HostReport, probe_host};
pub use cgroup::CgroupHost;
pub use safe_dir::{EntryStat, FileKind, Owner, SafeDir, SafeReadError, SafeWriteError};
pub use sweep::{SweepReport, sweep_orphans};
pub use tree::{CopyOptions, CopyReport, SkipReason, Skipped, TreeBound, TreeBounds, TreeError, copy_tree};
