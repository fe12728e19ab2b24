//! `clawrl validate`: checks suites by running their tasks.
//!
//! I1. A task is valid if its oracle passes and the no-op does not. I2. All cases of all tasks are slots of one plan
//! and run in parallel. I3. Nothing is recorded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clawrl_config::{PlanOptions, resolve_plan};
use clawrl_core::{Epoch, ImageSource, PolicySpec, RunId};
use clawrl_runtime::validation::{CasePolicy, Cases, Verdicts, cases_of, judge};
use clawrl_runtime::{
    FirstInterrupt, Machine, MemorySink, Work, execute,
    host::{capacity, open_files},
    read_suites,
};
use clawrl_scheduler::RunEnd;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::judge_choice::JudgeArguments;
use crate::log::Log;
use crate::output::{print, print_json};
use crate::plan_request::image;

/// Checks suites by running every task: the no-op must fail and the oracle must pass.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl validate tasks/terminal-basics --limit 52")]
pub(crate) struct Arguments {
    /// Suites: a suite.yaml, its folder, or the name of a folder under ./tasks.
    #[arg(value_name = "SUITE", required = true)]
    suites: Vec<PathBuf>,
    /// Select only tasks whose id matches, such as `copy-*` or `terminal-basics/write-word#3`; may be repeated.
    #[arg(long, value_name = "GLOB")]
    filter: Vec<String>,
    /// Maximum tasks of each suite, spread over its templates.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Seed from which all others are derived.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Maximum concurrent attempts [default: computed from memory and process limits].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    /// Also run every wrong solution, and report how many pass.
    #[arg(long)]
    mistakes: bool,
    /// Image for tasks that name none: its name, to run them in containers, or a folder with an unpacked root file
    /// system, to run them in sandboxes.
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<ImageSource>,
    #[command(flatten)]
    judge: JudgeArguments,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    /// Print only warnings and errors, no progress.
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    open_files::raise_limit();
    let suites = read_suites(&arguments.suites, log)?;
    let name = format!("validate-{}", std::process::id());
    let run =
        RunId::new(&name).ok_or_else(|| Failure::new(Exit::Internal, format!("`{name}` names no run")))?;
    let options = PlanOptions {
        seed: arguments.seed,
        filter: arguments.filter.clone(),
        limit: arguments.limit,
        concurrency: arguments.concurrency,
        max_retries: 1,
        // Tasks may lack an oracle; each case names its policy.
        judge: arguments.judge.spec()?,
        image: arguments.image.clone(),
        ..PlanOptions::new(run, PolicySpec::Noop, capacity::probe())
    };
    let plan = resolve_plan(&suites, &options)?;
    let Cases { plan, cases } = cases_of(&plan, arguments.mistakes);
    let plan = Arc::new(plan);
    let machine = Machine::prepare(&[&plan], log)?;
    let sink = MemorySink::default();
    let work = Work {
        open_slots: plan.slots.iter().map(|slot| slot.id).collect(),
        plan: Arc::clone(&plan),
        first_epoch: Epoch(0),
        attempt_numbers: BTreeMap::new(),
        demand: None,
        policy: Arc::new(CasePolicy::new(&cases, &plan)),
        sink: Arc::new(sink.clone()),
        metrics: None,
        cast_bytes: 0,
        is_shown: true,
    };
    let ended = execute(machine, FirstInterrupt::Cancel, work, Arc::new(log.quieted(arguments.quiet)))?;
    if let Some(error) = ended.error {
        return Err(Failure::new(Exit::Internal, error.to_string()));
    }
    for leftover in &ended.report.leftovers {
        log.warn(format_args!("left behind: {leftover}"));
    }
    let verdicts = judge(&plan, &cases, &sink.take());
    if arguments.json {
        print_json(&verdicts)?
    } else {
        print(&verdicts.to_string())?
    }
    Ok(exit_of(&verdicts, ended.report.end, !ended.report.leftovers.is_empty()))
}

fn exit_of(verdicts: &Verdicts, end: RunEnd, leftovers: bool) -> Exit {
    if leftovers {
        Exit::Internal
    } else if end != RunEnd::Completed {
        Exit::Interrupted
    } else if !verdicts.invalid.is_empty() {
        Exit::ValidationFailed
    } else if !verdicts.faulted.is_empty() {
        Exit::Faulted
    } else {
        Exit::Success
    }
}
