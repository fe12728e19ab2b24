//! Tasks of Terminal-Bench 0.x.

mod keys;
mod locate;
mod solution;
mod task;

pub(crate) use keys::KEYS;
pub(crate) use locate::locate;
pub(crate) use task::{document, read_document};
