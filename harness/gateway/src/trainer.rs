//! The interface between the API and the online trainer.
//!
//! I1. A user's command applies to the adapter that answers that user, and to no other. I2. Training never delays an answer.

use std::fmt;

use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::UserId;

/// Trains while the server answers. One trainer for all users.
pub trait Trainer: fmt::Debug + Send + Sync {
    /// Status of the adapter that answers a user.
    ///
    /// # Errors
    /// [`TrainerError`].
    fn view(&self, user: &UserId) -> BoxFuture<'_, Result<TrainerView, TrainerError>>;

    /// Executes a user's command, and returns the new status.
    ///
    /// Cancellation: dropping the future does not undo the command.
    ///
    /// # Errors
    /// [`TrainerError`]; nothing has changed then.
    fn command(&self, user: &UserId, command: Command) -> BoxFuture<'_, Result<TrainerView, TrainerError>>;
}

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Start an update with the waiting samples, however few.
    Train,
    /// Start no more updates until `Resume`.
    Pause,
    /// Start updates again.
    Resume,
    /// Copy an older version's weights into a new version.
    RollBack(u64),
}

/// Status of an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrainerView {
    /// Name of the adapter.
    pub adapter: String,
    /// The version that answers.
    pub version: u64,
    /// Name of the objective.
    pub objective: String,
    /// Why training is paused; `None` if it is not.
    pub paused: Option<String>,
    /// Waiting samples.
    pub waiting: u64,
    /// Samples that start an update.
    pub every_turns: u32,
    /// Seconds after which an update starts with the waiting samples.
    pub every_secs: u32,
    /// Summary of the last update; `None` before the first.
    pub last: Option<String>,
}

/// Why a command failed. Clients may see the texts, except that of `Ended`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrainerError {
    /// The version does not exist or is no longer kept.
    #[error("version {0} is not kept: {1}")]
    NoVersion(u64, String),
    /// The current state does not allow it.
    #[error("{0}")]
    Refused(String),
    /// The trainer has stopped. The text is for the log.
    #[error("the trainer has stopped: {0}")]
    Ended(String),
}
