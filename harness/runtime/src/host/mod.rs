//! What this machine has: read from `/proc` and `/sys`, never assumed.

pub(crate) mod browser;
pub mod capacity;
pub(crate) mod engine;
pub(crate) mod examination;
pub mod facts;
pub(crate) mod gpus;
mod learner;
pub(crate) mod open_files;
mod proc_text;
pub mod room;
