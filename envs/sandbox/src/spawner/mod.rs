//! The spawner: a small process that starts every sandbox.
//!
//! Why a process: `PR_SET_PDEATHSIG` follows the spawning *thread*, and a runtime's blocking threads end when idle; and
//! the cost of a fork grows with what the parent has mapped and opened. The spawner has one thread, started before any
//! runtime, and keeps no descriptor of a sandbox, so its spawn cost stays constant however many sandboxes live.
//!
//! I1. When the harness is gone (its end of the socket is closed, however it died), the spawner kills every sandbox,
//! also one of which only the first process is left, removes their cgroups and ends. When the spawner is killed, the
//! kernel kills every sandbox through its death signal.
//! I2. Every `Spawn` gets exactly one `Spawned` or `Failed`, every spawned process exactly one `Exited`.

mod client;
mod contain;
mod container_registry;
mod descriptor;
mod direct;
mod inherited;
mod join;
mod launch;
mod launch_error;
mod protocol;
mod sealed;
mod server;
mod signal_fd;
mod sockets;

pub use client::{ExitWatch, SpawnedProcess, Spawner, SpawnerClient, SpawnerError};
pub use inherited::close_inherited_on_exec;
pub use launch::join;
pub use protocol::{
    CgroupRequest, Confinement, ContainerJoin, ExitReport, JoinTarget, LaunchKind, LaunchRequest,
    ResourceLimit,
};
pub use server::serve;

pub(crate) use launch_error::{LaunchError, MAX_BYTES as MAX_LAUNCH_ERROR_BYTES};
pub(crate) use sockets::{SocketReply, SocketRequest, ask};
