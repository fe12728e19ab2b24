//! `clawrl man`: manual pages, generated from the same declarations as the help.
//!
//! I1. The page of the program lists every exit code and variable; pages of commands contain their `--help`. I2. Pages
//! depend only on the version: they contain no date or machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use clawrl_runtime::environment::{self, Variable};

use crate::arguments::Cli;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::print;

/// Prints the manual page of `clawrl`, or writes the pages of all commands to a folder.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  clawrl man | man -l -\n  clawrl man --output ~/.local/share/man/man1")]
pub(crate) struct Arguments {
    /// Write clawrl.1, clawrl-run.1 and so on to this folder, which is created if necessary.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Runs the command. With a folder, it prints the paths of the written files.
pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let mut program = Cli::command();
    // Sets the full names of commands, such as `clawrl new suite`.
    program.build();
    match &arguments.output {
        None => print(&page(&program).map_err(unwritable)?)?,
        Some(folder) => {
            fs::create_dir_all(folder).map_err(|error| refused(folder, &error))?;
            write_pages(&program, folder)?;
        }
    }
    Ok(Exit::Success)
}

/// Writes the page of a command, then those of the commands below it.
fn write_pages(command: &Command, folder: &Path) -> Result<(), Failure> {
    let path = folder.join(Man::new(command.clone()).get_filename());
    fs::write(&path, page(command).map_err(unwritable)?).map_err(|error| refused(&path, &error))?;
    print(&format!("{}\n", path.display()))?;
    command.get_subcommands().try_for_each(|below| write_pages(below, folder))
}

/// One page in roff.
fn page(command: &Command) -> io::Result<String> {
    let mut page = Vec::new();
    let source = concat!("clawrl ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).source(source).manual("ClawRL").render(&mut page)?;
    if command.get_name() == Cli::command().get_name() {
        exit_status().to_writer(&mut page)?;
        variables().to_writer(&mut page)?;
    }
    Ok(String::from_utf8_lossy(&page).into_owned())
}

fn exit_status() -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["EXIT STATUS"]);
    for exit in Exit::ALL {
        roff.control("TP", []);
        roff.text([bold(exit.code().to_string())]);
        roff.text([roman(exit.meaning())]);
    }
    roff
}

fn variables() -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["ENVIRONMENT"]);
    for variable in Variable::ALL {
        roff.control("TP", []);
        roff.text([bold(variable.name())]);
        roff.text([roman(variable.meaning())]);
    }
    roff.control("PP", []);
    roff.text([roman(environment::NAMED)]);
    roff
}

/// Writing to a vector cannot fail, so this is an internal error.
fn unwritable(error: io::Error) -> Failure {
    Failure::new(Exit::Internal, format!("a manual page cannot be made: {error}"))
}

fn refused(path: &Path, error: &io::Error) -> Failure {
    let help = "choose another folder with --output";
    Failure::with_help(Exit::Results, format!("cannot write {}: {error}", path.display()), help)
}
