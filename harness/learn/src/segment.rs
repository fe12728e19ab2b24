//! Segments: the input of one forward pass.
//!
//! I1. All columns have the same length T. I2. A token is trained (mask) only if it was sampled, so it has a
//! behaviour log-probability and a version; the first token of a segment never is, since nothing predicts it.
//!
//! Shapes: every column is T. Units: log-probabilities in nats at the token's temperature, full vocabulary.

use serde::{Deserialize, Serialize};

/// A maximal run of turns whose context only appends.
///
/// Position `t` holds token `ids[t]`; its log-probability is predicted from `ids[..t]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Token ids, prompt and observations included.
    pub ids: Vec<u32>,
    /// Whether this token was sampled and is trained on (m).
    pub mask: Vec<bool>,
    /// Behaviour log-probability of sampled tokens (b); 0 elsewhere.
    pub behaviour: Vec<f32>,
    /// Policy version that sampled the token; 0 elsewhere.
    pub versions: Vec<u64>,
    /// Temperature the token was sampled at; 1 elsewhere.
    pub temperatures: Vec<f32>,
    /// Turn of the episode, from 0, that the token was sampled in; 0 elsewhere.
    pub turns: Vec<u32>,
}

impl Segment {
    /// Number of tokens, T.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Number of trained tokens.
    #[must_use]
    pub fn trained(&self) -> usize {
        self.mask.iter().filter(|&&trained| trained).count()
    }

    /// Whether I1 holds and the first token is not trained.
    #[must_use]
    pub fn is_consistent(&self) -> bool {
        let columns = [
            self.mask.len(),
            self.behaviour.len(),
            self.versions.len(),
            self.temperatures.len(),
            self.turns.len(),
        ];
        columns.iter().all(|&column| column == self.len()) && !self.mask.first().copied().unwrap_or(false)
    }

    /// Appends context: tokens that were not sampled.
    pub fn push_context(&mut self, ids: &[u32]) {
        self.ids.extend_from_slice(ids);
        let len = self.ids.len();
        self.mask.resize(len, false);
        self.behaviour.resize(len, 0.0);
        self.versions.resize(len, 0);
        self.temperatures.resize(len, 1.0);
        self.turns.resize(len, 0);
    }

    /// Appends one token that was sampled in this turn.
    pub fn push_sampled(&mut self, turn: u32, id: u32, behaviour: f32, version: u64, temperature: f32) {
        self.ids.push(id);
        self.mask.push(self.ids.len() > 1);
        self.behaviour.push(behaviour);
        self.versions.push(version);
        self.temperatures.push(temperature);
        self.turns.push(turn);
    }
}
