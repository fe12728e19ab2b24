//! Terminal environment: tasks in a persistent sandboxed shell.
//!
//! [`TerminalProvider`] is the pool; each environment drives one shell, and is graded as `clawrl-workspace` does, where
//! the agent cannot tamper.

mod env;
mod observe;
mod provider;
mod tools;

pub use provider::{TerminalConfig, TerminalProvider};
