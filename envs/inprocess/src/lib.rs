//! Environments written as Rust types, in the process that runs them.
//!
//! Three traits, from the smallest: [`SingleTurn`] asks once and scores the reply, [`MultiTurn`] keeps a state over several
//! replies, [`ToolEnv`] offers tools. Each task is a [`Row`], for example a line of a JSONL file. An [`InProcessProvider`]
//! serves them to the scheduler.
//!
//! The code of an environment runs on threads for blocking work, with the time limits of its task, and a panic in it is a
//! fault of the attempt. It is not isolated: what an agent may run itself belongs into a sandbox.

mod env;
mod episode;
mod provider;
mod row;
mod traits;

pub use episode::{Environment, IntoEnvironment, kind};
pub use provider::InProcessProvider;
pub use row::{Field, Row};
pub use traits::{MultiTurn, SingleTurn, Step, Tool, ToolEnv};
