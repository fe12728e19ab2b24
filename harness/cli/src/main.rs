//! `clawrl`: the command line of ClawRL.
//!
//! Arguments, wiring, progress, diagnostics and exit codes; everything else is in the libraries. Standard output
//! is data, standard error is log. [`exit_code`] has the exit codes, [`environment`] the environment variables.

// The modules are those of `clawrl-torch`, too, whose build tells of code that neither program uses.
#![allow(dead_code, unused_imports)]

mod agent;
mod arguments;
mod chat;
mod command;
mod driven;
mod environment;
mod exit_code;
mod failure;
mod host;
mod interrupt;
mod judge_choice;
mod log;
mod output;
mod panic_report;
mod plan_request;
mod policy_choice;
mod profile;
mod progress;
mod redaction;
mod results;
mod suite_path;
mod table;
// Unit tests are those of this program; with libtorch, they include those of the module that the other one has here.
#[cfg_attr(not(all(test, feature = "torch")), path = "training_elsewhere.rs")]
mod training;
mod wiring;

use std::process::ExitCode;

use crate::log::Log;

fn main() -> ExitCode {
    let log = Log::new();
    panic_report::caught(&log, || arguments::obey(&log)).into()
}
