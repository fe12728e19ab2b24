//! From a checked row and chosen values to a task.
//!
//! I1. A task that comes out of here has only values that keep the rules of [`crate::value`].
//! I2. The same code tries instances when a suite is checked and makes those of a plan.

mod answers;
mod checks;
mod custom;
mod expected;
mod filler;
mod gui;
mod image;
mod schema;
mod served;
mod step_reward;
mod swe;
mod task;
mod terminal;
mod toolcall;
mod trial;
mod workspace;

pub(crate) use filler::Filler;
pub(crate) use task::task_id;
pub(crate) use trial::{assignments, try_instances};
