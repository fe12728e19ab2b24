//! Integration tests of the crate, one binary.

#![allow(clippy::unwrap_used)]

mod examples;
mod miniwob;
mod parquet;
mod place;
mod refusals_of_harbor;
mod refusals_of_terminal_bench;
mod rows;
mod swe;
mod writing;
