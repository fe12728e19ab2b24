//! The command line: one verb, one job.
//!
//! I1. Whatever clap refuses ends with [`Exit::Refused`]; help and version end with [`Exit::Success`].

use clap::{Parser, Subcommand};

use crate::command::{clean, doctor, help, ls, new, plan, run, show, validate};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;

/// Runs suites of tasks in thousands of sandboxed environments, against any policy.
#[derive(Debug, Parser)]
#[command(
    name = "clawrl",
    version,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Example:\n  clawrl run tasks/terminal-basics --policy oracle\n\n\
                  `clawrl help exit-codes` and `clawrl help environment` explain exit codes and variables."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run suites, or go on with a run.
    Run(Box<run::Arguments>),
    /// Check suites by playing them: the no-op must fail and the oracle must pass, for every task.
    Validate(validate::Arguments),
    /// Show what a run would do, and run nothing.
    Plan(Box<plan::Arguments>),
    /// Write a new suite, or a new task into one.
    New(new::Arguments),
    /// List runs.
    Ls(ls::Arguments),
    /// Show what a run came to, and what its attempts did.
    Show(show::Arguments),
    /// Delete runs, or what dead processes left behind.
    Clean(clean::Arguments),
    /// Look at this machine: what is there, what is missing, how to get it.
    Doctor(doctor::Arguments),
    /// Explain a command, the exit codes or the environment variables.
    Help(help::Arguments),
}

/// Does what the arguments of this process say, and tells of failures.
pub(crate) fn obey(log: &Log) -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => {
            // Help goes to standard output, complaints to standard error; a closed one is nobody's problem.
            let _ = told.print();
            return if told.use_stderr() { Exit::Refused } else { Exit::Success };
        }
    };
    log.install_tracing();
    carry_out(cli.verb, log).unwrap_or_else(|failure| {
        log.failure(&failure);
        failure.exit
    })
}

fn carry_out(verb: Verb, log: &Log) -> Result<Exit, Failure> {
    match verb {
        Verb::Run(arguments) => run::run(&arguments, log),
        Verb::Validate(arguments) => validate::run(&arguments, log),
        Verb::Plan(arguments) => plan::run(&arguments, log),
        Verb::New(arguments) => new::run(&arguments, log),
        Verb::Ls(arguments) => ls::run(&arguments),
        Verb::Show(arguments) => show::run(&arguments),
        Verb::Clean(arguments) => clean::run(&arguments, log),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Help(arguments) => help::run(&arguments),
    }
}
