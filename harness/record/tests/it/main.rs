//! Integration tests of the run store, on real files and with real processes.

mod child;
mod disk;
mod fixture;
mod kill;
mod resuming;
mod store;
mod summaries;
