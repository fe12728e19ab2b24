//! Chat: a server with its keys and its record.

mod key_file;
mod serve;

pub(crate) use serve::serve;
