//! The command line: one verb, one job.
//!
//! I1. Arguments that clap refuses end with [`Exit::Refused`], help and version with [`Exit::Success`].

use clap::{Parser, Subcommand};

use crate::command::{
    cassette, chat, ci, clean, compare, completions, doctor, env, eval, help, import, ls, man, metrics, new,
    plan, policy, report, run, serve, show, train, validate, view,
};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;

/// Runs and trains language-model agents in thousands of sandboxed environments.
#[derive(Debug, Parser)]
#[command(
    name = "clawrl",
    version = crate::program::version(),
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

/// The help text of each command is at its arguments.
#[derive(Debug, Subcommand)]
enum Verb {
    Run(Box<run::Arguments>),
    Train(train::Arguments),
    Policy(policy::Arguments),
    Serve(serve::Arguments),
    Chat(chat::Arguments),
    Eval(eval::Arguments),
    Cassette(cassette::Arguments),
    Validate(validate::Arguments),
    Ci(Box<ci::Arguments>),
    Env(env::Arguments),
    Plan(Box<plan::Arguments>),
    New(new::Arguments),
    Import(import::Arguments),
    Ls(ls::Arguments),
    Show(show::Arguments),
    Report(report::Arguments),
    View(view::Arguments),
    Compare(compare::Arguments),
    Metrics(metrics::Arguments),
    Clean(clean::Arguments),
    Doctor(doctor::Arguments),
    Completions(completions::Arguments),
    Man(man::Arguments),
    Help(help::Arguments),
}

/// Runs the command that the arguments name, and reports failures.
pub(crate) fn obey(log: &Log) -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => {
            // Help goes to standard output, errors to standard error; a closed stream is ignored.
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
        Verb::Train(arguments) => train::run(&arguments, log),
        Verb::Policy(arguments) => policy::run(&arguments, log),
        Verb::Serve(arguments) => serve::run(&arguments, log),
        Verb::Chat(arguments) => chat::run(&arguments, log),
        Verb::Eval(arguments) => eval::run(&arguments, log),
        Verb::Cassette(arguments) => cassette::run(&arguments, log),
        Verb::Validate(arguments) => validate::run(&arguments, log),
        Verb::Ci(arguments) => ci::run(&arguments, log),
        Verb::Env(arguments) => env::run(&arguments, log),
        Verb::Plan(arguments) => plan::run(&arguments, log),
        Verb::New(arguments) => new::run(&arguments, log),
        Verb::Import(arguments) => import::run(&arguments, log),
        Verb::Ls(arguments) => ls::run(&arguments),
        Verb::Show(arguments) => show::run(&arguments),
        Verb::Report(arguments) => report::run(&arguments),
        Verb::View(arguments) => view::run(&arguments, log),
        Verb::Compare(arguments) => compare::run(&arguments),
        Verb::Metrics(arguments) => metrics::run(&arguments, log),
        Verb::Clean(arguments) => clean::run(&arguments, log),
        Verb::Doctor(arguments) => doctor::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments),
        Verb::Man(arguments) => man::run(&arguments),
        Verb::Help(arguments) => help::run(&arguments),
    }
}
