//! `clawrl ci`: gates, what they compare with, and what they say.
//!
//! The verdict is that of `clawrl-regression`, from the record; here the candidate is run, batch by batch.

mod accept;
mod arguments;
mod candidate;
mod judge;
mod outputs;
mod plan;
mod trial;
mod words;

pub(crate) use arguments::{Arguments, run};
