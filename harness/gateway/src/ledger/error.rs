//! What can go wrong with the ledger.

use std::path::PathBuf;

use rusqlite::ErrorCode;

/// What the ledger says instead of an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The file cannot be opened as a ledger.
    #[error("the ledger {} {flaw}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        flaw: FileFlaw,
    },
    /// The user has nothing of that number. The same for what is somebody else's and for what does not exist.
    #[error("there is no such {0}")]
    Unknown(Thing),
    /// What was asked contradicts what is recorded. Nothing was changed.
    #[error("refused: {0}")]
    Refused(String),
    /// The file could not be written or read: a full disk, a file that is gone. Nothing was changed; it may work again later.
    #[error("the ledger's file failed: {0}")]
    Storage(String),
    /// A request that had arrived is not in the ledger: its file failed right after.
    #[error("the request was lost: the ledger's file failed after it had arrived")]
    Lost,
    /// The recorder has ended.
    #[error("the recorder has ended")]
    Ended,
}

/// Something that has a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thing {
    /// A user, who has never sent a request.
    User,
    /// A request.
    Request,
    /// A session, or one that is open.
    Session,
    /// A turn.
    Turn,
    /// An answer, to be trained.
    Answer,
    /// An update.
    Update,
}

impl std::fmt::Display for Thing {
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
pub enum FileFlaw {
    /// Another process writes to it.
    #[error("is in use by another process (its lock file is {})", .0.display())]
    InUse(PathBuf),
    /// It is something else.
    #[error("is not a database of chat")]
    NotALedger,
    /// Somebody newer made it.
    #[error("has schema {found}, this program knows {known}: it was written by a newer version")]
    Newer {
        /// Of the file.
        found: i64,
        /// Of this program.
        known: i64,
    },
    /// It, or its folder, cannot be written to.
    #[error("cannot be written to: {0}")]
    ReadOnly(String),
    /// Something else went wrong.
    #[error("cannot be opened: {0}")]
    Failed(String),
}

impl LedgerError {
    /// Whether the file failed, rather than what was asked.
    #[must_use]
    pub fn is_storage(&self) -> bool {
        matches!(self, Self::Storage(_) | Self::Lost)
    }
}

impl From<rusqlite::Error> for LedgerError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            // These are about what was to be written, and nothing else.
            Some(ErrorCode::ConstraintViolation | ErrorCode::TooBig) => Self::Refused(error.to_string()),
            _ => Self::Storage(error.to_string()),
        }
    }
}
