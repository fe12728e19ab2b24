//! The error of a command: a diagnostic with an exit code.

use std::fmt;

use clawrl_chat::ChatError;
use clawrl_config::ConfigError;
use clawrl_core::Boundary;
use clawrl_record::RecordError;
use clawrl_runtime::training::TrainError;
use clawrl_runtime::{Reason, RuntimeError};
use clawrl_scheduler::SetupError;
use clawrl_serve::ServeError;
use miette::{Diagnostic, MietteDiagnostic};

use crate::exit_code::Exit;

/// A diagnostic and the exit code of the program.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The code.
    pub exit: Exit,
    diagnostic: Box<dyn Diagnostic + Send + Sync>,
}

impl Failure {
    /// A failure without advice.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, diagnostic: Box::new(MietteDiagnostic::new(message.into())) }
    }

    /// A failure with advice.
    pub(crate) fn with_help(exit: Exit, message: impl Into<String>, help: impl Into<String>) -> Self {
        let diagnostic = MietteDiagnostic::new(message.into()).with_help(help.into());
        Self { exit, diagnostic: Box::new(diagnostic) }
    }

    /// A failure from a message and optional advice.
    fn of_reason(exit: Exit, Reason { message, help }: Reason) -> Self {
        match help {
            Some(help) => Self::with_help(exit, message, help),
            None => Self::new(exit, message),
        }
    }

    /// The diagnostic to show.
    pub(crate) fn diagnostic(&self) -> &dyn Diagnostic {
        &*self.diagnostic
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.diagnostic.fmt(f)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self { exit: Exit::Refused, diagnostic: Box::new(error) }
    }
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        let exit = match &error {
            RecordError::Exists { .. } | RecordError::NoSuchRun { .. } | RecordError::Running { .. } => {
                Exit::NoSuchRun
            }
            RecordError::NoSuchAttempt { .. } => Exit::Refused,
            RecordError::Refused { .. } | RecordError::NotStorable { .. } => Exit::Internal,
            _ => Exit::Results,
        };
        let text = error.to_string();
        match text.split_once("; ") {
            // Messages about damage are whole sentences and stay unchanged.
            Some((message, help)) if !text.contains(". ") => Self::with_help(exit, message, help),
            _ => Self::new(exit, text),
        }
    }
}

impl From<SetupError> for Failure {
    fn from(error: SetupError) -> Self {
        Self::with_help(Exit::Internal, error.to_string(), "this is a bug in ClawRL: please report it")
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Refused(reason) => Self::of_reason(Exit::Refused, reason),
            RuntimeError::Unavailable(reason) => Self::of_reason(Exit::Environment, reason),
            RuntimeError::Storage(reason) => Self::of_reason(Exit::Results, reason),
            RuntimeError::NoSuchRun(reason) => Self::of_reason(Exit::NoSuchRun, reason),
            RuntimeError::Internal(reason) => Self::of_reason(Exit::Internal, reason),
            // The host lacks a requirement, unless the fault is internal.
            RuntimeError::Fault(fault) => {
                let exit = match fault.boundary {
                    Boundary::Harness => Exit::Internal,
                    _ => Exit::Environment,
                };
                Self::of_reason(exit, Reason::from_fault(&fault))
            }
            RuntimeError::Config(error) => error.into(),
            RuntimeError::Record(error) => error.into(),
            RuntimeError::Scheduler(error) => error.into(),
        }
    }
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Refused(reason) => Self::of_reason(Exit::Refused, reason),
            TrainError::Unavailable(reason) => Self::of_reason(Exit::Environment, reason),
            TrainError::Storage(reason) => Self::of_reason(Exit::Results, reason),
            TrainError::NoSuchRun(reason) => Self::of_reason(Exit::NoSuchRun, reason),
            TrainError::Aborted(reason) => Self::of_reason(Exit::TrainingFailed, reason),
            TrainError::Interrupted(reason) => Self::of_reason(Exit::Interrupted, reason),
            TrainError::Internal(reason) => Self::of_reason(Exit::Internal, reason),
            TrainError::Runtime(error) => error.into(),
        }
    }
}

impl From<ServeError> for Failure {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Refused(reason) => Self::of_reason(Exit::Refused, reason),
            ServeError::Unavailable(reason) => Self::of_reason(Exit::Environment, reason),
            ServeError::Storage(reason) => Self::of_reason(Exit::Results, reason),
            ServeError::Internal(reason) => Self::of_reason(Exit::Internal, reason),
            ServeError::Report(_) => Self::new(Exit::Results, error.to_string()),
            ServeError::Runtime(error) => error.into(),
            ServeError::Model(error) => error.into(),
        }
    }
}

impl From<ChatError> for Failure {
    fn from(error: ChatError) -> Self {
        match error {
            ChatError::Refused { message, help } => Self::of_reason(Exit::Refused, Reason { message, help }),
            ChatError::Unavailable { message, help } => {
                Self::of_reason(Exit::Environment, Reason { message, help })
            }
            ChatError::Output(_) => Self::new(Exit::Results, error.to_string()),
        }
    }
}
