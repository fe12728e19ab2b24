//! `clawrl completions`: completion scripts for shells.
//!
//! I1. The script depends only on the declared arguments: it reads no runs or suites and never starts `clawrl`.

use clap::CommandFactory;
use clap_complete::{Shell, generate};

use crate::arguments::Cli;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::print;

/// Prints a shell completion script.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  clawrl completions bash > ~/.local/share/bash-completion/completions/clawrl\n  \
                  clawrl completions zsh > \"${fpath[1]}/_clawrl\"\n  \
                  clawrl completions fish > ~/.config/fish/completions/clawrl.fish"
)]
pub(crate) struct Arguments {
    /// Shell that reads the script.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut Cli::command(), "clawrl", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Success)
}
