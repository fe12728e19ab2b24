//! Verdicts over whole suites, statistics against those of others, and pipelines of which the truth is known.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod golden;
mod pipelines;
mod sentences;
mod verdicts;
