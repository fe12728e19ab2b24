//! The inputs of checks.

use clawrl_sandbox::{ProcessFacts, SafeDir, SafeReadError, TreeBounds};

use super::CommandRunner;

/// The evidence of an attempt.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// The workspace, after all writers were killed; or the error that the agent's replacement caused: then checks of
    /// files and commands fail.
    pub workspace: Result<&'a SafeDir, &'a SafeReadError>,
    /// The sandbox's processes, listed before they were killed.
    pub processes: &'a [ProcessFacts],
    /// Runs the commands of checks.
    pub commands: &'a dyn CommandRunner,
    /// The submitted answer.
    pub answer: Answer<'a>,
    /// Maps owners of files to ids inside the sandbox.
    pub uid_map: UidMap,
    /// Limits on reading.
    pub limits: CheckLimits,
}

/// An attempt's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The environment takes no answers, so a check of the answer cannot be evaluated.
    NotTaken,
    /// No answer: every check of the answer fails.
    Missing,
    /// The answer.
    Given(&'a str),
}

/// Ids of the sandbox's one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UidMap {
    /// On the host.
    pub host: u32,
    /// Inside.
    pub inside: u32,
}

impl UidMap {
    /// The id inside of a file's owner; `None` for an owner unknown to the sandbox.
    #[must_use]
    pub fn inside(self, host: u32) -> Option<u32> {
        (host == self.host).then_some(self.inside)
    }
}

/// Limits on what a check reads. A check's own expected content is always read in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckLimits {
    /// Maximum bytes of one file.
    pub file_bytes: u64,
    /// Maximum bytes of a command's standard output.
    pub stdout_bytes: usize,
    /// Limits of a hashed tree.
    pub tree: TreeBounds,
}

impl Default for CheckLimits {
    /// 16 MiB, 1 MiB, and the defaults of [`TreeBounds`].
    fn default() -> Self {
        Self { file_bytes: 16 << 20, stdout_bytes: 1 << 20, tree: TreeBounds::default() }
    }
}
