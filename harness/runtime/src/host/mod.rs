//! Resources and programs of the host: read from `/proc` and `/sys`, never assumed.

pub(crate) mod browser;
pub mod capacity;
pub mod engine;
mod examination;
pub mod facts;
mod finding;
pub(crate) mod gpus;
mod libtorch;
pub mod open_files;
mod proc_text;
pub mod room;
mod training;

pub use examination::examine;
pub use finding::{Finding, Health};
pub use libtorch::{Libtorch, LinkedLibtorch};
pub use training::{TrainingProgram, training_finding};
