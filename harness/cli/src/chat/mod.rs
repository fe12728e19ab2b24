//! Chat: a server with its keys and its record.

mod key_file;
mod serve;
mod upstream;

pub(crate) use serve::serve;
