//! The client of a server of chat in the terminal.
//!
//! I1. The key is in nothing that is shown, saved or logged, whoever said it. I2. What a server says does nothing to a terminal. I3. Standard
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
mod signals;
mod start;
mod talk;
mod terminal;
mod trouble;
mod words;

pub use error::ChatError;
pub use layout::wrapped;
pub use start::{ChatRequest, talk};
pub use talk::ChatEnd;
pub use terminal::Terminal;
