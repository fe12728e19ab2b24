//! `clawrl validate`: check suites by playing them.
//!
//! I1. A task is valid when the no-op, played against it, does not pass and its oracle does. I2. All cases of all
//! tasks are slots of one plan, so that they run in parallel. I3. Nothing is recorded.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use clawrl_config::{PlanOptions, resolve_plan};
use clawrl_core::{
    Action, BoxFuture, Epoch, Fault, ImageSource, Policy, PolicyRequest, PolicySpec, RunId, RunPlan, SlotId,
    SlotSpec, TaskIndex, TaskSpec,
};
use clawrl_runtime::{
    FirstInterrupt, Machine, MemorySink, Work, execute,
    host::{capacity, open_files},
    read_suites,
};
use clawrl_scheduler::RunEnd;
use clawrl_scripted::{Noop, Oracle};

use super::verdict::{self, Case, Verdicts};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::judge_choice::JudgeArguments;
use crate::log::Log;
use crate::output::{print, print_json};
use crate::plan_request::image;

/// Checks suites by playing them: the no-op must fail and the oracle must pass, for every task.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl validate tasks/terminal-basics --limit 52")]
pub(crate) struct Arguments {
    /// Suites: a suite.yaml, its folder, or the name of a folder under ./tasks.
    #[arg(value_name = "SUITE", required = true)]
    suites: Vec<PathBuf>,
    /// Only tasks whose id matches: `copy-*`, `terminal-basics/write-word#3`. May be repeated.
    #[arg(long, value_name = "GLOB")]
    filter: Vec<String>,
    /// At most this many tasks of each suite, spread over its families.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Root of all seeds.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Attempts at once [default: what this machine comfortably holds].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    /// Also play every mistake, and say how many pass.
    #[arg(long)]
    mistakes: bool,
    /// For tasks that name no image: the name of one, to try them in containers, or a folder with an unpacked root file
    /// system, to try them in sandboxes on it.
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<ImageSource>,
    #[command(flatten)]
    judge: JudgeArguments,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
    /// No progress; warnings and errors only.
    #[arg(long)]
    quiet: bool,
}

/// Does it.
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
        // Not every task need have an oracle; the cases say who acts.
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
        policy: Arc::new(CasePolicy { noop: noop_slots(&cases), oracle: Oracle::new(plan.as_ref().into()) }),
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
    let verdicts = verdict::judge(&plan, &cases, &sink.take());
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

/// A plan whose slots are cases, and which case each of them is.
struct Cases {
    plan: RunPlan,
    cases: Vec<Case>,
}

/// Makes a slot of every case. The script of a case is put where the oracle policy finds it.
fn cases_of(plan: &RunPlan, mistakes: bool) -> Cases {
    let mut tasks: Vec<Arc<TaskSpec>> = Vec::new();
    let mut slots: Vec<SlotSpec> = Vec::new();
    let mut cases = Vec::new();
    let mut add = |task: Arc<TaskSpec>, case: Case, slot: &SlotSpec| {
        let at = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        slots.push(SlotSpec { id: SlotId(at), task: TaskIndex(at), ..*slot });
        tasks.push(task);
        cases.push(case);
    };
    for slot in &plan.slots {
        let task = plan.task_of(slot);
        add(Arc::clone(task), Case::Noop, slot);
        if task.oracle.is_some() {
            add(Arc::clone(task), Case::Oracle, slot);
        }
        for (number, mistake) in task.mistakes.iter().enumerate().filter(|_| mistakes) {
            let played = TaskSpec { oracle: Some(mistake.clone()), ..TaskSpec::clone(task) };
            add(Arc::new(played), Case::Mistake(number), slot);
        }
    }
    Cases { plan: RunPlan { tasks, slots, ..plan.clone() }, cases }
}

fn noop_slots(cases: &[Case]) -> HashSet<SlotId> {
    let slots = (0..).map(SlotId).zip(cases);
    slots.filter(|(_, case)| **case == Case::Noop).map(|(slot, _)| slot).collect()
}

/// Plays the case of each slot.
struct CasePolicy {
    noop: HashSet<SlotId>,
    oracle: Oracle,
}

impl Policy for CasePolicy {
    fn name(&self) -> &str {
        "validate"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        if self.noop.contains(&request.attempt.slot) { Noop.act(request) } else { self.oracle.act(request) }
    }
}
