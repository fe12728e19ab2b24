//! From a plan to its execution: the host, sandboxes, environment providers, policies, and the scheduler's run.
//!
//! A program prepares a [`Machine`] for its plans on the main thread, starts an [`Executor`] with it, and gives it one [`Work`]
//! after another. The library does not print, exit or read arguments: progress goes to a [`Progress`], errors are
//! [`RuntimeError`]s. [`environment`] lists the environment variables that it reads.

mod agent;
mod batches;
mod cassette;
mod cassette_writer;
mod cost_limit;
pub mod env_server;
pub mod environment;
mod error;
mod execution;
pub mod host;
mod images;
mod interrupt;
mod isolation;
mod judge;
mod machine;
mod memory_sink;
mod metrics;
mod policy;
mod policy_choice;
mod programs;
mod progress;
mod remote;
mod run_name;
mod run_task;
mod secrets;
mod shell;
mod suites;
mod test_sandboxes;
pub mod training;
mod unavailable_provider;
pub mod validation;

pub use batches::{Batches, Before, Watch};
pub use cassette::{origin_of, replies_of, unreadable, unwritable};
pub use cassette_writer::CassetteWriter;
pub use cost_limit::{CostLimit, cost_of, is_used_up, refuse_unpriced, spent};
pub use error::{Reason, RuntimeError};
pub use execution::{Ended, Executor, Work, execute, recorded_end};
pub use interrupt::{FirstInterrupt, Signals};
pub use isolation::word as environments_word;
pub use judge::{model_of as judge_model_of, turn_judge};
pub use machine::{Machine, ProviderSettings, Providers, Runtime};
pub use memory_sink::{Closed, MemorySink};
pub use policy::{PolicyLoader, PolicyResources, policy_of, refuse_unseen_pictures};
pub use policy_choice::{PolicyChoice, ServerChoice};
pub use programs::Programs;
pub use progress::{NoProgress, Progress, RunningRun};
pub use remote::{key_of, remote_scorer, unusable, warn_of_open_key};
pub use run_name::{create_under, parse_run_name, stamp, unused_name};
pub use run_task::{RunTask, redacting};
pub use secrets::named as named_secrets;
pub use shell::quoted;
pub use suites::{TASKS, read_suites, suite_path};
pub use test_sandboxes::TestSandboxes;
pub use unavailable_provider::UnavailableProvider;
