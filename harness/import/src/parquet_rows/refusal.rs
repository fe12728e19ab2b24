//! Why a file, or the rest of it, is not read.

use parquet::errors::ParquetError;

use super::bounds::LimitExceeded;

/// The problem of the file, and the advice.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Follows the file's name in the message.
    pub(super) message: String,
    pub(super) help: String,
}

/// Advice for damaged files.
pub(super) const AGAIN: &str = "download it again, and compare its size with the publisher's";

impl Refusal {
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }

    /// Damage at a described place.
    pub(super) fn damaged(place: &str, what: &str) -> Self {
        Self::new(format!("is damaged: {place}: {what}"), AGAIN)
    }

    /// An error of the Parquet reader.
    pub(super) fn of_reader(place: &str, error: &ParquetError) -> Self {
        if let ParquetError::External(cause) = error
            && let Some(too_much) = cause.downcast_ref::<LimitExceeded>()
        {
            return too_much.refusal();
        }
        let text = error.to_string();
        let text = ["Parquet error: ", "EOF: ", "External: ", "NYI: "]
            .iter()
            .find_map(|kind| text.strip_prefix(kind))
            .unwrap_or(&text);
        Self::damaged(place, text)
    }
}
