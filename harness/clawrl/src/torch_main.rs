//! `clawrl-torch`: the command line of ClawRL, linked to libtorch. `clawrl` hands over to it for what needs that.

use std::process::ExitCode;

use clawrl_cli::Program;
use clawrl_train::Libtorch;

mod build;

fn main() -> ExitCode {
    Program { training: Some(Box::new(Libtorch)), build: build::BUILD }.run()
}
