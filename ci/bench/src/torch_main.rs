//! The benchmarks' second program: the areas that run the policy on libtorch.

#![allow(clippy::print_stdout, reason = "the table is the output")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod caches;
mod engine;
mod learner;
mod python;
mod rows;
mod table;
mod tiny;
mod weight_swap;

/// Why a measurement failed.
type Failure = Box<dyn Error + Send + Sync>;

#[derive(Debug, Parser)]
#[command(name = "clawrl-bench-torch", version, about, long_about = None)]
struct Arguments {
    #[command(subcommand)]
    area: Area,
    /// Folder for raw rows.
    #[arg(long, global = true, default_value = "results/bench")]
    out: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Area {
    /// Tokens per second of the engine with a tiny policy, compared with `generate` of transformers with the same weights.
    Engine(engine::Arguments),
    /// Time and memory of a step's gradients, compared with transformers and PyTorch's autograd with the same weights.
    Learner(learner::Arguments),
    /// Time from publishing weights to the first token sampled with them, compared with copying the same bytes.
    WeightSwap(weight_swap::Arguments),
}

fn main() -> ExitCode {
    let Arguments { area, out } = Arguments::parse();
    let done = clawrl_torch::probe().map_err(Failure::from).and_then(|_| match &area {
        Area::Engine(arguments) => engine::run(arguments, &out),
        Area::Learner(arguments) => learner::run(arguments, &out),
        Area::WeightSwap(arguments) => weight_swap::run(arguments, &out),
    });
    match done {
        Ok(table) => {
            println!("{table}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            print_error(&*error);
            ExitCode::FAILURE
        }
    }
}

/// Prints an error and its causes to standard error.
#[allow(clippy::print_stderr, reason = "a program reports its failure there")]
fn print_error(error: &(dyn Error + 'static)) {
    eprintln!("clawrl-bench-torch: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
}
