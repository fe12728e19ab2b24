//! Checks of the answer, of the calls and of the stores of an episode.
//!
//! All of it is in this process, where the agent cannot reach. What holds of checks of the answer, which `clawrl_workspace` has,
//! holds of these. `called_in_order` without calls holds. Pure, with nothing to cancel.

mod expected;
mod rules;

pub(crate) use rules::by_rule;
