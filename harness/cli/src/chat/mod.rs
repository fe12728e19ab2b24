//! Chat: a server with its keys and its record.

mod key_file;
mod openclaw;
mod serve;
mod upstream;

pub(crate) use serve::serve;
