//! Errors of a request, and their consequence for the attempt.

use std::time::Duration;

use clawrl_core::{Boundary, Fault};

/// Whether and how often to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Never: a retry would fail in the same way.
    None,
    /// Later.
    Later,
    /// Once: a server that sends invalid data rarely recovers.
    Once,
}

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Trouble {
    /// Name of the fault.
    pub(crate) code: &'static str,
    /// For a person; already without the key.
    pub(crate) message: String,
    pub(crate) remedy: Remedy,
    /// The requested delay before the next request.
    pub(crate) retry_after: Option<Duration>,
    /// The server's own text about a refused request: without the key, and of limited length.
    pub(crate) told: Option<String>,
}

impl Trouble {
    pub(crate) fn later(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), remedy: Remedy::Later, retry_after: None, told: None }
    }

    pub(crate) fn permanent(code: &'static str, message: impl Into<String>) -> Self {
        Self { remedy: Remedy::None, ..Self::later(code, message) }
    }

    pub(crate) fn garbled(message: impl Into<String>) -> Self {
        Self { remedy: Remedy::Once, ..Self::later("reply-garbled", message) }
    }

    pub(crate) fn too_large(what: &str) -> Self {
        let message = format!("the server's {what} is larger than any reply");
        Self { remedy: Remedy::Once, ..Self::later("reply-too-large", message) }
    }

    /// Total number of tries for this error, within the allowed number.
    pub(crate) fn tries(&self, allowed: u32) -> u32 {
        match self.remedy {
            Remedy::None => 1,
            Remedy::Once => allowed.min(2),
            Remedy::Later => allowed,
        }
    }

    /// The fault after `tries` requests.
    pub(crate) fn fault(self, tries: u32) -> Fault {
        let message = match tries {
            0 | 1 => self.message,
            many => format!("{} ({many} tries)", self.message),
        };
        match self.remedy {
            Remedy::None => Fault::permanent(Boundary::Policy, self.code, message),
            Remedy::Later | Remedy::Once => Fault::transient(Boundary::Policy, self.code, message),
        }
    }
}
