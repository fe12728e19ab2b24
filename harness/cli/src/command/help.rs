//! `clawrl help`: explain a command, the exit codes or the environment variables.

use clap::CommandFactory;

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
    let mut program = Cli::command();
    // Building it propagates the program's name into the usage of its commands.
    program.build();
    let text = match arguments.topic.as_deref() {
        None => program.render_long_help().to_string(),
        Some("exit-codes") => exit_code::table(),
        Some("environment") => environment::table(),
        Some(topic) => match program.find_subcommand_mut(topic) {
            Some(command) => command.render_long_help().to_string(),
            None => {
                let commands: Vec<String> =
                    program.get_subcommands().map(|command| command.get_name().to_owned()).collect();
                let help = format!("topics: exit-codes, environment, {}", commands.join(", "));
                return Err(Failure::with_help(
                    Exit::Refused,
                    format!("there is no help on `{topic}`"),
                    help,
                ));
            }
        },
    };
    print(&text)?;
    Ok(Exit::Success)
}
