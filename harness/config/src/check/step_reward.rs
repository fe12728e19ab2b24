//! Process rewards: each for one thing, and worth something.

use clawrl_core::{StepEvent, StepReward, ToolDecl};

use super::builder::TaskBuilder;
use crate::bounds;
use crate::file::{EachFile, Located, StepRewardFile, ToolcallFile};
use crate::numbers::Reals;

const REWARD: Reals = Reals {
    accepts: |reward| reward != 0.0 && reward.abs() <= bounds::MAX_STEP_REWARD,
    words: "from -1 to 1, but not 0",
};

impl<'s> TaskBuilder<'_, '_, 's> {
    /// `tools` is `None` if one of them is wrong.
    pub(super) fn step_rewards(
        &mut self,
        toolcall: &'s ToolcallFile,
        tools: Option<&[ToolDecl]>,
    ) -> Vec<StepReward> {
        let entries = toolcall.step_rewards.iter().flatten();
        entries.filter_map(|entry| self.step_reward(entry, toolcall, tools)).collect()
    }

    fn step_reward(
        &mut self,
        entry: &'s Located<StepRewardFile>,
        toolcall: &'s ToolcallFile,
        tools: Option<&[ToolDecl]>,
    ) -> Option<StepReward> {
        let Located { value: StepRewardFile { called, each, reward }, span } = entry;
        let reward = self.findings.real("reward", Some(reward), &REWARD, 0.5);
        let event = match (called, each) {
            (Some(call), None) => {
                let (tool, span) = Located::tool(call);
                self.declared_tool(tool, span, toolcall);
                StepEvent::Called(self.call_pattern(call, tools))
            }
            (None, Some(EachFile::RefusedCall)) => StepEvent::RefusedCall,
            (None, Some(EachFile::Turn)) => StepEvent::Turn,
            (None, None) => {
                let help = "add `called: search` for the first call of a tool, or `each: refused_call` or `each: turn`";
                self.problem(*span, "this reward is for nothing", "neither `called` nor `each`", help);
                return None;
            }
            (Some(_), Some(_)) => {
                let help = "make two entries of it, each with its reward; what a step earns is added up";
                self.problem(*span, "this reward is for two things", "both `called` and `each`", help);
                return None;
            }
        };
        Some(StepReward { event, reward })
    }
}
