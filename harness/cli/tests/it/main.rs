//! `clawrl` as people use it: processes of the built binary, real sandboxes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]

mod ending;
mod explaining;
mod heavy;
mod lacking;
mod listing;
mod normal_user;
mod place;
mod refusing;
mod replaying;
mod running;
mod stopping;
mod terminal;
#[cfg(feature = "torch")]
mod training;
mod validating;
