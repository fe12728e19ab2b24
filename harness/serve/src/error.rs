//! Errors of the chat server.

use std::io;

use clawrl_config::ConfigError;
use clawrl_runtime::training::TrainError;
use clawrl_runtime::{Reason, RuntimeError, reason_constructors};

/// Why a server cannot start or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The request is invalid. Nothing listens.
    #[error("{0}")]
    Refused(Reason),
    /// The host lacks something, such as a free port.
    #[error("{0}")]
    Unavailable(Reason),
    /// Keys, ledger or set-up files cannot be read or written.
    #[error("{0}")]
    Storage(Reason),
    /// A bug in ClawRL.
    #[error("{0}")]
    Internal(Reason),
    /// The program that embeds the server cannot report that it listens.
    #[error("cannot write to standard output: {0}")]
    Report(#[source] io::Error),
    /// The runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The model or its trainer failed.
    #[error(transparent)]
    Model(#[from] TrainError),
}

reason_constructors!(ServeError {
    refused => Refused,
    unavailable => Unavailable,
    storage => Storage,
    internal => Internal,
});

impl From<ConfigError> for ServeError {
    fn from(error: ConfigError) -> Self {
        Self::Runtime(error.into())
    }
}
