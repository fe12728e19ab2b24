//! Tools of servers of the Model Context Protocol.
//!
//! M1. A server that is a program runs in a sandbox, never on the host. M2. No call is sent twice. M3. Nothing of a server
//! outlives who holds its connection. M4. Memory is bounded, whatever a server says. M5. A server that cannot be reached is a
//! fault and never a result; one that is a program in the attempt's own sandbox is there for the agent to break, so that its
//! end is a result.

mod connection;
mod endpoint;
mod listing;
mod message_repair;
mod pending_requests;
mod pool;
mod result_text;
mod server;
mod traffic_log;

pub(crate) use listing::ServedTool;
pub(crate) use pool::McpPool;
pub(crate) use server::{Server, ServerContext};
