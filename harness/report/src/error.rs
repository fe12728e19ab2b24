//! Why a report could not be made.

use std::io;
use std::path::PathBuf;

use clawrl_record::RecordError;
use thiserror::Error;

/// Why a report could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The run cannot be read; a damaged frame is named.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Data that cannot be written as JSON.
    #[error("{what} cannot be written as JSON: {source}. This is a bug in the program")]
    NotJson {
        /// The data.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
}
