//! Why an entry was not read or not written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::FileKind;
use crate::tree::TreeBound;

/// Why something beneath a [`super::SafeDir`] was not read. Paths are relative to it; the error text quotes and escapes
/// them.
#[derive(Debug, Error)]
pub enum SafeReadError {
    /// Nothing is there.
    #[error("{path:?} does not exist")]
    Missing {
        /// The path asked for.
        path: PathBuf,
    },
    /// The entry, or a folder on the way to it, is a symbolic link; links are never followed.
    #[error("{path:?} is a symbolic link, which is not followed")]
    Symlink {
        /// The link itself.
        path: PathBuf,
    },
    /// The path leads to something other than a regular file.
    #[error("{path:?} is {kind}, not a regular file")]
    NotRegular {
        /// The path asked for.
        path: PathBuf,
        /// What is there.
        kind: FileKind,
    },
    /// The path leads to something other than a folder.
    #[error("{path:?} is {kind}, not a folder")]
    NotFolder {
        /// The path asked for.
        path: PathBuf,
        /// What is there.
        kind: FileKind,
    },
    /// The file is larger than the caller's limit.
    #[error("{path:?} has at least {size} bytes; at most {cap} are read")]
    TooLarge {
        /// The path asked for.
        path: PathBuf,
        /// Its size, or the bytes read before reading stopped.
        size: u64,
        /// The caller's limit.
        cap: u64,
    },
    /// The tree is larger than the limit for copies.
    #[error("the tree has more than {limit} {bound} (exceeded at {path:?})")]
    Bound {
        /// Where the limit was exceeded.
        path: PathBuf,
        /// Which limit.
        bound: TreeBound,
        /// Its value.
        limit: u64,
    },
    /// The path is absolute, has a `..`, or crosses a mount point.
    #[error("{path:?} leads outside the workspace")]
    Escape {
        /// The path asked for.
        path: PathBuf,
    },
    /// It changed its kind between two checks: its writer is still running.
    #[error("{path:?} changed while it was read")]
    Changed {
        /// The path asked for.
        path: PathBuf,
    },
    /// It exists, but this process may not read it: its permission bits, those of a folder on the way, or a lease that
    /// its writer holds. Root reads files regardless of their bits.
    #[error("{path:?} cannot be read: {source}")]
    Unreadable {
        /// The path asked for.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel, or a filter around this process, has no `openat2`.
    #[error("the kernel lacks openat2: Linux 5.6 or newer is needed, without a filter that denies it")]
    NoOpenat2,
    /// The machine failed.
    #[error("{path:?}: {source}")]
    Io {
        /// The path asked for.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl SafeReadError {
    /// Whether the machine caused the error, rather than the folder's writer.
    #[must_use]
    pub fn is_infrastructure(&self) -> bool {
        matches!(self, Self::NoOpenat2 | Self::Io { .. })
    }

    /// Stable name for the flags of a grade; `None` for a missing file.
    #[must_use]
    pub fn flag(&self) -> Option<&'static str> {
        match self {
            Self::Symlink { .. } => Some("symlink-refused"),
            Self::NotRegular { .. } | Self::NotFolder { .. } => Some("not-regular"),
            Self::TooLarge { .. } | Self::Bound { .. } => Some("too-large"),
            Self::Escape { .. } => Some("escape-refused"),
            Self::Changed { .. } => Some("changed-while-read"),
            Self::Unreadable { .. } => Some("unreadable"),
            Self::Missing { .. } | Self::NoOpenat2 | Self::Io { .. } => None,
        }
    }
}

/// Why something beneath a [`super::SafeDir`] was not written.
#[derive(Debug, Error)]
pub enum SafeWriteError {
    /// Nothing may be written at this path.
    #[error(transparent)]
    Refused(#[from] SafeReadError),
    /// The file has other names, which would change with it.
    #[error("{path:?} is a hard link, which is never written through")]
    HardLink {
        /// The path asked for.
        path: PathBuf,
    },
    /// The file system is full, or a quota is used up.
    #[error("{path:?}: no space left")]
    Full {
        /// The path asked for.
        path: PathBuf,
    },
    /// The file system does not support a file of this size.
    #[error("{path:?} exceeds the file system's maximum file size")]
    TooLarge {
        /// The path asked for.
        path: PathBuf,
    },
    /// The machine failed, or this process may not write there.
    #[error("{path:?} cannot be written: {source}")]
    Io {
        /// The path asked for.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}
