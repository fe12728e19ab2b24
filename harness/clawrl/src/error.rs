//! Errors of the library.

use std::fmt;
use std::path::PathBuf;

use clawrl_config::ConfigError;
use clawrl_record::RecordError;
use clawrl_report::ReportError;
use clawrl_runtime::RuntimeError;
use thiserror::Error;

/// The result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// A suite, a train file or a setting is invalid. The text lists every problem.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// A file cannot be read or written.
    #[error("failed to {action} {}: {source}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line of a data file is not a JSON object.
    #[error("line {line} of {} is not a JSON object: {message}", path.display())]
    Row {
        /// The data file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
    /// A suite of rows has no environment.
    #[error("suite `{suite}` has no environment: call `Suite::env` before it is used")]
    NoEnvironment {
        /// Name of the suite.
        suite: String,
    },
    /// A policy is not written as `clawrl run --policy` takes it.
    #[error("policy `{policy}`: {message}")]
    Policy {
        /// As given.
        policy: String,
        /// What is wrong with it.
        message: String,
    },
    /// A name or a setting is invalid.
    #[error("`{setting}`: {message}")]
    Setting {
        /// As given.
        setting: String,
        /// What is wrong with it.
        message: String,
    },
    /// The run ended early. Recorded attempts are valid, and `clawrl run --resume` continues.
    #[error(transparent)]
    Run(#[from] clawrl_scheduler::RunError),
    /// The host lacks something, or a policy cannot be started.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// Results cannot be written or read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A report cannot be made.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A training failed; the text says how to continue it.
    #[error(transparent)]
    Train(#[from] clawrl_runtime::training::TrainError),
}

/// The text of [`Display`](fmt::Display), which a `main` prints that returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// For `map_err`.
    pub(crate) fn file(action: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }
}
