//! Chat: a server with its keys and its record, and a client in the terminal.

mod client;
mod exchange;
mod judging;
mod key_file;
mod one_turn;
mod openclaw;
mod serve;
mod source;
mod telling;
mod upstream;
mod verdict;

pub(crate) use client::talk;
pub use one_turn::asked_of;
pub(crate) use serve::serve;
pub use verdict::{Judged, Worth, worth};
