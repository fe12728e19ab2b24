//! Training: demonstrations, imitation, reinforcement learning, evaluations, learning from chat, and models for both.
//!
//! [`Trainer::plan`] checks a request, [`Trainer::run`] trains. The scheduler runs on the calling thread and fills slots on
//! demand; the learner has a thread of its own, which collects episodes into groups, makes updates and publishes parameters; the
//! sampler has another. They are connected by three things only: the channel of resolved attempts, the demand for groups, and
//! published weights. Requests, outcomes and errors are in [`clawrl_runtime::training`], so that programs without libtorch know
//! them.

mod acceptance;
mod attempt_sink;
mod best;
mod chat;
mod corpus;
mod embedded;
mod evaluation;
mod files;
mod hints;
mod judging;
mod layout;
mod learning;
mod libtorch;
mod merge;
mod name_shuffle;
mod no_signal;
mod page;
mod personal;
mod policy_init;
mod samples;
mod session;
mod settings;
mod setup;
mod teacher;
mod update_report;
mod versions;
mod warm_start;

pub use best::way_back;
pub use libtorch::Libtorch;
pub use merge::merge_adapter;
pub use personal::evaluate_personal;
pub use policy_init::init_policy;
pub use session::Trainer;
pub use versions::{diff_versions, list_versions, roll_back};
