//! The crate from outside, against the numbers of others.

// What is not as it should be ends the test, in its fixtures too.
#![allow(clippy::unwrap_used)]

mod adapters;
mod bf16;
mod devices;
mod engine;
mod learner;
mod objectives;
mod policy;
mod scoring;
mod streaming;
mod tokenizer;
mod trl;
