//! The benchmarks' program: one subcommand per area, one module per subcommand.
//!
//! The areas that run the policy on libtorch are in a second program, `torch_main.rs`.

#![allow(clippy::print_stdout, reason = "the table is the output")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod caches;
mod cpu;
mod gate_calibration;
mod gateway;
mod rows;
mod scheduler;
mod table;
mod terminal_step;
mod terminals;

/// Why a measurement failed.
type Failure = Box<dyn Error + Send + Sync>;

const TORCH_AREAS: &str = "ci/bench/run.sh also has the areas engine, learner and weight-swap, which run the policy on libtorch: \
                           ci/bench/run.sh engine --help";

#[derive(Debug, Parser)]
#[command(name = "clawrl-bench", version, about, long_about = None, after_help = TORCH_AREAS)]
struct Arguments {
    #[command(subcommand)]
    area: Area,
    /// Folder for raw rows.
    #[arg(long, global = true, default_value = "results/bench")]
    out: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Area {
    /// Processor time per step of the scheduler, compared with the same awaits in plain tokio tasks.
    Scheduler(scheduler::Arguments),
    /// One `echo` in a sandboxed shell, compared with a bare loop on a terminal, tmux, Harbor and SWE-ReX.
    TerminalStep(terminal_step::Arguments),
    /// Processor time and latency that the gateway adds to a request, compared with the same policy behind a bare server.
    Gateway(gateway::Arguments),
    /// One side of `gateway`; `gateway` starts it.
    #[command(hide = true)]
    GatewaySide(gateway::serving::Arguments),
    /// Error rates of regression gates, measured on simulated agents whose true pass rates are known.
    GateCalibration(gate_calibration::Arguments),
}

fn main() -> ExitCode {
    let Arguments { area, out } = Arguments::parse();
    let done = match &area {
        Area::Scheduler(arguments) => scheduler::run(arguments, &out),
        Area::TerminalStep(arguments) => terminal_step::run(arguments, &out),
        Area::Gateway(arguments) => gateway::run(arguments, &out),
        Area::GatewaySide(arguments) => match gateway::serving::serve(arguments) {
            // The process that started this one has read all of its output.
            Ok(()) => return ExitCode::SUCCESS,
            Err(failure) => Err(failure),
        },
        Area::GateCalibration(arguments) => gate_calibration::run(arguments, &out),
    };
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
    eprintln!("clawrl-bench: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
}
