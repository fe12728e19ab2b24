//! The crate from outside: arithmetic against PyTorch, and whole runs of the asynchronous loop with a world that
//! resolves slots in any order.

#![allow(clippy::unwrap_used, reason = "all of this is test code, helpers included")]

mod golden;
mod resume;
mod running;
mod schedules;
mod world;
