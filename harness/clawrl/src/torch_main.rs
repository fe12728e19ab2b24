//! `clawrl-torch`: the command line of ClawRL, linked to libtorch. `clawrl` hands over to it for what needs that.

use std::path::Path;
use std::process::ExitCode;

use clawrl_cli::Program;
use clawrl_train::Libtorch;

fn main() -> ExitCode {
    let libtorch_folder = option_env!("CLAWRL_LIBTORCH_FOLDER").map(Path::new);
    Program { training: Some(Box::new(Libtorch)), libtorch_folder }.run()
}
