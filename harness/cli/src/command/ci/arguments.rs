//! The command line of `clawrl ci`, and which part of it does what is asked.

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

/// Judges an agent by gates: runs its suites and compares with the baseline that was accepted, so that no change makes it worse
/// unnoticed.
///
/// Ends with 0 where every gate passes, 10 where one fails and 11 where one is inconclusive: harness/docs/guides/ci.md
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
    /// Say how many repeats it takes to see the drop that matters, and run nothing.
    #[command(after_help = "Example:\n  clawrl ci plan ci/gates/my-gate.yaml")]
    Plan(PlanArguments),
    /// Make a run the baseline that others are compared with: the only command that writes one.
    #[command(
        after_help = "Examples:\n  clawrl ci accept ci/gates/my-gate.yaml\n  clawrl ci accept ci/gates/my-gate.yaml --run my-run"
    )]
    Accept(Box<AcceptArguments>),
}

/// What is judged.
#[derive(Debug, clap::Args)]
pub(super) struct GateArguments {
    /// Gate files, judged one after the other.
    #[arg(value_name = "GATE")]
    pub(super) gates: Vec<PathBuf>,
    /// Judge this run, which is there already, and run nothing.
    #[arg(long, value_name = "RUN", value_parser = parse_run_name, conflicts_with_all = ["CandidateArguments", "JudgeArguments"])]
    pub(super) run: Option<RunId>,
    /// Go on with this run, which was cut short or ended by a budget, and judge it.
    #[arg(long, value_name = "RUN", value_parser = parse_run_name, conflicts_with_all = ["run", "CandidateArguments", "JudgeArguments"])]
    pub(super) resume: Option<RunId>,
    /// Compare with this baseline [default: baselines/GATE.json of the results folder].
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(super) candidate: CandidateArguments,
    /// Write what all gates say together into this folder, as JUnit XML, Markdown, JSON, annotations of GitHub and a page; what each one
    /// says is in gate/ of its run's folder.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) results: ResultsArguments,
    /// Print the assessments as JSON: a list, one for each gate.
    #[arg(long)]
    pub(super) json: bool,
    /// No progress and no notes; warnings and errors only.
    #[arg(long)]
    pub(super) quiet: bool,
}

/// What is planned.
#[derive(Debug, clap::Args)]
pub(super) struct PlanArguments {
    /// Gate files.
    #[arg(value_name = "GATE", required = true)]
    pub(super) gates: Vec<PathBuf>,
    /// Plan by this baseline [default: baselines/GATE.json of the results folder].
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(super) results: ResultsArguments,
    /// Print the plans as JSON: a list, one for each gate.
    #[arg(long)]
    pub(super) json: bool,
}

/// What is accepted.
#[derive(Debug, clap::Args)]
pub(super) struct AcceptArguments {
    /// A gate file.
    #[arg(value_name = "GATE")]
    pub(super) gate: PathBuf,
    /// Accept this run, which is there already [default: run the gate's suites, all repeats of them].
    #[arg(long, value_name = "RUN", value_parser = parse_run_name, conflicts_with_all = ["CandidateArguments", "JudgeArguments"])]
    pub(super) run: Option<RunId>,
    /// Write this file [default: baselines/GATE.json of the results folder].
    #[arg(long, value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(super) candidate: CandidateArguments,
    #[command(flatten)]
    pub(super) results: ResultsArguments,
    /// No progress and no notes; warnings and errors only.
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
