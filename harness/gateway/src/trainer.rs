//! Whoever learns from the record, as the API sees it.
//!
//! I1. What a user asks for is done to the adapter that answers them, and to no other. I2. Nothing of it ever makes an answer wait.

use std::fmt;

use futures_util::future::BoxFuture;
use serde::Serialize;

use crate::UserId;

/// Learns beside the answers. One for all users.
pub trait Trainer: fmt::Debug + Send + Sync {
    /// How it stands with the adapter that answers a user.
    ///
    /// # Errors
    /// [`TrainerError`].
    fn view(&self, user: &UserId) -> BoxFuture<'_, Result<TrainerView, TrainerError>>;

    /// Does what a user asks for, and says how it stands then.
    ///
    /// Cancellation: what was asked for is done, also where nobody waits for it any more.
    ///
    /// # Errors
    /// [`TrainerError`]; then nothing has changed.
    fn command(&self, user: &UserId, command: Command) -> BoxFuture<'_, Result<TrainerView, TrainerError>>;
}

/// What may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// To make an update of the samples that wait, however few they are.
    Train,
    /// To make no updates until it is told to go on.
    Pause,
    /// To go on.
    Resume,
    /// To go back to what a version has, under a new number.
    RollBack(u64),
}

/// How it stands with an adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrainerView {
    /// Its name.
    pub adapter: String,
    /// The version that answers.
    pub version: u64,
    /// What is maximised.
    pub objective: String,
    /// Why no updates are made, where none are.
    pub paused: Option<String>,
    /// Samples that wait.
    pub waiting: u64,
    /// Samples with which an update begins by itself.
    pub every_turns: u32,
    /// Seconds after which an update begins with what waits.
    pub every_secs: u32,
    /// What the last update came to, in words; nothing before the first.
    pub last: Option<String>,
}

/// Why something is not done. Texts may be shown to whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrainerError {
    /// The version is not kept, or never was.
    #[error("version {0} is not kept: {1}")]
    NoVersion(u64, String),
    /// It cannot be done as things are.
    #[error("{0}")]
    Refused(String),
    /// It does not learn any more. What is wrong is for the log.
    #[error("learning has ended: {0}")]
    Ended(String),
}
