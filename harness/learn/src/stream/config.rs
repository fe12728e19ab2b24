//! Settings of a stream: the schedule of generation and training, and the rules from rewards to advantages.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::{AdvantageKind, CurriculumConfig, LengthCost};

/// The schedule: which groups are generated with which parameters, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// Generation and training alternate, and every token is of the learner's version. The sequence of batches is a
    /// function of plan and outputs, independent of the order of completion. Groups without a gradient are replaced one by one.
    Synchronous,
    /// A batch is generated as a whole while the one before trains. Both wait for each other at each step.
    OneStepOff,
    /// Groups stream: batches are formed in order of completion, and dispatch runs ahead.
    Asynchronous {
        /// Versions that a trained token may be behind the learner's. Dispatch runs ahead no further than this allows
        /// when groups finish in order; tokens of stragglers beyond it are masked.
        max_staleness: u64,
    },
}

impl Schedule {
    /// Versions that a trained token may be behind the learner's at the start of a batch.
    #[must_use]
    pub fn max_staleness(self) -> u64 {
        match self {
            Self::Synchronous => 0,
            Self::OneStepOff => 1,
            Self::Asynchronous { max_staleness } => max_staleness,
        }
    }
}

/// Settings of a [`crate::GroupStream`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StreamConfig {
    /// How rewards of a group become advantages.
    pub advantage: AdvantageKind,
    /// Factor on the terms of single steps; 0 leaves process rewards out.
    pub process_weight: f64,
    /// Whether anything is learned from rewards; if not, only groups that a teacher scores are trained on.
    pub outcome_counts: bool,
    /// The penalty on long replies, if any.
    pub length: Option<LengthCost>,
    /// The schedule of generation and training.
    pub schedule: Schedule,
    /// How families are chosen; `None` keeps the order of the plan.
    pub curriculum: Option<CurriculumConfig>,
    /// Number of informative groups in a batch.
    pub batch_groups: NonZeroU32,
    /// A batch takes at most this many times `batch_groups` groups; then it is trained with the informative ones. 1 means
    /// that no group is replaced.
    pub resample_budget: NonZeroU32,
    /// Number of batches after which the stream ends.
    pub updates: u32,
    /// Root of the seeds of the batches.
    pub seed: u64,
}

impl StreamConfig {
    /// Maximum number of groups that one batch takes.
    pub(crate) fn budget(&self) -> usize {
        let budget = u64::from(self.batch_groups.get()) * u64::from(self.resample_budget.get());
        usize::try_from(budget).unwrap_or(usize::MAX)
    }

    pub(crate) fn batch(&self) -> usize {
        self.batch_groups.get() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<Schedule>) {
        assert_eq!(serde_json::from_str(text).ok(), expected, "{text}");
    }

    #[test]
    fn as_written() {
        check(r#""synchronous""#, Some(Schedule::Synchronous));
        check(r#""one_step_off""#, Some(Schedule::OneStepOff));
        let streaming = Schedule::Asynchronous { max_staleness: 4 };
        check(r#"{"asynchronous": {"max_staleness": 4}}"#, Some(streaming));
        check(r#"{"asynchronous": {"max_staleness": 4, "more": 1}}"#, None);
        check(r#""asynchronous""#, None);
    }
}
