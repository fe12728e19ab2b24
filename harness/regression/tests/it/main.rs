//! Integration tests of the crate, one binary: runs written by the record's own writer, and what is said of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod assessing;
mod baselines;
mod fixture;
mod looking;
mod planning;
