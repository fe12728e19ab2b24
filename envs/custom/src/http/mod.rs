//! An environment that is an HTTP server.

mod client;
mod session;

pub(crate) use client::{Connection, HttpClient};
pub(crate) use session::HttpSession;
