//! Chat: a server with its keys and its record.

mod exchange;
mod judging;
mod key_file;
mod openclaw;
mod serve;
mod upstream;
mod verdict;

pub(crate) use serve::serve;
