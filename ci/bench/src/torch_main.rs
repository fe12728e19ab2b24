//! The benchmarks' second binary: the areas that run the policy on libtorch. One subcommand per area.
//!
//! As the first one: our side and its peer alternately, several times in one run, a table, and raw rows in
//! `results/bench/<area>.jsonl`.

#![allow(clippy::print_stdout, reason = "the table is the output")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod async_gain;
mod caches;
mod engine;
mod learner;
mod python;
mod rl_loop;
mod rows;
mod table;
mod tiny;
mod training;
mod turns;
mod weight_swap;

/// What ends an area early. It may cross threads.
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
    /// Tokens per second of the engine with a tiny policy, against `transformers` generate with the same weights.
    Engine(engine::Arguments),
    /// Time and memory of a step's gradients, against transformers and PyTorch's autograd with the same weights.
    Learner(learner::Arguments),
    /// From publishing weights to the first token of them, against copying the same bytes.
    WeightSwap(weight_swap::Arguments),
    /// Time between two tokens of a sequence while the same cores learn, against an engine that is alone.
    Turns(turns::Arguments),
    /// Completion tokens per second of the whole reinforcement learning, against TRL's GRPOTrainer.
    RlLoop(rl_loop::Arguments),
    /// Time to the same number of updates on slow environments, asynchronous against synchronous and one step off.
    AsyncGain(async_gain::Arguments),
}

fn main() -> ExitCode {
    let Arguments { area, out } = Arguments::parse();
    let done = clawrl_torch::probe().map_err(Failure::from).and_then(|_| match &area {
        Area::Engine(arguments) => engine::run(arguments, &out),
        Area::Learner(arguments) => learner::run(arguments, &out),
        Area::WeightSwap(arguments) => weight_swap::run(arguments, &out),
        Area::Turns(arguments) => turns::run(arguments, &out),
        Area::RlLoop(arguments) => rl_loop::run(arguments, &out),
        Area::AsyncGain(arguments) => async_gain::run(arguments, &out),
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

/// To stderr, with its causes.
#[allow(clippy::print_stderr, reason = "a binary's last word")]
fn print_error(error: &(dyn Error + 'static)) {
    eprintln!("clawrl-bench-torch: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
}
