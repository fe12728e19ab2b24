//! Why a cassette is not read or written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Problem of a cassette file.
#[derive(Debug, Error)]
pub enum CassetteError {
    /// The file system refused.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation: `read`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file exists and was not to be replaced.
    #[error("{} already exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a cassette.
    #[error("{} is not a cassette: {why}", path.display())]
    NoCassette {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A later version of this program wrote it.
    #[error("{} has cassette format {format}, and this program reads formats up to {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Format of the file.
        format: u32,
        /// The latest that is known.
        known: u32,
    },
    /// The file is a damaged cassette.
    #[error("the cassette {} is damaged at line {line}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Counted from 1, of the text in it.
        line: usize,
        /// The damage.
        why: String,
    },
}
