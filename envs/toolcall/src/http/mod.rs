//! HTTP of tools: one client for the `http` tool and for servers of the Model Context Protocol.

mod client;
mod destinations;
mod dial;
mod http_request;
mod tool;

pub(crate) use client::{HttpClient, HttpClients, SendError, USER_AGENT, root_cause};
pub(crate) use destinations::Destinations;
pub(crate) use http_request::HttpRequest;
pub(crate) use tool::{HttpTool, header_map};
