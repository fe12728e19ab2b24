//! Counts of groups, episodes and tokens by their outcome.
//!
//! I1. Every group that a batch uses up is counted once, as informative or under one reason. I2. Rewards are per
//! episode, over the valid members of all groups that were used up, including groups without a gradient.

use serde::{Deserialize, Serialize};

use crate::TokenAges;

/// The reason why a group is not trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discard {
    /// Too few valid members: fewer than two if their mean is the baseline.
    TooFew,
    /// Equal rewards, and every member passed.
    ConstantPassed,
    /// Equal rewards, and no member passed.
    ConstantFailed,
    /// Equal rewards, though some members passed and some did not.
    ConstantMixed,
    /// No member has a token to train on.
    Untrainable,
    /// Outcomes do not count, and no teacher scores the group.
    Untaught,
    /// Every token is older than the bound.
    Stale,
    /// A member was cancelled. The group is not used up.
    Cancelled,
}

/// Counts over one batch or over a whole stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamCounts {
    /// Groups trained on.
    pub informative: u64,
    /// [`Discard::TooFew`].
    pub too_few: u64,
    /// [`Discard::ConstantPassed`].
    pub constant_passed: u64,
    /// [`Discard::ConstantFailed`].
    pub constant_failed: u64,
    /// [`Discard::ConstantMixed`].
    pub constant_mixed: u64,
    /// [`Discard::Untrainable`].
    pub untrainable: u64,
    /// [`Discard::Untaught`].
    pub untaught: u64,
    /// [`Discard::Stale`].
    pub stale: u64,
    /// [`Discard::Cancelled`].
    pub cancelled: u64,
    /// Valid members of the groups used up.
    pub episodes: u64,
    /// Of those, members that passed.
    pub passed: u64,
    /// Members of the informative groups that a teacher scores.
    pub taught: u64,
    /// Sum of their rewards.
    pub reward: f64,
    /// Groups whose version was rejected. Each is also counted under its outcome.
    pub rejected: u64,
    /// Members that faulted.
    pub faulted: u64,
    /// Members whose reward was infinite, NaN or out of range.
    #[serde(alias = "not_finite")]
    pub unsound: u64,
    /// Tokens of the informative groups.
    pub tokens: TokenAges,
}

impl StreamCounts {
    /// Groups discarded for this reason.
    #[must_use]
    pub fn discarded(&self, reason: Discard) -> u64 {
        let mut copy = *self;
        *copy.cell(reason)
    }

    /// Groups used up.
    #[must_use]
    pub fn groups(&self) -> u64 {
        let constant = self.constant_passed + self.constant_failed + self.constant_mixed;
        self.informative + self.too_few + constant + self.untrainable + self.untaught + self.stale
    }

    /// Mean reward per episode; `None` without episodes.
    #[must_use]
    pub fn reward_mean(&self) -> Option<f64> {
        (self.episodes > 0).then(|| self.reward / self.episodes as f64)
    }

    /// Share of episodes that passed; `None` without episodes.
    #[must_use]
    pub fn success_rate(&self) -> Option<f64> {
        (self.episodes > 0).then(|| self.passed as f64 / self.episodes as f64)
    }

    pub(crate) fn discard(&mut self, reason: Discard) {
        *self.cell(reason) += 1;
    }

    fn cell(&mut self, reason: Discard) -> &mut u64 {
        match reason {
            Discard::TooFew => &mut self.too_few,
            Discard::ConstantPassed => &mut self.constant_passed,
            Discard::ConstantFailed => &mut self.constant_failed,
            Discard::ConstantMixed => &mut self.constant_mixed,
            Discard::Untrainable => &mut self.untrainable,
            Discard::Untaught => &mut self.untaught,
            Discard::Stale => &mut self.stale,
            Discard::Cancelled => &mut self.cancelled,
        }
    }
}

impl std::ops::AddAssign for StreamCounts {
    fn add_assign(&mut self, other: Self) {
        self.informative += other.informative;
        self.too_few += other.too_few;
        self.constant_passed += other.constant_passed;
        self.constant_failed += other.constant_failed;
        self.constant_mixed += other.constant_mixed;
        self.untrainable += other.untrainable;
        self.untaught += other.untaught;
        self.stale += other.stale;
        self.cancelled += other.cancelled;
        self.episodes += other.episodes;
        self.passed += other.passed;
        self.taught += other.taught;
        self.reward += other.reward;
        self.rejected += other.rejected;
        self.faulted += other.faulted;
        self.unsound += other.unsound;
        self.tokens += other.tokens;
    }
}

/// Counts of one batch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BatchStats {
    /// Number of the batch in the stream, from 0.
    pub update: u32,
    /// The learner's version at its start.
    pub version: u64,
    /// The counts that it uses up.
    pub counts: StreamCounts,
}
