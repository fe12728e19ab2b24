//! `clawrl eval personal`: simulated users with a preference each, and how soon a policy that is learned from their chat has it.
//!
//! The protocol is that of OpenClaw-RL (arXiv 2603.10165, and its later revision) with users that are programs, in a world that is small enough for
//! a policy of half a million parameters. What it asks and what it finds is in `harness/docs/algorithms/personalization.md`.

mod arm;
mod command;
mod findings;
mod kept;
mod measure;
mod page;
mod protocol;
mod start;
mod statistics;
mod style;
mod taught;
mod user;
mod world;

pub use command::evaluate_personal;
