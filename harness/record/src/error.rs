//! Errors of operations on runs. Every text says what to do.

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
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// `read`, `write`, `create`, ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No space, or a quota or file-size limit.
    #[error(
        "no space left to write {} ({source}); free some and run it again with --resume: nothing that was \
         recorded is lost",
        path.display()
    )]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder cannot be written.
    #[error(
        "{} cannot be written ({source}); make the results folder writable, or choose another with --results",
        path.display()
    )]
    NotWritable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// This user may not read it.
    #[error(
        "{} may not be read by this user ({source}); read it as the user that made it, or have that user open it with \
         `chmod -R a+rX`",
        path.display()
    )]
    NotReadable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A run of this name is there.
    #[error("run {run} exists already; choose another name, or go on with `clawrl run --resume {run}`")]
    Exists {
        /// The run.
        run: RunId,
    },
    /// There is no such run.
    #[error("there is no run {run} in {}; `clawrl ls` lists what is there", dir.display())]
    NoSuchRun {
        /// The run.
        run: RunId,
        /// The folder of all runs.
        dir: PathBuf,
    },
    /// Another process writes the run.
    #[error("run {run} is under way in {owner}; wait for it, or end it")]
    Running {
        /// The run.
        run: RunId,
        /// `process 1234`, as that process wrote.
        owner: String,
    },
    /// A newer program wrote it.
    #[error(
        "{} is written in format {found}; this program knows formats 0 to {FORMAT_VERSION}: use the newer \
         program that wrote it",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// `plan.json` or `train.json` is not what the run was opened with.
    #[error(
        "{} was changed after the run began (SHA-256 {found}, the journal says {expected}): put the original \
         back, or start a new run from the changed plan",
        path.display()
    )]
    PlanChanged {
        /// The file.
        path: PathBuf,
        /// In `opened`.
        expected: String,
        /// Of the file.
        found: String,
    },
    /// The journal is broken before its tail.
    #[error(
        "{} is damaged at line {line}: {reason}. Restore the file from a copy. Without one, \
         `truncate -s {offset} {}` keeps everything before that line; what came after runs again at `--resume`",
        path.display(), path.display()
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Its first byte.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// Trajectories that were on the disk are gone or changed.
    #[error("{} is damaged: {reason}. Restore the file from a copy; without one, start a new run", path.display())]
    TrajectoriesDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file of the run cannot be understood.
    #[error("{} is damaged: {reason}. Restore the file from a copy; without one, start a new run", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A line that would break the journal's rules was not written.
    #[error("the journal of run {run} refuses a line: {violation}. This is a bug in the program")]
    Refused {
        /// The run.
        run: RunId,
        /// The rule.
        violation: Violation,
    },
    /// There is no such attempt.
    #[error("run {run} has no record of attempt {attempt}")]
    NoSuchAttempt {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: AttemptId,
    },
    /// Plan, lock file or summary cannot be written as JSON.
    #[error("a file of run {run} cannot be written as JSON: {reason}. This is a bug in the program")]
    NotStorable {
        /// The run.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// The writer ended early; what it could not write.
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
