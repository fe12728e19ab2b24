//! The crate's public interface, against numbers of other programs.

// Unexpected states end the test, in fixtures too.
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
