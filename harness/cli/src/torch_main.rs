//! `clawrl-torch`: the command line of ClawRL, linked to libtorch.
//!
//! `clawrl` hands over to it for what needs libtorch. The same modules as in `main.rs`, but for `training`.

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
mod training;
mod wiring;

use std::process::ExitCode;

use crate::log::Log;

fn main() -> ExitCode {
    let log = Log::new();
    panic_report::caught(&log, || arguments::obey(&log)).into()
}
