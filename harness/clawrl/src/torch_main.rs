//! `clawrl-torch`: the command line of ClawRL, linked to libtorch. `clawrl` hands over to it for what needs that.

mod linked;

use std::path::Path;
use std::process::ExitCode;

use clawrl_cli::Program;

fn main() -> ExitCode {
    let libtorch_folder = option_env!("CLAWRL_LIBTORCH_FOLDER").map(Path::new);
    Program { training: Some(Box::new(linked::Linked)), libtorch_folder }.run()
}
