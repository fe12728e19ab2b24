//! `clawrl ci`: gates and their baselines.
//!
//! `clawrl-regression` computes verdicts from the record; this module runs the candidate in batches.

mod accept;
mod arguments;
mod candidate;
mod judge;
mod outputs;
mod plan;
mod trial;
mod words;

pub(crate) use arguments::{Arguments, run};
