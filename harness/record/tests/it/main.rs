//! Integration tests of the run store, on real files and with real processes.

// What is not as it should be ends the test, in its fixtures too.
#![allow(clippy::unwrap_used)]

mod blobs;
mod child;
mod disk;
mod fixture;
mod formats;
mod kill;
mod resuming;
mod store;
mod summaries;
mod training;
