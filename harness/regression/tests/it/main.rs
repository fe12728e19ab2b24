//! Assessments and comparisons as people and programs get them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod assessed;
mod comparing;
mod recorded;
mod rendering;
