//! Why a program has no result.

use clawrl_core::{Boundary, Fault};

/// Why a program has no result.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// It was not run. The cause may lie with the agent if the agent could change the sandbox.
    #[error("{message}")]
    NotRun {
        /// What prevented the run.
        obstacle: NotRun,
        /// Explanation.
        message: String,
    },
    /// The machine failed, or the sandbox has ended.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// What prevented a program from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum NotRun {
    /// The workspace cannot be entered.
    Folder,
    /// The program does not exist or is not executable.
    Program,
    /// The launcher failed: no process could be created, or the sandbox has ended.
    Launcher,
}

/// For callers that run a program where no agent could have interfered.
impl From<ExecError> for Fault {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::NotRun { obstacle: NotRun::Launcher, message } => {
                Self::transient(Boundary::Env, "launch-failed", message)
            }
            ExecError::NotRun { message, .. } => Self::permanent(Boundary::Env, "not-run", message),
            ExecError::Fault(fault) => fault,
        }
    }
}
