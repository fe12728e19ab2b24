//! `clawrl-torch`: the command line of ClawRL, linked to libtorch. `clawrl` hands commands that need libtorch over to
//! it.

mod linked;

use std::process::ExitCode;

use clawrl_cli::Program;

mod build;

fn main() -> ExitCode {
    Program { training: Some(Box::new(linked::Linked)), build: build::BUILD }.run()
}
