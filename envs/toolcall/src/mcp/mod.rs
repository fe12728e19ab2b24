//! Tools of servers of the Model Context Protocol.
//!
//! M1. A server that is a program runs in a sandbox, never on the host.
//! M2. No call is sent twice.
//! M3. Nothing of a server outlives the owner of its connection.
//! M4. Memory is bounded, whatever a server sends.
//! M5. An unreachable server is a fault and never a result. A server that is a program in the attempt's own sandbox can
//! be broken by the agent, so its end is a result.

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
