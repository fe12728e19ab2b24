//! Process rewards: each for one thing, and worth something.

use super::checker::Checker;
use crate::bounds;
use crate::file::{EachFile, Located, StepRewardFile};
use crate::numbers::Reals;
use crate::row::{StepEventRow, StepRewardRow, ToolcallRow};

const REWARD: Reals = Reals {
    accepts: |reward| reward != 0.0 && reward.abs() <= bounds::MAX_STEP_REWARD,
    words: "from -1 to 1, but not 0",
};

impl Checker {
    pub(super) fn step_rewards(&mut self, entries: Vec<Located<StepRewardFile>>) -> Vec<StepRewardRow> {
        entries.into_iter().filter_map(|entry| self.step_reward(entry)).collect()
    }

    fn step_reward(&mut self, entry: Located<StepRewardFile>) -> Option<StepRewardRow> {
        let Located { value: StepRewardFile { called, each, reward }, span } = entry;
        let reward = self.findings.real("reward", Some(&reward), &REWARD, 0.5);
        let event = match (called, each) {
            (Some(call), None) => StepEventRow::Called(self.call(call)),
            (None, Some(EachFile::RefusedCall)) => StepEventRow::RefusedCall,
            (None, Some(EachFile::Turn)) => StepEventRow::Turn,
            (None, None) => {
                let help = "add `called: search` for the first call of a tool, or `each: refused_call` or `each: turn`";
                self.problem(span, "this reward is for nothing", "neither `called` nor `each`", help);
                return None;
            }
            (Some(_), Some(_)) => {
                let help = "make two entries of it, each with its reward; what a step earns is added up";
                self.problem(span, "this reward is for two things", "both `called` and `each`", help);
                return None;
            }
        };
        Some(StepRewardRow { event, reward })
    }

    /// The tools that rewards name are there.
    pub(super) fn rewarded_tools_known(&mut self, toolcall: &ToolcallRow) {
        for entry in &toolcall.step_rewards {
            if let StepEventRow::Called(call) = &entry.event {
                self.declared_tool(&call.tool, call.tool.span, toolcall);
            }
        }
    }
}
