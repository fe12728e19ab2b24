//! Arguments of `clawrl ci`, and the choice of its part.

use std::path::PathBuf;

use clap::Subcommand;
use clawrl_core::RunId;
use clawrl_runtime::parse_run_name;

use super::candidate::CandidateArguments;
use super::{accept, judge, plan};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::results::ResultsArguments;

/// Tests an agent against CI gates: runs their suites and compares the results with accepted baselines.
///
/// Exits with 0 if every gate passes, 10 if one fails, and 11 if one is inconclusive. See harness/docs/guides/ci.md
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "clawrl ci [OPTIONS] GATE...\n       clawrl ci --resume RUN GATE\n       clawrl ci plan GATE...\n       clawrl ci accept [OPTIONS] GATE",
    after_help = "Examples:\n  clawrl ci accept ci/gates/my-gate.yaml\n  clawrl ci ci/gates/my-gate.yaml\n  clawrl ci plan \
                  ci/gates/my-gate.yaml"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    judge: GateArguments,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Computes how many repeats are needed to detect the smallest drop of interest; runs nothing.
    #[command(after_help = "Example:\n  clawrl ci plan ci/gates/my-gate.yaml")]
    Plan(PlanArguments),
    /// Accepts a run as the baseline. No other command writes a baseline.
    #[command(
        after_help = "Examples:\n  clawrl ci accept ci/gates/my-gate.yaml\n  clawrl ci accept ci/gates/my-gate.yaml --run my-run"
    )]
    Accept(Box<AcceptArguments>),
}

/// Arguments of `clawrl ci GATE...`.
#[derive(Debug, clap::Args)]
pub(super) struct GateArguments {
    /// Gate files, evaluated one after the other.
    #[arg(value_name = "GATE")]
    pub(super) gates: Vec<PathBuf>,
    /// Evaluate this recorded run instead of starting one.
    #[arg(long, value_name = "RUN", value_parser = parse_run_name, conflicts_with_all = ["CandidateArguments", "JudgeArguments"])]
    pub(super) run: Option<RunId>,
    /// Resume this run, which was interrupted or reached its budget, and evaluate it.
    #[arg(long, value_name = "RUN", value_parser = parse_run_name, conflicts_with_all = ["run", "CandidateArguments", "JudgeArguments"])]
    pub(super) resume: Option<RunId>,
    /// Compare with this baseline [default: baselines/GATE.json in the results folder].
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(super) candidate: CandidateArguments,
    /// Write the combined results of all gates to this folder, as JUnit XML, Markdown, JSON, GitHub annotations and
    /// HTML. The results of one gate are in gate/ of its run's folder.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) results: ResultsArguments,
    /// Print the assessments as a JSON list with one entry for each gate.
    #[arg(long)]
    pub(super) json: bool,
    /// Print only warnings and errors, no progress or notes.
    #[arg(long)]
    pub(super) quiet: bool,
}

/// Arguments of `clawrl ci plan`.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArguments {
    /// Gate files.
    #[arg(value_name = "GATE", required = true)]
    pub(super) gates: Vec<PathBuf>,
    /// Use this baseline [default: baselines/GATE.json in the results folder].
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(super) results: ResultsArguments,
    /// Print the plans as a JSON list with one entry for each gate.
    #[arg(long)]
    pub(super) json: bool,
}

/// Arguments of `clawrl ci accept`.
#[derive(Debug, clap::Args)]
pub(super) struct AcceptArguments {
    /// Gate file.
    #[arg(value_name = "GATE")]
    pub(super) gate: PathBuf,
    /// Accept this recorded run [default: run all repeats of the gate's suites].
    #[arg(long, value_name = "RUN", value_parser = parse_run_name, conflicts_with_all = ["CandidateArguments", "JudgeArguments"])]
    pub(super) run: Option<RunId>,
    /// File to write [default: baselines/GATE.json in the results folder].
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(super) candidate: CandidateArguments,
    #[command(flatten)]
    pub(super) results: ResultsArguments,
    /// Print only warnings and errors, no progress or notes.
    #[arg(long)]
    pub(super) quiet: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    match &arguments.verb {
        None => judge::run(&arguments.judge, log),
        Some(Verb::Plan(arguments)) => plan::run(arguments, log),
        Some(Verb::Accept(arguments)) => accept::run(arguments, log),
    }
}
