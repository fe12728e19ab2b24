//! Why a value cannot be struck out.

use thiserror::Error;

/// Why a secret is refused. The value is in none of the texts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RedactionError {
    /// It would be found in ordinary texts.
    #[error(
        "the value of {name} has {bytes} bytes; it takes at least {least} to tell a secret from other text"
    )]
    TooShort {
        /// Name of the secret.
        name: String,
        /// Its length.
        bytes: usize,
        /// The shortest that is taken.
        least: usize,
    },
    /// It is no key.
    #[error("the value of {name} has {bytes} bytes; at most {most} are looked for")]
    TooLong {
        /// Name of the secret.
        name: String,
        /// Its length.
        bytes: usize,
        /// The longest that is taken.
        most: usize,
    },
    /// Marks would be taken for it.
    #[error("the value of {name} is a part of the mark that would stand in its place")]
    InMark {
        /// Name of the secret.
        name: String,
    },
}
