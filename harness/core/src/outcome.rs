//! Outcomes of attempts, and their recorded turns.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Fault, Limit, Message, Observation, SampledTokens, ToolCall, Usage, UsageTotal};

/// Why an attempt stopped acting without anything being broken.
///
/// `terminated` and `truncated` stay apart to the last line of arithmetic: a truncated episode was cut
/// by a limit and might have gone on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The policy submitted.
    Submitted,
    /// The environment ended the episode, for the reason given (`shell-exited`, `page-done`).
    Ended(String),
    /// Truncated: the plan's number of turns was used up.
    MaxTurns,
    /// Truncated: a time limit fired; always [`Limit::Attempt`] today.
    TimeLimit(Limit),
    /// Truncated: three malformed actions in a row.
    MalformedActions,
}

impl StopReason {
    /// Whether a limit cut the episode, instead of the episode ending by itself.
    #[must_use]
    pub fn is_truncated(&self) -> bool {
        !matches!(self, Self::Submitted | Self::Ended(_))
    }
}

/// Why we chose to stop an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// A person asked (second Ctrl-C).
    Interrupted,
    /// Its group was abandoned.
    GroupAbandoned,
    /// The run ended for another reason (a harness fault, `--max-faults`).
    RunEnded,
}

/// One check of a grade.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Label from the suite, or the kind and its subject: `file_equals answer.txt`.
    pub label: String,
    /// Score in [0, 1].
    pub score: f64,
    /// Weight in the mean.
    pub weight: f64,
    /// Expected and found value, in one line.
    pub message: String,
}

/// The grade of an attempt. It never contains the agent's own claims.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grade {
    /// Weighted mean of the checks, in [0, 1].
    pub score: f64,
    /// Whether every check scored 1.
    pub passed: bool,
    /// Results of the checks.
    pub checks: Vec<CheckReport>,
    /// Things a reader must know, by stable name: `symlink-refused`, `tampered`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Usage of judges that report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_usage: Option<UsageTotal>,
    /// The submission as a unified diff, from environments whose submissions change a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
}

impl Grade {
    /// Combines check reports. With no checks the score is 0 and nothing passed.
    #[must_use]
    pub fn from_checks(checks: Vec<CheckReport>, flags: Vec<String>) -> Self {
        let total: f64 = checks.iter().map(|check| check.weight).sum();
        let weighted: f64 = checks.iter().map(|check| check.weight * check.score).sum();
        let score = if total > 0.0 { (weighted / total).clamp(0.0, 1.0) } else { 0.0 };
        let passed = !checks.is_empty() && checks.iter().all(|check| check.score >= 1.0);
        Self { score, passed, checks, flags, judge_usage: None, patch: None }
    }
}

/// The outcome of an attempt (I1): exactly one of three.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The attempt ran and was graded.
    Finished {
        /// Why it stopped acting.
        stop: StopReason,
        /// The grade.
        grade: Grade,
        /// `RewardMap` applied to the score.
        reward: f64,
    },
    /// Something broke.
    Faulted(Fault),
    /// We chose to stop it.
    Cancelled(CancelReason),
}

impl Outcome {
    /// The grade of a finished attempt.
    #[must_use]
    pub fn grade(&self) -> Option<&Grade> {
        match self {
            Self::Finished { grade, .. } => Some(grade),
            Self::Faulted(_) | Self::Cancelled(_) => None,
        }
    }
}

/// Wall-clock time of an attempt by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// From dispatch to the grant of the lease.
    pub lease: Duration,
    /// Reset.
    pub setup: Duration,
    /// Sum over turns: waiting for the policy.
    pub policy: Duration,
    /// Sum over turns: in the environment.
    pub step: Duration,
    /// Grading.
    pub grade: Duration,
    /// Closing.
    pub close: Duration,
}

/// Marks on a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnFlags {
    /// The reply was not an action; the observation gives the policy the reason.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub malformed: bool,
    /// The reply was cut by its token limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reply_truncated: bool,
}

/// One action and the next state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Reply of the policy.
    pub reply: Message,
    /// The calls read from it; empty when malformed.
    pub calls: Vec<ToolCall>,
    /// Exact sampled tokens, from policies that give them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<SampledTokens>,
    /// Usage of the reply, from policies that report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Observation after the action.
    pub observation: Observation,
    /// Process reward of the step, from environments that define one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_reward: Option<f64>,
    /// Marks.
    #[serde(default)]
    pub flags: TurnFlags,
    /// Waiting for the policy.
    pub policy_time: Duration,
    /// In the environment.
    pub step_time: Duration,
}

/// The recorded turns of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The conversation before the first action, as the policy saw it.
    pub prompt: Vec<Message>,
    /// The reset observation.
    pub reset: Observation,
    /// In order.
    pub turns: Vec<Turn>,
    /// asciicast v2 text of the terminal session, from environments that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cast: Option<String>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report(score: f64, weight: f64) -> CheckReport {
        CheckReport { label: String::new(), score, weight, message: String::new() }
    }

    #[test]
    fn no_checks_means_not_passed() {
        let grade = Grade::from_checks(Vec::new(), Vec::new());
        assert!(!grade.passed && grade.score == 0.0);
    }

    proptest! {
        #[test]
        fn score_stays_in_bounds(pairs in proptest::collection::vec((0.0..=1.0f64, 0.0..10.0f64), 0..8)) {
            let grade = Grade::from_checks(pairs.iter().map(|&(s, w)| report(s, w)).collect(), Vec::new());
            prop_assert!((0.0..=1.0).contains(&grade.score));
            prop_assert_eq!(grade.passed, !pairs.is_empty() && pairs.iter().all(|&(s, _)| s >= 1.0));
        }
    }
}
