//! Errors of the chat client.

use std::io;

/// Why a conversation cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The request is invalid, or the server refuses it.
    #[error("{message}")]
    Refused {
        /// The problem.
        message: String,
        /// How to fix it.
        help: Option<String>,
    },
    /// There is no server, or the host lacks a requirement.
    #[error("{message}")]
    Unavailable {
        /// The missing requirement.
        message: String,
        /// How to fix it.
        help: Option<String>,
    },
    /// Replies cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl ChatError {
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::Refused { message: message.into(), help: None }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable { message: message.into(), help: None }
    }

    pub(crate) fn with_help(mut self, text: impl Into<String>) -> Self {
        if let Self::Refused { help, .. } | Self::Unavailable { help, .. } = &mut self {
            *help = Some(text.into());
        }
        self
    }
}
