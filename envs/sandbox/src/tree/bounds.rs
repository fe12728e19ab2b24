//! How much of a tree is looked at.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{SafeReadError, SafeWriteError};

/// Bounds on one walk over a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreeBounds {
    /// Names in all folders together.
    pub entries: u64,
    /// Components of the longest path.
    pub depth: u64,
    /// Bytes read: contents and link targets, and for a hash the names too. When copying, holes of sparse
    /// files are free.
    pub bytes: u64,
}

impl Default for TreeBounds {
    /// 100,000 entries, 256 levels, 1 GiB.
    fn default() -> Self {
        Self { entries: 100_000, depth: 256, bytes: 1 << 30 }
    }
}

/// Which bound was met.
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

/// Why a tree was not hashed or not copied. Paths are relative to the folder that was walked.
#[derive(Debug, Error)]
pub enum TreeError {
    /// Something in it, or the folder itself, could not be read.
    #[error(transparent)]
    Read(#[from] SafeReadError),
    /// It is larger than the bounds.
    #[error("the tree has more than {limit} {bound} (met at {path:?})")]
    Bound {
        /// Which bound.
        bound: TreeBound,
        /// Its value.
        limit: u64,
        /// Where it was met.
        path: PathBuf,
    },
    /// It does not fit into the sandbox that it is copied to.
    #[error("{path:?} does not fit: the sandbox is full")]
    NoRoom {
        /// Where it was full.
        path: PathBuf,
    },
    /// The copy could not be written.
    #[error(transparent)]
    Write(#[from] SafeWriteError),
}

impl TreeError {
    /// Whether the machine is at fault, as opposed to whoever wrote the tree. A copy that does not fit into a sandbox is
    /// the fault of the writer: the workspace it comes from has the same size. One for which the machine has no room is not.
    #[must_use]
    pub fn is_infrastructure(&self) -> bool {
        match self {
            Self::Read(error) => error.is_infrastructure(),
            Self::Bound { .. } | Self::NoRoom { .. } | Self::Write(SafeWriteError::TooLarge { .. }) => false,
            Self::Write(_) => true,
        }
    }

    /// Whether it would come back: what is there, or who may write there, is not what a machine does one time and not
    /// the next.
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

/// What is left of the bounds during one walk.
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

    /// Refuses early what could not be read to its end.
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
