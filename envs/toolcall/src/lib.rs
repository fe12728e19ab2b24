//! Tool-call environment: tasks that are done by calling tools with arguments.
//!
//! [`ToolcallProvider`] is the pool. Tools that are no programs run in this process, and a task that has no others gets no
//! sandbox: such an environment costs microseconds, so there may be any number of them. Programs, among them a Python
//! interpreter that lives as long as the episode, run in a sandbox.

mod checks;
mod env;
mod ledger;
mod observe;
mod place;
mod provider;
mod python;
mod result;
mod schema;
mod toolbox;
mod tools;
mod turn;

pub use provider::{ToolcallConfig, ToolcallProvider};
