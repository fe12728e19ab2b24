//! `clawrl help`: explain a command, the exit codes or the environment variables.

use clap::{CommandFactory, Parser};

use crate::arguments::Cli;
use crate::environment;
use crate::exit_code::{self, Exit};
use crate::failure::Failure;
use crate::output::print;

/// Explains a command, `exit-codes` or `environment`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl help exit-codes")]
pub(crate) struct Arguments {
    /// A command, `exit-codes` or `environment`.
    topic: Option<String>,
}

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let text = match arguments.topic.as_deref() {
        None => help_of(&["--help"]),
        Some("exit-codes") => Some(exit_code::table()),
        Some("environment") => Some(environment::table()),
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

/// What the same words would print on the command line.
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
