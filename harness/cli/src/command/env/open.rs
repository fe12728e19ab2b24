//! `clawrl env open`: one attempt of one task, driven by another program over standard input and output.
//!
//! I1. Standard output contains only answers. I2. When the input ends, a signal arrives or the attempt is closed, all
//! started processes end before this returns. I3. Nothing is recorded.

use std::io::{self, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use clawrl_config::{PlanOptions, resolve_plan};
use clawrl_core::{ImageSource, PolicySpec, RunId, RunPlan};
use clawrl_runtime::env_server::{ServeOutcome, ServedAttempt, serve};
use clawrl_runtime::{
    Executor, FirstInterrupt, Machine,
    host::{capacity, open_files},
    read_suites,
};
use clawrl_scheduler::Interrupt;
use serde_json::Value;

use super::check::provider;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::judge_choice::JudgeArguments;
use crate::log::Log;
use crate::output::print_json_line;
use crate::plan_request::image;

/// Maximum tasks listed in an error about an ambiguous id.
const NAMED: usize = 5;

/// Arguments of `clawrl env open`.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Suite: a suite.yaml, its folder, or the name of a folder under ./tasks.
    #[arg(value_name = "SUITE")]
    suite: PathBuf,
    /// Id of the task; append the number for an instance of a template, as in `copy-file#3`.
    #[arg(long, value_name = "ID")]
    task: String,
    /// Image for a task that names none: its name, or a folder with an unpacked root file system.
    #[arg(long, value_name = "IMAGE", value_parser = image)]
    image: Option<ImageSource>,
    /// Seed from which all others are derived. The `seed` of a `reset` takes precedence.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    judge: JudgeArguments,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    open_files::raise_limit();
    let plan = plan(arguments, log)?;
    let (task, slot) = only(&plan, &arguments.task)?;
    let machine = Machine::prepare(&[&plan], log)?;
    let executor = Executor::start(machine, FirstInterrupt::Cancel, Arc::new(log.clone()))?;
    let runtime = executor.runtime();
    let served = executor.handle().block_on(async {
        let provider = provider(&runtime, &plan, task.env.kind());
        let attempt = ServedAttempt::new(Arc::clone(&provider), task, slot);
        let input = BufReader::new(io::stdin());
        let write = |answer: &Value| print_json_line(answer).map(drop);
        let served = serve(attempt, input, write, executor.interrupts()).await;
        let left = provider.shutdown().await.leftovers;
        served.map(|mut served| {
            served.leftovers.extend(left);
            served
        })
    });
    drop(runtime);
    let interrupt = executor.interrupt();
    executor.end();
    let ServeOutcome { faulted, leftovers } = served?;
    for leftover in &leftovers {
        log.warn(format_args!("left behind: {leftover}"));
    }
    Ok(match (leftovers.is_empty(), interrupt, faulted) {
        (false, _, _) => Exit::Internal,
        (true, Interrupt::Drain | Interrupt::CancelAll, _) => Exit::Interrupted,
        (true, Interrupt::None, true) => Exit::Faulted,
        (true, Interrupt::None, false) => Exit::Success,
    })
}

fn plan(arguments: &Arguments, log: &Log) -> Result<RunPlan, Failure> {
    let suites = read_suites(std::slice::from_ref(&arguments.suite), log)?;
    let name = format!("open-{}", std::process::id());
    let run =
        RunId::new(&name).ok_or_else(|| Failure::new(Exit::Internal, format!("`{name}` names no run")))?;
    let options = PlanOptions {
        seed: arguments.seed,
        filter: vec![arguments.task.clone()],
        image: arguments.image.clone(),
        judge: arguments.judge.spec()?,
        ..PlanOptions::new(run, PolicySpec::Noop, capacity::probe())
    };
    Ok(resolve_plan(&suites, &options)?)
}

/// The named task and its slot.
fn only(plan: &RunPlan, named: &str) -> Result<(Arc<clawrl_core::TaskSpec>, clawrl_core::SlotSpec), Failure> {
    match (plan.tasks.as_slice(), plan.slots.as_slice()) {
        ([task], [slot]) => Ok((Arc::clone(task), *slot)),
        (tasks, _) => {
            let first: Vec<&str> = tasks.iter().take(NAMED).map(|task| task.id.0.as_str()).collect();
            let more = if tasks.len() > NAMED { ", …" } else { "" };
            Err(Failure::with_help(
                Exit::Refused,
                format!("`{named}` names {} tasks, and one is driven at a time", tasks.len()),
                format!("name one of {}{more}", first.join(", ")),
            ))
        }
    }
}
