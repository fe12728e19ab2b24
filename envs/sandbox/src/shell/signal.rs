//! Signals to the foreground job, and the trait that delivers them.

use std::io;
use std::str::FromStr;

use clawrl_core::BoxFuture;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A signal that a policy may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JobSignal {
    /// Interrupt, as C-c.
    Int,
    /// Terminate.
    Term,
    /// Kill; cannot be caught.
    Kill,
    /// Stop, as C-z.
    Tstp,
    /// Continue after a stop.
    Cont,
    /// Quit, as C-\.
    Quit,
}

impl JobSignal {
    pub(super) fn number(self) -> Signal {
        match self {
            Self::Int => Signal::INT,
            Self::Term => Signal::TERM,
            Self::Kill => Signal::KILL,
            Self::Tstp => Signal::TSTP,
            Self::Cont => Signal::CONT,
            Self::Quit => Signal::QUIT,
        }
    }
}

/// An unknown signal name. Shown to the policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no signal `{name}`; signals: INT, TERM, KILL, TSTP, CONT, QUIT")]
pub struct UnknownSignal {
    /// As it was written.
    pub name: String,
}

impl FromStr for JobSignal {
    type Err = UnknownSignal;

    /// With or without `SIG`, in any case.
    fn from_str(name: &str) -> Result<Self, UnknownSignal> {
        let upper = name.to_ascii_uppercase();
        match upper.strip_prefix("SIG").unwrap_or(&upper) {
            "INT" => Ok(Self::Int),
            "TERM" => Ok(Self::Term),
            "KILL" => Ok(Self::Kill),
            "TSTP" => Ok(Self::Tstp),
            "CONT" => Ok(Self::Cont),
            "QUIT" => Ok(Self::Quit),
            _ => Err(UnknownSignal { name: name.to_owned() }),
        }
    }
}

/// Delivers signals that cannot go through the terminal.
///
/// A session calls it with the current foreground group; the group may have ended when the signal is delivered, which
/// is not an error. It must not signal anything outside the session's sandbox.
pub trait ForegroundKiller: Send + Sync {
    /// Signals every process of the group, as numbered for this process.
    ///
    /// # Errors
    /// When the group exists but cannot be signalled.
    fn signal_group(&self, group: Pid, signal: JobSignal) -> BoxFuture<'_, io::Result<()>>;
}

/// Uses kill(2) from this process: correct if its user may signal the session's processes.
#[derive(Debug, Clone, Copy, Default)]
pub struct DirectKiller;

impl ForegroundKiller for DirectKiller {
    fn signal_group(&self, group: Pid, signal: JobSignal) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            match rustix::process::kill_process_group(group, signal.number()) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<JobSignal>) {
        assert_eq!(name.parse().ok(), expected, "{name}");
    }

    #[test]
    fn names() {
        check("INT", Some(JobSignal::Int));
        check("sigkill", Some(JobSignal::Kill));
        check("9", None);
        check("HUP", None);
    }
}
