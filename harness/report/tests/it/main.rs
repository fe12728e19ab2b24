//! Runs written by the record's own writer, and what is reported of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod atif;
mod fixture;
mod golden;
mod pages;
mod runs;
mod terminal;
mod thumbnails;
