//! The learner's contract.

use crate::TrainBatch;

/// Statistics of an update. Means are over trained tokens.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct UpdateReport {
    /// Parameter version after the update.
    pub version: u64,
    /// Optimizer steps made; 0 if no token had a gradient or every step was skipped.
    pub steps: u32,
    /// Steps skipped because loss or gradient was not finite.
    pub skipped: u32,
    /// Samples named as the cause of skipped steps.
    pub culprits: Vec<String>,
    /// Aggregated loss, mean over the steps.
    pub loss: f64,
    /// Norm of the gradient before clipping, mean over the steps.
    pub grad_norm: f64,
    /// Mean entropy of the policy at trained tokens, nats.
    pub entropy: f64,
    /// Coefficient of the entropy bonus; 0 without a bonus.
    #[serde(default)]
    pub entropy_coefficient: f64,
    /// Mean of |o - b|: how far the recomputed log-probabilities are from the recorded ones.
    pub behaviour_gap: f64,
    /// Share of tokens whose ratio was clipped, or whose weight was.
    pub clip_fraction: f64,
    /// Mean estimate of the divergence from the reference, nats; 0 without a penalty.
    #[serde(default)]
    pub kl: f64,
    /// Root mean square of the outcome's contribution to the advantage of a token.
    #[serde(default)]
    pub outcome_rms: f64,
    /// Root mean square of the teacher's contribution, averaged over the candidates if it scores candidates; 0 without a teacher.
    #[serde(default)]
    pub teacher_rms: f64,
    /// Segments dropped because a recomputed log-probability was too far from the recorded one.
    pub dropped_segments: u64,
    /// Tokens with a gradient.
    pub trained_tokens: u64,
    /// All tokens that went through the model.
    pub forward_tokens: u64,
}

/// The reason why an update or a checkpoint failed. The parameters are unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LearnError {
    /// Several steps in a row had a loss or gradient that is not finite.
    #[error("{steps} optimizer steps in a row were not finite; samples: {culprits}")]
    NotFinite {
        /// Number of steps.
        steps: u32,
        /// Names of the samples of the last step.
        culprits: String,
    },
    /// The device or the library failed.
    #[error("{0}")]
    Backend(String),
    /// A checkpoint could not be written or read. The one before is intact.
    #[error("{0}")]
    Checkpoint(String),
}

/// The only writer of parameters.
///
/// Synchronous; all calls come from one OS thread, one at a time: `update`, then `publish`,
/// now and then `checkpoint`. Nothing cancels a call; the caller decides between calls. It must not block on
/// serving: [`Learner::publish`] hands over a copy and returns.
pub trait Learner: Send {
    /// Version of the current parameters: 0 before the first update, and one more after each.
    fn version(&self) -> u64;

    /// Consumes one batch and raises the version, also when no step was made.
    ///
    /// # Errors
    /// [`LearnError`]; a single step that is not finite is skipped and reported, not an error.
    fn update(&mut self, batch: &TrainBatch) -> Result<UpdateReport, LearnError>;

    /// Publishes the current parameters, which act from then on.
    ///
    /// # Errors
    /// [`LearnError::Backend`] if the engine has stopped.
    fn publish(&mut self) -> Result<(), LearnError>;

    /// Writes parameters, moments and `progress` as one atomic checkpoint. `progress` is the caller's own state, given
    /// back at a resume.
    ///
    /// # Errors
    /// [`LearnError::Checkpoint`]: the partial checkpoint is removed, and older ones are intact.
    fn checkpoint(&mut self, progress: &str) -> Result<(), LearnError>;
}
