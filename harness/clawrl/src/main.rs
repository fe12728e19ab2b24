//! `clawrl`: the command line of ClawRL. It starts without libtorch and hands commands that need it over to
//! `clawrl-torch`.

use std::process::ExitCode;

use clawrl_cli::Program;

mod build;

fn main() -> ExitCode {
    Program { training: None, build: build::BUILD }.run()
}
