//! Policies that need no model: they validate suites, make demonstrations and repeat recorded runs.
//!
//! | policy | plays |
//! |---|---|
//! | [`Noop`] | `submit`, at once: must pass no task |
//! | [`Oracle`] | the task's oracle, then `submit`: must pass every task |
//! | [`Demonstrator`] | the oracle with a given probability, else one of the task's mistakes |
//! | [`Random`] | lines drawn from a list |
//! | [`Replay`] | the replies of a recorded run, verbatim |
//!
//! A task whose solution depends on what is shown names a solver instead of actions, which reads the observations:
//! [`solved_families`] of MiniWoB++, and random clicks.
//!
//! I1. A reply is a function of the policy's construction and of the request's `task`, `attempt.slot`,
//! `turn`, `seed` and `tools`; for solvers also of the `conversation`. No policy keeps state between turns, so the order of attempts and
//! turns, retries and resumes change nothing (I8 of the architecture).
//! I2. The position in a script is the request's turn index, never the length of the conversation: a
//! malformed turn counts, and a trimmed conversation does not shift the script.
//! I3. If the raw format can express a call, the reply contains it both as a call and as raw text, so
//! that demonstrations can be rendered in either form. Reading the text back gives the call.
//!
//! Errors: permanent policy faults `no-oracle`, `no-mistakes`, `replay-miss` and `replay-exhausted`.
//! Cancellation: every reply is ready at once.

mod demonstrator;
mod miniwob;
mod noop;
mod oracle;
mod page;
mod random;
mod replay;
mod script;
mod slot_tasks;
mod solver;

pub use demonstrator::Demonstrator;
pub use miniwob::solved_families;
pub use noop::Noop;
pub use oracle::Oracle;
pub use random::Random;
pub use replay::{Replay, ReplayKey, recorded_action};
pub use script::script_actions;
pub use slot_tasks::SlotTasks;
