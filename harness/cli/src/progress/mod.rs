//! Progress of a run on standard error: bars on a terminal, plain lines otherwise.

mod bars;
mod display;
mod figures;
mod lines;

pub use display::{Display, Watched};
