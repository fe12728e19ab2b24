//! Progress of a run on standard error: bars on a terminal, plain lines otherwise.

mod bars;
mod display;
mod figures;
mod lines;
mod updates;

pub(crate) use display::Display;
pub(crate) use updates::{skipped_line, update_line};
