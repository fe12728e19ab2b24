//! Rewards of single steps, independent of the checks.
//!
//! W1. The first call that matches a pattern earns its reward; later ones do not.
//! W2. Only executed calls count as calls, as in checks.
//! W3. A task without such rewards gives none, which differs from 0. Pure; nothing to cancel.

use clawrl_core::{StepEvent, StepReward};

use crate::call_log::CallLog;

/// The process rewards that were earned.
#[derive(Debug, Default)]
pub(crate) struct EarnedRewards {
    /// For each reward, whether it was earned; used for those that are earned once.
    earned: Vec<bool>,
}

impl EarnedRewards {
    /// The process reward of a step, given the calls so far and the number of refused calls.
    pub(crate) fn step(&mut self, rewards: &[StepReward], call_log: &CallLog, refused: usize) -> Option<f64> {
        self.earned.resize(rewards.len(), false);
        let worth = |(reward, earned): (&StepReward, &mut bool)| match &reward.event {
            StepEvent::Called(pattern) => {
                let is_new = !*earned && call_log.matching(pattern) > 0;
                *earned |= is_new;
                if is_new { reward.reward } else { 0.0 }
            }
            StepEvent::RefusedCall => reward.reward * refused as f64,
            StepEvent::Turn => reward.reward,
            _ => 0.0,
        };
        (!rewards.is_empty()).then(|| rewards.iter().zip(&mut self.earned).map(worth).sum())
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::{CallPattern, ToolCall};
    use serde_json::json;

    use super::*;

    #[test]
    fn w1_w2_w3_steps_earn_their_rewards() {
        let called = |tool: &str, arguments: serde_json::Value| {
            let arguments = arguments.as_object().cloned().unwrap_or_default();
            StepEvent::Called(CallPattern { tool: tool.to_owned(), arguments })
        };
        let rewards = [
            StepReward { event: called("find", json!({"key": "x"})), reward: 0.5 },
            StepReward { event: called("add", json!({})), reward: 0.25 },
            StepReward { event: StepEvent::RefusedCall, reward: -1.0 },
            StepReward { event: StepEvent::Turn, reward: -0.125 },
        ];
        let (mut earnings, mut call_log) = (EarnedRewards::default(), CallLog::default());
        let mut check = |calls: &[ToolCall], refused: usize, expected: f64| {
            calls.iter().for_each(|call| call_log.note(call));
            assert_eq!(
                earnings.step(&rewards, &call_log, refused),
                Some(expected),
                "{calls:?}, {refused} refused"
            );
        };
        let find = |key: &str| ToolCall::new("find", json!({ "key": key }));
        check(&[find("y")], 0, -0.125);
        check(&[find("x"), ToolCall::new("add", json!({}))], 1, 0.5 + 0.25 - 1.0 - 0.125);
        check(&[find("x")], 2, -2.125);
        assert_eq!(EarnedRewards::default().step(&[], &call_log, 3), None);
    }
}
