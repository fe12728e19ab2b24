//! Episodes, groups and batches, as the learner takes them.

use clawrl_core::{AttemptId, GroupId};
use serde::{Deserialize, Serialize};

use crate::Segment;

/// The attempt that closed its slot, as far as learning cares.
#[derive(Debug, Clone, PartialEq)]
pub struct Episode {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Return of the episode.
    pub reward: f64,
    /// Process reward of each turn, where one was given.
    pub process: Vec<Option<f64>>,
    /// In order. An episode of several segments stays one episode.
    pub segments: Vec<Segment>,
}

/// All members of a group that did not fault, and how many did.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Its id, which is also its place in the order of dispatch.
    pub id: GroupId,
    /// Valid members in order of slot. Faulted and cancelled ones are not members.
    pub episodes: Vec<Episode>,
    /// Members that faulted.
    pub faulted: u32,
}

/// What an optimizer step descends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// Clipped policy gradient over sampled tokens.
    PolicyGradient,
    /// Mean negative log-likelihood of the trained tokens.
    Imitation,
}

/// One segment with what each of its trained tokens weighs.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainSample {
    /// Names the sample in messages and in the manifest of a checkpoint.
    pub attempt: AttemptId,
    /// The tokens.
    pub segment: Segment,
    /// Advantage of each token, shape T; read only where the mask is set.
    pub advantages: Vec<f32>,
    /// Index of the episode within the batch, for aggregation by episode.
    pub episode: u32,
}

/// What one update consumes.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainBatch {
    /// What is descended on.
    pub objective: Objective,
    /// In the order in which they are packed.
    pub samples: Vec<TrainSample>,
    /// Groups this batch uses up, those without a gradient included.
    pub groups: Vec<GroupId>,
    /// Seed of the split into minibatches.
    pub seed: u64,
}
