//! `clawrl help`: explains a command, the exit codes or the environment variables.

use clap::{CommandFactory, Parser};
use clawrl_runtime::environment::{self, Variable};

use crate::arguments::Cli;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::{columns, print};
use crate::table::{fitted, wrapped};

/// Explains a command, `exit-codes` or `environment`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl help exit-codes")]
pub(crate) struct Arguments {
    /// A command, `exit-codes` or `environment`.
    topic: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let text = match arguments.topic.as_deref() {
        None => help_of(&["--help"]),
        Some("exit-codes") => Some(exit_codes()),
        Some("environment") => Some(variables()),
        Some(topic) => {
            let commands = Cli::command();
            let is_command = commands.get_subcommands().any(|command| command.get_name() == topic);
            if is_command { help_of(&[topic, "--help"]) } else { None }
        }
    };
    match text {
        Some(text) => print(&text)?,
        None => return Err(unknown(arguments.topic.as_deref().unwrap_or_default())),
    }
    Ok(Exit::Success)
}

/// Exit codes and what they mean.
fn exit_codes() -> String {
    let row = |exit: &Exit| [exit.code().to_string(), exit.meaning().to_owned()];
    table(["code", "meaning"], [true, false], &Exit::ALL.iter().map(row).collect::<Vec<_>>())
}

/// Environment variables and what they do.
fn variables() -> String {
    let row = |variable: &Variable| [variable.name().to_owned(), variable.meaning().to_owned()];
    let rows: Vec<[String; 2]> = Variable::ALL.iter().map(row).collect();
    let named = wrapped(environment::NAMED, width()).join("\n");
    format!("{}\n{named}\n", table(["variable", "meaning"], [false; 2], &rows))
}

/// A table for people: without a terminal, text is wrapped at the usual width.
fn table(headings: [&str; 2], right: [bool; 2], rows: &[[String; 2]]) -> String {
    fitted(headings, right, rows, Some(width()))
}

fn width() -> usize {
    const USUAL: usize = 80;
    let said = || Variable::Columns.value().and_then(|columns| columns.parse().ok());
    columns().or_else(said).unwrap_or(USUAL)
}

/// The help text of these arguments.
fn help_of(words: &[&str]) -> Option<String> {
    let all = std::iter::once("clawrl").chain(words.iter().copied());
    Cli::try_parse_from(all).err().map(|told| told.to_string())
}

fn unknown(topic: &str) -> Failure {
    let program = Cli::command();
    let commands: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
    let help = format!("topics: exit-codes, environment, {}", commands.join(", "));
    Failure::with_help(Exit::Refused, format!("there is no help on `{topic}`"), help)
}
