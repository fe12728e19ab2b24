//! Process rewards of a tool-call task.

use clawrl_core::{StepEvent, StepReward, ToolDecl};
use minijinja::Value;

use super::filler::Filler;
use crate::row::{StepEventRow, StepRewardRow};

impl<'s> Filler<'_, '_, 's> {
    /// `tools` is `None` where they could not be filled.
    pub(super) fn step_rewards(
        &mut self,
        rows: &'s [StepRewardRow],
        tools: Option<&[ToolDecl]>,
        values: &Value,
    ) -> Option<Vec<StepReward>> {
        let filled: Vec<_> = rows.iter().map(|row| self.step_reward(row, tools, values)).collect();
        filled.into_iter().collect()
    }

    fn step_reward(
        &mut self,
        row: &'s StepRewardRow,
        tools: Option<&[ToolDecl]>,
        values: &Value,
    ) -> Option<StepReward> {
        let event = match &row.event {
            StepEventRow::Called(call) => StepEvent::Called(self.pattern(call, tools, values)?),
            StepEventRow::RefusedCall => StepEvent::RefusedCall,
            StepEventRow::Turn => StepEvent::Turn,
        };
        Some(StepReward { event, reward: row.reward })
    }
}
