//! Errors of operations on runs. Every message contains a remedy.

use std::io;
use std::path::PathBuf;

use clawrl_core::{AttemptId, FORMAT_VERSION, RunId};
use thiserror::Error;

use crate::Violation;

/// Why an operation on a run, or on the store, failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file system refused.
    #[error("failed to {action} {}: {source}", path.display())]
    Io {
        /// `read`, `write`, `create`, ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No space, or a quota or file-size limit.
    #[error(
        "no space left to write {} ({source}); free some space and resume with --resume: no recorded result is \
         lost",
        path.display()
    )]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The folder cannot be written.
    #[error(
        "failed to write {} ({source}); make the results folder writable, or choose another with --results",
        path.display()
    )]
    NotWritable {
        /// The file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// This user may not read it.
    #[error(
        "{} is not readable for this user ({source}); read it as the user that created it, or let that user run \
         `chmod -R a+rX`",
        path.display()
    )]
    NotReadable {
        /// The file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A run of this name is there.
    #[error("run {run} exists already; choose another name, or resume it with `clawrl run --resume {run}`")]
    Exists {
        /// The run.
        run: RunId,
    },
    /// The run does not exist.
    #[error("run {run} not found in {}; `clawrl ls` lists all runs", dir.display())]
    NoSuchRun {
        /// The run.
        run: RunId,
        /// The folder of all runs.
        dir: PathBuf,
    },
    /// Another process writes the run.
    #[error("run {run} is still running in {owner}; wait for it, or stop it")]
    Running {
        /// The run.
        run: RunId,
        /// `process 1234`, as that process wrote.
        owner: String,
    },
    /// A newer program wrote it.
    #[error(
        "{} has format {found}, and this program reads formats 0 to {FORMAT_VERSION}; use the newer \
         program that wrote it",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Format of the file.
        found: u32,
    },
    /// `plan.json` or `train.json` differs from the file that the run was opened with.
    #[error(
        "{} was changed after the run started (SHA-256 {found}, expected {expected}); restore the original, \
         or start a new run from the changed plan",
        path.display()
    )]
    PlanChanged {
        /// The file.
        path: PathBuf,
        /// In `opened`.
        expected: String,
        /// SHA-256 of the file.
        found: String,
    },
    /// The journal is broken before its tail.
    #[error(
        "{} is damaged at line {line}: {reason}. Restore the file from a copy. Without one, \
         `truncate -s {offset} {}` keeps everything before that line; `--resume` repeats the rest",
        path.display(), path.display()
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Offset of the line, in bytes.
        offset: u64,
        /// The damage.
        reason: String,
    },
    /// Trajectories that were on the disk are gone or changed.
    #[error("{} is damaged: {reason}. Restore the file from a copy; without one, start a new run", path.display())]
    TrajectoriesDamaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// A file of the run cannot be understood.
    #[error("{} is damaged: {reason}. Restore the file from a copy; without one, start a new run", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// A line that would break the journal's rules was not written.
    #[error("the journal of run {run} rejected a line: {violation}. This is a bug in ClawRL")]
    Refused {
        /// The run.
        run: RunId,
        /// The rule.
        violation: Violation,
    },
    /// The attempt does not exist.
    #[error("run {run} has no record of attempt {attempt}")]
    NoSuchAttempt {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: AttemptId,
    },
    /// Plan, lock file or summary cannot be written as JSON.
    #[error("failed to write a file of run {run} as JSON: {reason}. This is a bug in ClawRL")]
    NotStorable {
        /// The run.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// The writer ended early; the record that it could not write.
    #[error("{0}")]
    Writer(String),
}

impl RecordError {
    /// Wraps an I/O error, telling full disks and missing rights apart from the rest.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        use io::ErrorKind as Kind;
        let path = path.into();
        match (action, source.kind()) {
            ("read" | "open", Kind::PermissionDenied) => Self::NotReadable { path, source },
            ("read" | "open", _) => Self::Io { action, path, source },
            (_, Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge) => {
                Self::NoSpace { path, source }
            }
            (_, Kind::ReadOnlyFilesystem | Kind::PermissionDenied) => Self::NotWritable { path, source },
            _ => Self::Io { action, path, source },
        }
    }
}
