//! The command line of ClawRL: arguments, output and exit codes. The programs `clawrl` and `clawrl-torch` only contain
//! `main`.
//!
//! Standard output carries data, standard error the log. [`exit_code`] has the exit codes; [`failure`] maps the errors
//! of the libraries to them.

mod arguments;
mod command;
mod exit_code;
mod failure;
mod judge_choice;
mod log;
mod output;
mod panic_report;
mod plan_request;
mod program;
mod progress;
mod redaction;
mod results;
mod table;
mod torch_handoff;
mod training;

// For `redaction`.
use clawrl_runtime as wiring;
use clawrl_runtime::environment;

pub use program::{Build, Program};
pub use training::Training;
