//! An environment that is a server, asked over HTTP.

mod client;
mod session;

pub(crate) use client::{Connection, HttpClient};
pub(crate) use session::HttpSession;
