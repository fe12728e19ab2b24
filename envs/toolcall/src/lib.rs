//! Tool-call environment: tasks that are done by calling tools with arguments.
//!
//! [`ToolcallProvider`] is the pool. Tools that are no programs run in this process, and a task that has no others gets no
//! sandbox: such an environment costs microseconds, so there may be any number of them. Programs, among them a Python
//! interpreter that lives as long as the episode, run in a sandbox; so do servers of the Model Context Protocol that are
//! programs. Requests over HTTP are made by this process, to what a suite allows.

mod checks;
mod env;
mod http;
mod ledger;
mod mcp;
mod observe;
mod place;
mod provider;
mod python;
mod result;
mod secret;
mod step_reward;
mod toolbox;
mod tools;
mod turn;

pub use provider::{ToolcallConfig, ToolcallProvider};
pub use secret::Secrets;
