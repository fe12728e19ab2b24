//! Process rewards of tool-call tasks, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::CallFile;
use super::located::Located;
use crate::bounds;

/// What a single step is worth, apart from the checks: exactly one of `called` and `each`, and a reward.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepReward")]
pub(crate) struct StepRewardFile {
    /// For the first call of the episode that is like this: the name of a tool, or a map with `tool` and `arguments`.
    pub(crate) called: Option<Located<CallFile>>,
    /// For each of these, as often as it comes.
    pub(crate) each: Option<EachFile>,
    /// How much, from -1 to 1 and not 0. What a step earns for several reasons is added up.
    #[schemars(range(min = -bounds::MAX_STEP_REWARD, max = bounds::MAX_STEP_REWARD))]
    pub(crate) reward: Located<f64>,
}

/// What may come again and again.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum EachFile {
    /// A call that is refused: of no tool, or with arguments that do not fit.
    RefusedCall,
    /// An action, whatever it is.
    Turn,
}
