//! Errors of the ledger.

use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Why the ledger did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The file cannot be opened as a ledger.
    #[error("the ledger {} {flaw}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        flaw: FileError,
    },
    /// The user has no such entry; also for entries of other users.
    #[error("there is no such {0}")]
    Unknown(EntityKind),
    /// The call contradicts the record. Nothing was changed.
    #[error("refused: {0}")]
    Refused(String),
    /// The file could not be read or written, for example because the disk is full. Nothing was changed; a retry may work.
    #[error("ledger I/O failed: {0}")]
    Storage(String),
    /// An accepted request was not written, because the file failed after its arrival.
    #[error("the request was lost: writing the ledger failed after its arrival")]
    Lost,
    /// The recorder has ended.
    #[error("the recorder has ended")]
    Ended,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntityKind {
    /// A user without any request.
    User,
    /// A request.
    Request,
    /// A session, or an open session.
    Session,
    /// A turn.
    Turn,
    /// An answer that can be trained on.
    Answer,
    /// An update.
    Update,
}

impl std::fmt::Display for EntityKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::Request => "request",
            Self::Session => "session",
            Self::Turn => "turn",
            Self::Answer => "answer",
            Self::Update => "update",
        })
    }
}

/// Why a file is not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Another process has it open.
    #[error("is in use by another process (its lock file is {})", .0.display())]
    InUse(PathBuf),
    /// It is another kind of file.
    #[error("is not a chat ledger")]
    NotALedger,
    /// A newer version of the program wrote it.
    #[error("has schema {found}, this program knows {known}: it was written by a newer version")]
    Newer {
        /// Schema of the file.
        found: i64,
        /// Latest schema of this program.
        known: i64,
    },
    /// The file or its folder is not writable.
    #[error("cannot be written to: {0}")]
    ReadOnly(String),
    /// Another error.
    #[error("cannot be opened: {0}")]
    Failed(String),
}

impl LedgerError {
    /// Whether the file failed, rather than the call being invalid.
    #[must_use]
    pub fn is_storage(&self) -> bool {
        matches!(self, Self::Storage(_) | Self::Lost)
    }
}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // These concern only the values of the call.
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => Self::Refused(error.to_string()),
            _ => Self::Storage(error.to_string()),
        }
    }
}
