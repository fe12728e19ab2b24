//! `clawrl plan`: shows what a run would do.

use std::path::Path;

use clawrl_config::{
    DeviceSplit, MemoryBudget, PolicySource, TrainRun, TrainSetting, TrainSummary, TrainTasks, describe_plan,
    is_train_file, load_train_with,
};
use clawrl_runtime::{
    host::{capacity, open_files, room},
    unused_name,
};
use serde::Serialize;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::judge_choice::JudgeArguments;
use crate::log::Log;
use crate::output::{print, print_json};
use crate::plan_request::{PlanArguments, Resolved};
use crate::results::ResultsArguments;

/// Shows what `clawrl run` would do with these arguments, or `clawrl train` with a train file, and how much memory it
/// needs; runs nothing.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "clawrl plan [OPTIONS] [SUITE]...\n       clawrl plan [--set KEY=VALUE]... [--json] TRAIN.yaml",
    after_help = "Example:\n  clawrl plan tasks/terminal-basics --filter 'copy-*' --group-size 8"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    plan: PlanArguments,
    #[command(flatten)]
    judge: JudgeArguments,
    #[command(flatten)]
    results: ResultsArguments,
    /// With a train file: override one of its keys, as with `clawrl train`; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<TrainSetting>,
    /// Print the plan as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    open_files::raise_limit();
    if let [file] = arguments.plan.suites.as_slice()
        && is_train_file(file)
    {
        return plan_training(file, arguments, log);
    }
    if !arguments.settings.is_empty() {
        let help = "options such as --limit and --concurrency change what a run does";
        return Err(Failure::with_help(Exit::Refused, "--set goes with a train file", help));
    }
    let Resolved { suites, options, plan } =
        arguments.plan.resolve(&arguments.judge, &arguments.results.store()?, log)?;
    let summary = describe_plan(&plan, &suites, &options);
    if arguments.json {
        print_json(&summary)?
    } else {
        print(&summary.to_string())?
    }
    Ok(Exit::Success)
}

/// Plan and cost of a training.
#[derive(Debug, Serialize)]
struct PlannedTraining {
    #[serde(flatten)]
    summary: TrainSummary,
    /// Maximum concurrent attempts.
    concurrency: u32,
    devices: DeviceSplit,
    memory: MemoryBudget,
}

/// Makes the same checks as `clawrl train` before its start.
fn plan_training(file: &Path, arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    arguments.plan.refuse_with_train_file()?;
    if arguments.judge.spec()?.is_some() {
        let help = "leave it out, or write `judge:` into the train file";
        return Err(Failure::with_help(Exit::Refused, "--judge does not go with a train file", help));
    }
    let plan = load_train_with(file, &arguments.settings)?;
    let tasks = TrainTasks::load(&plan)?;
    for warning in tasks.warnings() {
        log.diagnostic(warning);
    }
    let folder = match &plan.policy {
        PolicySource::Path(folder) => folder.clone(),
        // The policy will be in the training's folder, which does not exist yet.
        PolicySource::Preset(_) => "policy".into(),
    };
    let run =
        TrainRun { run: unused_name(&arguments.results.store()?, &plan.name)?, host: capacity::probe() };
    tasks.evaluation_plan(&folder, &run)?;
    let concurrency = tasks.rl_plan(&folder, &run)?.limits.concurrency;
    let there = room::gpu_count();
    let devices = room::split(&plan, there)?;
    let memory = room::budget(&plan, &devices, concurrency)?;
    let planned = PlannedTraining { summary: tasks.describe(), concurrency, devices, memory };
    if arguments.json {
        print_json(&planned)?;
    } else {
        let PlannedTraining { summary, concurrency, devices, memory } = &planned;
        let place = room::who_where(devices);
        print(&format!("{summary}\nconcurrency {concurrency}\ndevices     {place}\n\n{memory}"))?;
    }
    Ok(Exit::Success)
}
