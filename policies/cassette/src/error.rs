//! Why a cassette is not read or written.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// What was wrong with a file, and where.
#[derive(Debug, Error)]
pub enum CassetteError {
    /// The file system says no.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried: `read`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is such a file, and it was not to be replaced.
    #[error("{} is there already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// It is something else.
    #[error("{} is no cassette: {why}", path.display())]
    NoCassette {
        /// The file.
        path: PathBuf,
        /// What was found.
        why: String,
    },
    /// A later version of this program wrote it.
    #[error("{} is a cassette of format {format}, and this program reads up to {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// The latest that is known.
        known: u32,
    },
    /// It was a cassette.
    #[error("the cassette {} is damaged in line {line}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Counted from 1, of the text in it.
        line: usize,
        /// What was found.
        why: String,
    },
}
