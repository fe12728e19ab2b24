//! Chat: a server with its keys and its record, and a client in the terminal.

mod client;
mod exchange;
mod judging;
mod key_file;
mod openclaw;
mod serve;
mod upstream;
mod verdict;

pub(crate) use client::talk;
pub(crate) use serve::serve;
