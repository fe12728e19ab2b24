//! The benchmarks' binary: one subcommand per area, one module per subcommand.
//!
//! Every area measures our side and its peer alternately, several times in one process, prints a table and
//! appends raw rows to `results/bench/<area>.jsonl`. Absolute times drift on shared machines: read the ratios.

#![allow(clippy::print_stdout, reason = "the table is the output")]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod cpu;
mod rows;
mod scheduler;
mod table;

#[derive(Debug, Parser)]
#[command(name = "clawrl-bench", version, about, long_about = None)]
struct Arguments {
    #[command(subcommand)]
    area: Area,
    /// Folder for raw rows.
    #[arg(long, global = true, default_value = "results/bench")]
    out: PathBuf,
}

#[derive(Debug, Subcommand)]
enum Area {
    /// CPU time per step of the scheduler, against the same awaits in bare tokio tasks.
    Scheduler(scheduler::Arguments),
}

fn main() -> ExitCode {
    let Arguments { area, out } = Arguments::parse();
    let done = match &area {
        Area::Scheduler(arguments) => scheduler::run(arguments, &out),
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

/// To stderr, with its causes.
#[allow(clippy::print_stderr, reason = "a binary's last word")]
fn print_error(error: &(dyn std::error::Error + 'static)) {
    eprintln!("clawrl-bench: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
}
