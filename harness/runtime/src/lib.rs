//! From a plan to what it runs on: machine, providers, policy, and the execution itself.

mod cassette;
mod execution;
mod images;
mod isolation;
mod judge;
mod machine;
mod memory_sink;
mod metrics;
mod policy;
mod programs;
mod remote;
mod secrets;
mod test_sandboxes;
mod unprovided;

pub(crate) use cassette::{asked_of, origin_of, unreadable, unwritable};
pub use execution::{Ended, Executor, Work, execute};
pub(crate) use isolation::word as environments_word;
pub(crate) use judge::model_of as judge_model_of;
pub use judge::turn_judge;
pub(crate) use machine::ProviderSettings;
pub use machine::{Machine, Workplace};
pub(crate) use memory_sink::{Closed, MemorySink};
pub use policy::refuse_unseen_pictures;
pub(crate) use policy::{Supplies, policy_of};
pub(crate) use programs::Programs;
pub use remote::{key_of, remote_scorer};
pub(crate) use remote::{unusable, warn_of_open_key};
pub(crate) use secrets::named as named_secrets;
pub(crate) use test_sandboxes::TestSandboxes;
pub(crate) use unprovided::Unprovided;
