//! Terminal environment: tasks in a persistent sandboxed shell.
//!
//! Each environment drives one shell, and is graded by `clawrl-workspace`, where the agent cannot tamper. [`Terminals`]
//! is the pool, which also serves other environments whose agents have a shell.

mod env;
mod observe;
mod pool;
mod provider;
mod ready;
mod tools;

pub use observe::Observed;
pub use pool::{TerminalConfig, TerminalShared, Terminals};
pub use provider::TerminalProvider;
pub use ready::ReadyTerminal;
