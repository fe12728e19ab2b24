//! Integration tests of the crate, one binary: runs written by the record's own writer, their assessments and renderings.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod assessed;
mod assessing;
mod baselines;
mod comparing;
mod fixture;
mod looking;
mod planning;
mod recorded;
mod rendering;
