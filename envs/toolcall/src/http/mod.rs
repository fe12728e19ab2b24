//! HTTP of tools: one client for requests of the `http` tool and for servers of the Model Context Protocol.

mod ask;
mod client;
mod dial;
mod reach;
mod tool;

pub(crate) use ask::Ask;
pub(crate) use client::{HttpClient, HttpClients, SendError, USER_AGENT, root_cause};
pub(crate) use reach::Reach;
pub(crate) use tool::{HttpTool, header_map};
