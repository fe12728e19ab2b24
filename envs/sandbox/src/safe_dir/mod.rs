//! A folder whose content an adversary wrote, read and written without being led astray.
//!
//! I1. Nothing outside the folder is ever opened, read, created or changed: not through a symbolic link
//!     (first, last or in the middle), `..`, an absolute path, a magic link or a mount point, and not by
//!     swapping one of these in while an operation runs.
//! I2. Nothing but regular files is read or overwritten, and no operation waits for a peer: a FIFO, a
//!     socket or a device is named in the error.
//! I3. Work and memory are bounded by the caller's cap, not by what the folder claims or by a writer
//!     that keeps appending.
//! I4. A hard link is never written through: what else shares the content is unknown.
//! I5. A call that acts as another owner gives the thread its own identity back, whatever happens.
//! I6. Of a tree that came from elsewhere, kinds, rights and owners are those it has there ([`TreeMetadata`]), not those of the
//!     files that it is kept in.
//!
//! Units: sizes in bytes, permission bits as in `chmod` (0o644).
//! Errors: [`SafeReadError`] and [`SafeWriteError`]; both tell what the folder's writer caused from what
//! the machine caused. Needs `openat2` (Linux 5.6).
//! Cancellation: every operation blocks its thread until it is done and is meant for
//! `tokio::task::spawn_blocking`.

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
