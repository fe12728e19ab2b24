//! Chat with a model in this process.

mod backend;
mod lesson;
mod messages;

pub(crate) use backend::embedded_backend;
