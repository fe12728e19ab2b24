//! What checks look at.

use clawrl_sandbox::{ProcessFacts, SafeDir, SafeReadError, TreeBounds};

use super::CommandRunner;

/// What an attempt left.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The workspace, with everything that could write to it killed; or what the attempt left in its place: then no check
    /// of files and no command holds.
    pub workspace: Result<&'a SafeDir, &'a SafeReadError>,
    /// The processes that ran in the sandbox, listed before they were killed.
    pub processes: &'a [ProcessFacts],
    /// Runs command checks.
    pub commands: &'a dyn CommandRunner,
    /// What was submitted.
    pub answer: Answer<'a>,
    /// From owners of files to ids inside the sandbox.
    pub uid_map: UidMap,
    /// How much is read.
    pub limits: CheckLimits,
}

/// What an attempt answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Its environment takes no answers, so that a check of one cannot be evaluated.
    NotTaken,
    /// It gave none: no check of the answer holds.
    Missing,
    /// This one.
    Given(&'a str),
}

/// The one user of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UidMap {
    /// Its id on the host.
    pub host: u32,
    /// Its id inside.
    pub inside: u32,
}

impl UidMap {
    /// The id inside of a file's owner; `None` for an owner that the sandbox does not know.
    #[must_use]
    pub fn inside(self, host: u32) -> Option<u32> {
        (host == self.host).then_some(self.inside)
    }
}

/// How much a check reads. A check's own expected content is always read in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckLimits {
    /// Bytes of one file.
    pub file_bytes: u64,
    /// Bytes of a command's standard output.
    pub stdout_bytes: usize,
    /// Of a hashed tree.
    pub tree: TreeBounds,
}

impl Default for CheckLimits {
    /// 16 MiB, 1 MiB, and the defaults of [`TreeBounds`].
    fn default() -> Self {
        Self { file_bytes: 16 << 20, stdout_bytes: 1 << 20, tree: TreeBounds::default() }
    }
}
