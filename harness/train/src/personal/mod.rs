//! `clawrl eval personal`: measures how soon a policy learns the preferences of simulated users from their chat.
//!
//! The protocol is that of OpenClaw-RL (arXiv 2603.10165, and its later revision) with simulated users and questions that are
//! simple enough for a policy of half a million parameters. Questions and findings are in
//! `harness/docs/algorithms/personalization.md`.

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
