//! The benchmarks' binary: one subcommand per area, one module per subcommand.
//!
//! The areas that run the policy are in a second binary, `torch_main.rs`.
//!
//! Every area measures our side and its peer alternately, several times in one process, prints a table and
//! appends raw rows to `results/bench/<area>.jsonl`. Absolute times drift on shared machines: read the ratios.

#![allow(clippy::print_stdout, reason = "the table is the output")]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod caches;
mod census;
mod chat_learning;
mod cpu;
mod gate_calibration;
mod gate_sampling;
mod gateway;
mod gui;
mod live_shells;
mod objectives;
mod report;
mod reset;
mod rows;
mod scheduler;
mod suites;
mod swe;
mod table;
mod terminal_step;
mod terminals;
mod toolcall;

/// For whoever looks for them here.
const TORCH_AREAS: &str = "ci/bench/run.sh also knows engine, learner, weight-swap, turns, rl-loop and async-gain, which run the \
                           policy on libtorch: ci/bench/run.sh engine --help";

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
    /// CPU time per step of the scheduler, against the same awaits in bare tokio tasks.
    Scheduler(scheduler::Arguments),
    /// Wall time of `clawrl report` for runs of many steps, against reading the same bytes.
    Report(report::Arguments),
    /// Episodes until a policy passes so many held-out tasks, by objective, over seeds; with a plot.
    Objectives(objectives::Arguments),
    /// Time to a new sandboxed shell with a workspace, against a bare start of a user namespace.
    Reset(reset::Arguments),
    /// Memory, spawn time, threads and processor time of thousands of sandboxed shells at once.
    LiveShells(live_shells::Arguments),
    /// Trials a second of a suite of trivial tasks, in containers and in sandboxes, against Harbor.
    Suite(suites::Arguments),
    /// A step and a reset of a software engineering environment in a container, against `docker exec` and `docker run`.
    Swe(swe::Arguments),
    /// Time between two pieces of an answer of `clawrl serve` while it learns from chat, against the same without.
    ChatLearning(chat_learning::Arguments),
    /// How often regression gates are wrong, and what looking early saves, by simulated pipelines of which the truth is known.
    GateCalibration(gate_calibration::Arguments),
    /// How often a regression gate fails a policy that draws and has not changed, with real policies and environments.
    GateSampling(gate_sampling::Arguments),
    /// CPU and time that the gateway adds to a request, with its record on a disk, against the same policy behind a bare server.
    Gateway(gateway::Arguments),
    /// A side of `gateway`, which that starts.
    #[command(hide = true)]
    GatewaySide(gateway::serving::Arguments),
    /// A click in a browser and what the page shows then, against bare WebDriver and BrowserGym.
    Gui(gui::Arguments),
    /// One `echo` in a sandboxed shell, against a bare loop on a terminal, tmux, Harbor and SWE-ReX.
    TerminalStep(terminal_step::Arguments),
    /// Calls a second of a `python` tool, against a program for each call in the same sandboxes; and what some that
    /// take all they can get cost the others.
    Toolcall(toolcall::Arguments),
}

fn main() -> ExitCode {
    let Arguments { area, out } = Arguments::parse();
    let done = match &area {
        Area::Scheduler(arguments) => scheduler::run(arguments, &out),
        Area::Report(arguments) => report::run(arguments, &out),
        Area::Objectives(arguments) => {
            objectives::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure })
        }
        Area::Reset(arguments) => {
            reset::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure })
        }
        Area::LiveShells(arguments) => {
            live_shells::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure })
        }
        Area::Suite(arguments) => {
            suites::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure })
        }
        Area::ChatLearning(arguments) => {
            chat_learning::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure })
        }
        Area::GateCalibration(arguments) => {
            gate_calibration::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure })
        }
        Area::GateSampling(arguments) => {
            gate_sampling::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure })
        }
        Area::Gateway(arguments) => {
            gateway::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure })
        }
        Area::GatewaySide(arguments) => match gateway::serving::serve(arguments) {
            // Its lines are for whoever started it.
            Ok(()) => return ExitCode::SUCCESS,
            Err(failure) => {
                let failure: Box<dyn Error> = failure;
                Err(failure)
            }
        },
        Area::Gui(arguments) => gui::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure }),
        Area::Swe(arguments) => swe::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure }),
        Area::TerminalStep(arguments) => {
            terminal_step::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure })
        }
        Area::Toolcall(arguments) => {
            toolcall::run(arguments, &out).map_err(|failure| -> Box<dyn Error> { failure })
        }
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
fn print_error(error: &(dyn Error + 'static)) {
    eprintln!("clawrl-bench: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  because: {error}");
        cause = error.source();
    }
}
