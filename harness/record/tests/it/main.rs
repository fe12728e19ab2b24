//! Integration tests of the run store, on real files and with real processes.

// Panics end the test, also in fixtures.
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
