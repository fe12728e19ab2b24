//! Cassettes as the command line uses them: recorded from a policy, written, read, played.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod files;
mod playing;
mod recording;
mod stage;
