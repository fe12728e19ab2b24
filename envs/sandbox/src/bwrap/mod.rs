//! The bubblewrap backend.
//!
//! Deviation from a plain `bwrap` call, each for a reason that was measured: arguments go through a
//! descriptor (nothing of the host in `/proc/*/cmdline`), `/` and `/dev` are remounted read-only (else they
//! are writable tmpfs of half the memory), and the first inside process sets the process limit, which
//! counts per user namespace and therefore means this sandbox only there.

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
