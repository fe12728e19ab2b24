//! Why a command could not do its work, as a diagnostic with an exit code.

use std::fmt;

use clawrl_config::ConfigError;
use clawrl_core::Fault;
use clawrl_record::RecordError;
use clawrl_scheduler::SetupError;
use miette::{Diagnostic, MietteDiagnostic};

use crate::exit_code::Exit;

/// What a person reads before the program ends, and the code it ends with.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub exit: Exit,
    diagnostic: Box<dyn Diagnostic + Send + Sync>,
}

impl Failure {
    /// What failed.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, diagnostic: Box::new(MietteDiagnostic::new(message.into())) }
    }

    /// What failed and what to do.
    pub fn with_help(exit: Exit, message: impl Into<String>, help: impl Into<String>) -> Self {
        let diagnostic = MietteDiagnostic::new(message.into()).with_help(help.into());
        Self { exit, diagnostic: Box::new(diagnostic) }
    }

    /// A fault before the run began: the machine lacks something, unless we are to blame.
    pub fn from_fault(fault: &Fault) -> Self {
        let exit = match fault.boundary {
            clawrl_core::Boundary::Harness => Exit::Internal,
            _ => Exit::Environment,
        };
        let (message, help) = match fault.message.split_once("; ") {
            Some((message, help)) => (message, format!("{help}\n`clawrl doctor` looks at everything")),
            None => (fault.message.as_str(), "`clawrl doctor` looks at everything".to_owned()),
        };
        Self::with_help(exit, format!("{} ({})", message, fault.code), help)
    }

    /// What is shown.
    pub fn diagnostic(&self) -> &dyn Diagnostic {
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
            // Damage is told in whole sentences.
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
