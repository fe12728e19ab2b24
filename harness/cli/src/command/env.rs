//! `clawrl env`: environments without a run.

mod check;
mod open;

use clap::Subcommand;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;

/// Checks environments, or lets another program drive one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl env check tasks/custom-python")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Runs the conformance tests on the environments of suites, with one task of each kind.
    #[command(
        after_help = "Examples:\n  clawrl env check tasks/custom-python\n  clawrl env check suite.yaml --task my-task --long-call '{\"name\": \"wait\"}'"
    )]
    Check(check::Arguments),
    /// Lets another program drive one attempt of a task, over standard input and output.
    #[command(
        after_help = "It answers `reset`, `step`, `grade` and `close`, a line each, until `close` or the end of its input:\nharness/docs/environments/custom.md\n\nExample:\n  clawrl env open tasks/swe-basics --task empty-last-page"
    )]
    Open(open::Arguments),
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    match &arguments.what {
        What::Check(arguments) => check::run(arguments, log),
        What::Open(arguments) => open::run(arguments, log),
    }
}
