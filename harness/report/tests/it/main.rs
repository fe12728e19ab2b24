//! Runs written by the record's own writer, and their reports.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod atif;
mod fixture;
mod golden;
mod pages;
mod runs;
mod terminal;
mod thumbnails;
