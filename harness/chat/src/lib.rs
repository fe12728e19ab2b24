//! A chat client for terminals.
//!
//! I1. The key is never shown, saved or logged, even if the server sends it. I2. Server text cannot control the
//! terminal. I3. Standard output contains only replies. I4. A failed or interrupted request does not change the
//! conversation. I5. Commands are never part of a request for an answer.
//!
//! Cancellation: interrupting an answer drops it, which closes its connection, and the server stops it. Before the
//! conversation ends for any reason, the client closes the session at the server, within a few seconds.

mod answer;
mod commands;
mod conversation;
mod error;
mod input;
mod layout;
mod learning;
mod lines;
mod screen;
mod server;
mod session;
mod signals;
mod start;
mod terminal;
mod trouble;
mod words;

pub use error::ChatError;
pub use layout::wrapped;
pub use session::ChatEnd;
pub use start::{ChatRequest, talk};
pub use terminal::Terminal;
