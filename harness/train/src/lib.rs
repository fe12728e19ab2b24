//! `clawrl train`: demonstrations, imitation, reinforcement learning, evaluations, and the page about it.
//!
//! The scheduler runs on the main thread and fills slots as they are wanted; the learner has a thread of its own,
//! which collects episodes into groups, makes updates and publishes parameters; the engine has another. They are
//! joined by three things only: the channel of resolved attempts, the demand for groups, and published weights.

mod beginning;
mod best;
mod chat;
mod command;
mod corpus;
mod display;
mod embedded;
mod evaluation;
mod exchange;
mod feed;
mod files;
mod gate;
mod hints;
mod judging;
mod layout;
mod learning;
mod libtorch;
mod merge;
mod page;
mod personal;
mod policy_init;
mod samples;
mod seeds;
mod session;
mod settings;
mod silence;
mod teacher;
mod versions;
mod warm_start;

pub use libtorch::Libtorch;
