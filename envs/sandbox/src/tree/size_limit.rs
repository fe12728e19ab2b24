//! Attributes a full file system to the machine or to the copied tree.

use super::TreeError;
use crate::SafeWriteError;

/// The kind of file system that a copy is written to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SizeLimit {
    /// Shared with the machine or a container engine: being full says nothing about the copied tree.
    #[default]
    Shared,
    /// A sandbox's own, as large as its limits allow: a tree that does not fit is too large.
    Bounded,
}

impl SizeLimit {
    /// Attributes a full file system; passes other errors through.
    pub(super) fn classify(self, error: TreeError) -> TreeError {
        match (self, error) {
            (Self::Bounded, TreeError::Write(SafeWriteError::Full { path })) => TreeError::NoRoom { path },
            (_, error) => error,
        }
    }
}
