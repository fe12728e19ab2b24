//! Why a file is not read, or not further.

use parquet::errors::ParquetError;

use super::bounds::TooMuch;

/// What is wrong with the file, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Goes on after the file's name.
    pub(super) message: String,
    pub(super) help: String,
}

/// What helps against damage.
pub(super) const AGAIN: &str = "download it again, and compare its size with what the publisher says";

impl Refusal {
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }

    /// Damage, at a place in words.
    pub(super) fn damaged(place: &str, what: &str) -> Self {
        Self::new(format!("is damaged: {place}: {what}"), AGAIN)
    }

    /// What the reader of the format says.
    pub(super) fn of_reader(place: &str, error: &ParquetError) -> Self {
        if let ParquetError::External(cause) = error
            && let Some(too_much) = cause.downcast_ref::<TooMuch>()
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
