//! Checks of the answer, of the calls and of the stores of an episode.
//!
//! All data is in this process, where the agent cannot reach it. The rules of answer checks in `clawrl_workspace`
//! apply. `called_in_order` without calls passes. Pure, with nothing to cancel.

mod expected;
mod rules;

pub(crate) use rules::by_rule;
