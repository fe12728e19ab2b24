//! Process rewards of a tool-call task.

use super::check::CallRow;

/// What earns a process reward, and how much.
#[derive(Debug)]
pub(crate) struct StepRewardRow {
    pub(crate) event: StepEventRow,
    pub(crate) reward: f64,
}

#[derive(Debug)]
pub(crate) enum StepEventRow {
    Called(CallRow),
    RefusedCall,
    Turn,
}
