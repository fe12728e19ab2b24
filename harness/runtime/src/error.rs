//! Errors of the runtime.
//!
//! The variants name who can fix an error: the caller (`Refused`), the owner of the host (`Unavailable`), the owner of the disk
//! (`Storage`), or the ClawRL developers (`Internal`). Each text is one message and, where there is one, a remedy.

use std::fmt;

use clawrl_config::ConfigError;
use clawrl_core::Fault;
use clawrl_record::RecordError;
use clawrl_scheduler::SetupError;

/// A failure, its cause and its fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The failure and its cause.
    pub message: String,
    /// How to fix it, if that is known.
    pub help: Option<String>,
}

impl Reason {
    /// A reason without a remedy.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None }
    }

    /// A fault before a run began. Its message may hold the remedy behind a semicolon.
    pub fn from_fault(fault: &Fault) -> Self {
        let (message, help) = match fault.message.split_once("; ") {
            Some((message, help)) => (message, format!("{help}\n`clawrl doctor` looks at everything")),
            None => (fault.message.as_str(), "`clawrl doctor` looks at everything".to_owned()),
        };
        Self { message: format!("{message} ({})", fault.code), help: Some(help) }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Why a plan cannot be prepared or executed.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The request is invalid. Nothing was started.
    #[error("{0}")]
    Refused(Reason),
    /// The host lacks something that the plan needs.
    #[error("{0}")]
    Unavailable(Reason),
    /// Results or input files cannot be read or written.
    #[error("{0}")]
    Storage(Reason),
    /// The run does not exist, or its name is taken.
    #[error("{0}")]
    NoSuchRun(Reason),
    /// A bug in ClawRL.
    #[error("{0}")]
    Internal(Reason),
    /// A fault before the run began.
    #[error("{}", Reason::from_fault(_0))]
    Fault(Fault),
    /// A suite, train file or policy file is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The record of a run cannot be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The scheduler refused its settings.
    #[error(transparent)]
    Scheduler(#[from] SetupError),
}

impl From<Fault> for RuntimeError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Defines a constructor for each variant that holds a [`Reason`], and `with_help`, which sets the remedy.
#[macro_export]
macro_rules! reason_constructors {
    ($error:ident { $($constructor:ident => $variant:ident),+ $(,)? }) => {
        impl $error {
            $(
                #[doc = concat!("[`Self::", stringify!($variant), "`] with this message.")]
                pub fn $constructor(message: impl Into<String>) -> Self {
                    Self::$variant($crate::Reason::new(message))
                }
            )+

            /// The same error with a remedy. Errors of other crates keep their own.
            #[must_use]
            pub fn with_help(mut self, help: impl Into<String>) -> Self {
                match &mut self {
                    $(Self::$variant(reason) => reason.help = Some(help.into()),)+
                    _ => {}
                }
                self
            }
        }
    };
}

reason_constructors!(RuntimeError {
    refused => Refused,
    unavailable => Unavailable,
    storage => Storage,
    no_such_run => NoSuchRun,
    internal => Internal,
});

#[cfg(test)]
mod tests {
    use clawrl_core::Boundary;

    use super::*;

    #[test]
    fn fault_message_is_split_at_its_remedy() {
        let fault = Fault::permanent(Boundary::Provider, "no-engine", "nothing listens; start it");
        let reason = Reason::from_fault(&fault);
        assert_eq!(reason.help.as_deref(), Some("start it\n`clawrl doctor` looks at everything"));
        assert_eq!(RuntimeError::from(fault).to_string(), "nothing listens (no-engine)");
    }
}
