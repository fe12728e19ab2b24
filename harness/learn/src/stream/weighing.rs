//! The worth of each turn of a group's episodes: the outcome of its episode, and its own process reward.
//!
//! I1. The advantage of a turn is that of its episode plus the weight times the term of its step. I2. With a weight of 0,
//! or without process rewards, all turns of an episode have the same advantage.
//!
//! Pure; nothing to cancel.

use crate::length::LengthPunishment;
use crate::{AdvantageKind, Episode, process_advantages};

/// The rules from rewards to advantages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Weighing {
    pub(crate) kind: AdvantageKind,
    /// Factor on the terms of single steps.
    pub(crate) process: f64,
    /// Whether the stream learns from outcomes.
    pub(crate) outcome_counts: bool,
    /// The current penalty on long replies, if any.
    pub(crate) length: Option<LengthPunishment>,
}

/// The advantages of an episode.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct EpisodeAdvantage {
    pub(crate) outcome: f64,
    /// Weighted term of each turn. Turns after the last entry have none.
    pub(crate) steps: Vec<f64>,
}

impl Weighing {
    /// Combines the episode's advantage with the terms of its steps.
    pub(crate) fn advantages(self, outcomes: Vec<f64>, episodes: &[Episode]) -> Vec<EpisodeAdvantage> {
        if self.process == 0.0 {
            let alone = |outcome| EpisodeAdvantage { outcome, steps: Vec::new() };
            return outcomes.into_iter().map(alone).collect();
        }
        let rewards: Vec<&[Option<f64>]> =
            episodes.iter().map(|episode| episode.process.as_slice()).collect();
        let weighted = |terms: Vec<f64>| terms.into_iter().map(|term| self.process * term).collect();
        let steps = process_advantages(&rewards).into_iter().map(weighted);
        outcomes.into_iter().zip(steps).map(|(outcome, steps)| EpisodeAdvantage { outcome, steps }).collect()
    }
}

impl EpisodeAdvantage {
    /// The advantage of the tokens of a turn.
    pub(crate) fn of_turn(&self, turn: u32) -> f64 {
        self.outcome + self.steps.get(turn as usize).copied().unwrap_or(0.0)
    }

    /// Whether process rewards affect this episode.
    pub(crate) fn tells_steps_apart(&self) -> bool {
        self.steps.iter().any(|&term| term != 0.0)
    }
}
