//! Why a tokenizer cannot be used.

/// A tokenizer could not be made, read or applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// The file is not there, or the library does not understand it.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// The problem.
        reason: String,
    },
    /// Text would not survive, or could pass for markup.
    #[error("this tokenizer cannot be used: {0}")]
    Unsuitable(String),
    /// The requested vocabulary is too small for the required entries.
    #[error("a vocabulary of {asked} entries is too small: bytes and special tokens alone are {least}")]
    TooSmall {
        /// Entries asked for.
        asked: usize,
        /// Fewest that work.
        least: usize,
    },
    /// The library refused a text or an id.
    #[error("tokenizer: {0}")]
    Library(String),
}

impl TokenizerError {
    /// The library's message, without its type.
    pub(super) fn library(error: tokenizers::Error) -> Self {
        Self::Library(error.to_string())
    }
}
