//! A chat client for terminals.
//!
//! I1. The key is never shown, saved or logged, even if the server sends it. I2. What a server says does nothing to a terminal. I3. Standard
//! output has replies alone. I4. A request that fails, or is cut, leaves the conversation as it was. I5. Commands are in no request for an
//! answer.
//!
//! Cancellation: an answer that is cut is dropped, which closes its connection, and the server ends it. Whatever ends the conversation, the
//! session is closed at the server first, for a few seconds at most.

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
