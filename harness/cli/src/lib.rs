//! The command line of ClawRL, as a library: the programs `clawrl` and `clawrl-torch` are a `main` each.
//!
//! Arguments, wiring, progress, diagnostics and exit codes; everything else is in the libraries below. Standard output
//! is data, standard error is log. [`exit_code`] has the exit codes, [`environment`] the environment variables.

mod agent;
mod arguments;
pub mod chat;
pub mod command;
mod driven;
mod environment;
pub mod exit_code;
pub mod failure;
mod hand_over;
pub mod host;
pub mod interrupt;
mod judge_choice;
mod libtorch;
mod local_server;
pub mod log;
pub mod output;
mod panic_report;
pub mod plan_request;
mod policy_choice;
mod program;
pub mod progress;
mod redaction;
pub mod results;
mod suite_path;
pub mod table;
pub mod training;
pub mod wiring;

pub use program::Program;
