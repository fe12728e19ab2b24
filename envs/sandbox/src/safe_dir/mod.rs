//! Safe access to a folder whose content an adversary wrote.
//!
//! I1. Nothing outside the folder is ever opened, read, created or changed: not through a symbolic link (first, last or
//! in the middle), `..`, an absolute path, a magic link or a mount point, and not by swapping one of these in while an
//! operation runs.
//! I2. Only regular files are read or overwritten, and no operation waits for a peer: a FIFO, a socket or a device is
//! reported in the error.
//! I3. The caller's cap bounds work and memory, whatever size the folder claims and however long a writer keeps
//! appending.
//! I4. A hard link is never written through: the other names of its content are unknown.
//! I5. A call that acts as another owner always restores the thread's own identity.
//! I6. For a tree that was copied from elsewhere, kinds, permissions and owners are those of the original
//! ([`TreeMetadata`]), not those of the files that hold the copy.
//!
//! Units: sizes in bytes, permission bits as in `chmod` (0o644). Errors: [`SafeReadError`] and [`SafeWriteError`]; both
//! distinguish what the folder's writer caused from what the machine caused. Needs `openat2` (Linux 5.6). Cancellation:
//! every operation blocks its thread until it is done and is meant for `tokio::task::spawn_blocking`.

mod dir;
mod error;
mod metadata;
mod owner;
mod stat;
mod write;

pub use dir::{KeepAlive, SafeDir};
pub use error::{SafeReadError, SafeWriteError};
pub use metadata::TreeMetadata;
pub use owner::Owner;
pub use stat::{EntryStat, FileKind};

pub(crate) use dir::{
    FOLDER, Permission, clean, failed, listing, open_beneath, read_link, retry_interrupted,
};
pub(crate) use metadata::EntryMetadata;
pub(crate) use owner::ActingAs;
pub(crate) use write::write_failed;
