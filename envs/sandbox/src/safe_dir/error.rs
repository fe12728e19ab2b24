//! Why an entry was not read or not written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::FileKind;
use crate::tree::TreeBound;

/// Why something beneath a [`super::SafeDir`] was not read. Paths are relative to it; in the text of the
/// error they are quoted and escaped.
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
    /// A file was asked for and something else is there.
    #[error("{path:?} is {kind}, not a regular file")]
    NotRegular {
        /// The path asked for.
        path: PathBuf,
        /// What is there.
        kind: FileKind,
    },
    /// A folder was asked for and something else is there.
    #[error("{path:?} is {kind}, not a folder")]
    NotFolder {
        /// The path asked for.
        path: PathBuf,
        /// What is there.
        kind: FileKind,
    },
    /// The file is larger than the caller reads.
    #[error("{path:?} has at least {size} bytes; at most {cap} are read")]
    TooLarge {
        /// The path asked for.
        path: PathBuf,
        /// Its size, or what was read before it was given up.
        size: u64,
        /// The caller's limit.
        cap: u64,
    },
    /// The tree is larger than what is brought of one.
    #[error("the tree has more than {limit} {bound} (met at {path:?})")]
    Bound {
        /// Where it was met.
        path: PathBuf,
        /// Which bound.
        bound: TreeBound,
        /// Its value.
        limit: u64,
    },
    /// The path is absolute, has a `..`, or crosses a mount point.
    #[error("{path:?} leads out of the workspace")]
    Escape {
        /// The path asked for.
        path: PathBuf,
    },
    /// It became something else between two looks: whoever writes the folder is still running.
    #[error("{path:?} changed while it was read")]
    Changed {
        /// The path asked for.
        path: PathBuf,
    },
    /// It is there, and this process may not read it: its permission bits, those of a folder on the way,
    /// or a lease that its writer holds. Root reads files regardless of their bits.
    #[error("{path:?} cannot be read: {source}")]
    Unreadable {
        /// The path asked for.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel, or a filter around this process, has no `openat2`.
    #[error("the kernel has no openat2 (Linux 5.6 or newer is needed, and no filter that denies it)")]
    NoOpenat2,
    /// The machine failed.
    #[error("{path:?}: {source}")]
    Io {
        /// The path asked for.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl SafeReadError {
    /// Whether the machine is at fault, as opposed to whoever wrote the folder.
    #[must_use]
    pub fn is_infrastructure(&self) -> bool {
        matches!(self, Self::NoOpenat2 | Self::Io { .. })
    }

    /// Stable name for the flags of a grade, for what a reader must know. A missing file is none.
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
    /// The place is not one to write to.
    #[error(transparent)]
    Refused(#[from] SafeReadError),
    /// The file has other names, which would change with it.
    #[error("{path:?} is a hard link, which is not written through")]
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
    /// No file of this size can be there, however much room there is.
    #[error("{path:?} is larger than a file can be there")]
    TooLarge {
        /// The path asked for.
        path: PathBuf,
    },
    /// The machine failed, or this process may not write there.
    #[error("{path:?} cannot be written: {source}")]
    Io {
        /// The path asked for.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}
