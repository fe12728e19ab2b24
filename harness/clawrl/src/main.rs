//! `clawrl`: the command line of ClawRL. It starts without libtorch, and hands over to `clawrl-torch` for what needs it.

use std::path::Path;
use std::process::ExitCode;

use clawrl_cli::Program;

fn main() -> ExitCode {
    Program { training: None, libtorch_folder: option_env!("CLAWRL_LIBTORCH_FOLDER").map(Path::new) }.run()
}
