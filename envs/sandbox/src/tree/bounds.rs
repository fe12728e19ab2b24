//! Limits on the size of a tree.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{SafeReadError, SafeWriteError};

/// Limits on one walk over a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreeBounds {
    /// Names in all folders together.
    pub entries: u64,
    /// Components of the longest path.
    pub depth: u64,
    /// Bytes read: contents and link targets, and for a hash the names too. When copying, holes of sparse files are
    /// free.
    pub bytes: u64,
}

impl Default for TreeBounds {
    /// 100,000 entries, 256 levels, 1 GiB.
    fn default() -> Self {
        Self { entries: 100_000, depth: 256, bytes: 1 << 30 }
    }
}

/// The limit that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TreeBound {
    /// [`TreeBounds::entries`].
    Entries,
    /// [`TreeBounds::depth`].
    Depth,
    /// [`TreeBounds::bytes`].
    Bytes,
}

impl fmt::Display for TreeBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Entries => "entries",
            Self::Depth => "levels",
            Self::Bytes => "bytes",
        })
    }
}

/// Why a tree was not hashed or not copied. Paths are relative to the walked folder.
#[derive(Debug, Error)]
pub enum TreeError {
    /// Something in it, or the folder itself, could not be read.
    #[error(transparent)]
    Read(#[from] SafeReadError),
    /// The tree exceeds the limits.
    #[error("the tree has more than {limit} {bound} (exceeded at {path:?})")]
    Bound {
        /// Which limit.
        bound: TreeBound,
        /// Its value.
        limit: u64,
        /// Where it was exceeded.
        path: PathBuf,
    },
    /// The tree does not fit into the destination sandbox.
    #[error("{path:?} does not fit: the sandbox is full")]
    NoRoom {
        /// Where the sandbox was full.
        path: PathBuf,
    },
    /// The copy could not be written.
    #[error(transparent)]
    Write(#[from] SafeWriteError),
}

impl TreeError {
    /// Whether the machine caused the error, rather than the tree's writer. A copy that does not fit into a sandbox is
    /// the writer's fault: the workspace it comes from has the same size. A full machine is not.
    #[must_use]
    pub fn is_infrastructure(&self) -> bool {
        match self {
            Self::Read(error) => error.is_infrastructure(),
            Self::Bound { .. } | Self::NoRoom { .. } | Self::Write(SafeWriteError::TooLarge { .. }) => false,
            Self::Write(_) => true,
        }
    }

    /// Whether a retry would fail again: content and permissions are permanent, unlike temporary failures of the
    /// machine.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        use std::io::ErrorKind as Kind;
        match self {
            Self::Read(error) => !error.is_infrastructure() || matches!(error, SafeReadError::NoOpenat2),
            Self::Bound { .. } | Self::NoRoom { .. } => true,
            Self::Write(SafeWriteError::Io { source, .. }) => {
                matches!(
                    source.kind(),
                    Kind::PermissionDenied
                        | Kind::ReadOnlyFilesystem
                        | Kind::ResourceBusy
                        | Kind::CrossesDevices
                        | Kind::AlreadyExists
                        | Kind::NotADirectory
                        | Kind::IsADirectory
                        | Kind::DirectoryNotEmpty
                        | Kind::InvalidFilename
                )
            }
            Self::Write(SafeWriteError::Full { .. }) => false,
            Self::Write(_) => true,
        }
    }

    /// Stable name for the flags of a grade.
    #[must_use]
    pub fn flag(&self) -> Option<&'static str> {
        match self {
            Self::Read(error) => error.flag(),
            Self::Bound { .. } | Self::NoRoom { .. } | Self::Write(SafeWriteError::TooLarge { .. }) => {
                Some("too-large")
            }
            Self::Write(_) => None,
        }
    }
}

/// What is left of the limits during one walk.
#[derive(Debug)]
pub(super) struct Budget {
    bounds: TreeBounds,
    entries: u64,
    bytes: u64,
}

impl Budget {
    pub(super) fn new(bounds: TreeBounds) -> Self {
        Self { bounds, entries: bounds.entries, bytes: bounds.bytes }
    }

    pub(super) fn entry(&mut self, folder: &Path) -> Result<(), TreeError> {
        self.entries = self.entries.checked_sub(1).ok_or_else(|| self.over(TreeBound::Entries, folder))?;
        Ok(())
    }

    pub(super) fn level(&self, depth: u64, path: &Path) -> Result<(), TreeError> {
        if depth > self.bounds.depth { Err(self.over(TreeBound::Depth, path)) } else { Ok(()) }
    }

    pub(super) fn bytes(&mut self, count: u64, path: &Path) -> Result<(), TreeError> {
        self.bytes = self.bytes.checked_sub(count).ok_or_else(|| self.over(TreeBound::Bytes, path))?;
        Ok(())
    }

    /// Fails early if the tree could not be read to its end.
    pub(super) fn could_hold(&self, count: u64, path: &Path) -> Result<(), TreeError> {
        if count > self.bytes { Err(self.over(TreeBound::Bytes, path)) } else { Ok(()) }
    }

    fn over(&self, bound: TreeBound, path: &Path) -> TreeError {
        let limit = match bound {
            TreeBound::Entries => self.bounds.entries,
            TreeBound::Depth => self.bounds.depth,
            TreeBound::Bytes => self.bounds.bytes,
        };
        TreeError::Bound { bound, limit, path: path.to_owned() }
    }
}
