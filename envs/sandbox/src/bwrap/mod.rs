//! The bubblewrap backend.
//!
//! It deviates from a plain `bwrap` call in three ways, each for a measured reason: arguments go through a descriptor
//! (so that `/proc/*/cmdline` shows nothing of the host), `/` and `/dev` are remounted read-only (they would be
//! writable tmpfs of half the memory otherwise), and the first process inside sets the process limit, which counts per
//! user namespace and therefore applies to this sandbox alone only there.

mod arguments;
mod exposed_folders;
mod host;
mod host_folders;
mod image;
mod kill_queue;
mod running;
mod staging;
mod start;
mod view;

pub use arguments::WORKSPACE;
pub(crate) use arguments::variables;
pub use host::{HostReport, probe_host};
pub(crate) use kill_queue::AT_ONCE;
pub use start::{BubblewrapBackend, BubblewrapConfig};
