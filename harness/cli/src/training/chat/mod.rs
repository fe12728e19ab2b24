//! Chat with a model in this process.

mod backend;
mod messages;

pub(crate) use backend::embedded_backend;
