//! Whose doing it is that a copy finds no room.

use super::TreeError;
use crate::SafeWriteError;

/// What the file system of a copy is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SizeLimit {
    /// The machine's own, or an engine's: that it is full says nothing about what was copied.
    #[default]
    Shared,
    /// A sandbox's own, of the size that its limits say: what does not fit into it is too large.
    Bounded,
}

impl SizeLimit {
    /// A full file system, judged; other errors as they are.
    pub(super) fn classify(self, error: TreeError) -> TreeError {
        match (self, error) {
            (Self::Bounded, TreeError::Write(SafeWriteError::Full { path })) => TreeError::NoRoom { path },
            (_, error) => error,
        }
    }
}
