//! Tool-call environment: tasks that are solved by calling tools with arguments.
//!
//! [`ToolcallProvider`] is the pool. Tools that are not programs run in this process, and a task without program tools
//! gets no sandbox: such an environment costs microseconds, so there may be any number of them. Programs, among them a
//! Python interpreter that lives as long as the episode, run in a sandbox; so do servers of the Model Context Protocol
//! that are programs. This process makes HTTP requests, to URLs that a suite permits.

mod action_calls;
mod call_log;
mod checks;
mod env;
mod http;
mod mcp;
mod observe;
mod provider;
mod python;
mod ready_sandbox;
mod result;
mod secret;
mod step_reward;
mod toolbox;
mod tools;

pub use provider::{ToolcallConfig, ToolcallProvider};
pub use secret::Secrets;
