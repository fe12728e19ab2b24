//! `clawrl run`: runs suites or resumes a run.
//!
//! I1. A run that cannot start leaves nothing behind: its folder is created last. I2. Every end of a run is journaled
//! if possible, and has its own exit code.

use std::path::PathBuf;
use std::sync::Arc;

use clawrl_core::{EpisodeSink, RunId, RunPlan};
use clawrl_record::{
    AttemptSummary, JournalState, LockFile, RecordError, Redactor, ResumeMode, Run, RunStore, RunWriter,
    SlotStatus,
};
use clawrl_report::{policy_words, remote_words};
use clawrl_runtime::host::{facts, open_files};
use clawrl_runtime::{
    CassetteWriter, CostLimit, Executor, FirstInterrupt, Machine, PolicyChoice, PolicyResources, RunTask,
    Work, create_under, environments_word, parse_run_name, policy_of, redacting, refuse_unpriced, spent,
};

use super::cassette::words;
use super::removed;
use super::run_end::{self, Account};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::judge_choice::JudgeArguments;
use crate::log::Log;
use crate::plan_request::PlanArguments;
use crate::redaction;
use crate::results::ResultsArguments;
use crate::training::LinkedModels;

/// Maximum memory of one terminal recording, bytes; enough for dozens of screens.
const CAST_BYTES: usize = 256 << 10;

/// Runs suites, or resumes a run.
///
/// After Ctrl-C, current attempts finish and no new ones start; a second Ctrl-C cancels them. Either way, results are
/// recorded and `--resume` continues the run.
#[derive(Debug, clap::Args)]
#[command(
    arg = removed::profile(),
    override_usage = "clawrl run [OPTIONS] SUITE...\n       clawrl run --resume RUN [--retry-faulted]",
    after_help = "Examples:\n  clawrl run tasks/terminal-basics --policy oracle --limit 64\n  \
                  clawrl run --resume my-run --retry-faulted"
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    plan: PlanArguments,
    #[command(flatten)]
    judge: JudgeArguments,
    /// Resume this run: fill its open slots, under its own plan.
    #[arg(long, value_name = "RUN", value_parser = parse_run_name, conflicts_with_all = ["PlanArguments", "JudgeArguments"])]
    resume: Option<RunId>,
    /// With --resume: also retry slots that a fault closed.
    #[arg(long)]
    retry_faulted: bool,
    #[command(flatten)]
    results: ResultsArguments,
    /// Start no new attempts after replies, including those of judges, have cost this much by the prices in the policy
    /// file. Current attempts finish. With --resume, earlier costs count.
    #[arg(long, value_name = "USD", value_parser = usd)]
    max_cost_usd: Option<f64>,
    /// Do not record terminal sessions.
    #[arg(long)]
    no_cast: bool,
    /// Redact the value of this environment variable from all records; may be repeated. With --resume, only new records
    /// are redacted. The key of a remote policy is always redacted.
    #[arg(long, value_name = "NAME", value_parser = redaction::variable_name)]
    redact_env: Vec<String>,
    /// Write the policy's requests and replies to this file, for --policy cassette:FILE.
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    record_cassette: Option<PathBuf>,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
    /// Print only warnings and errors, no progress or notes.
    #[arg(long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    match &arguments.resume {
        Some(run) => resume(arguments, run, log),
        // Checked here because clap does not require an argument that conflicts with others.
        None if arguments.retry_faulted => {
            let help = "write `clawrl run --resume RUN --retry-faulted`; `clawrl ls` lists the runs";
            Err(Failure::with_help(Exit::Refused, "--retry-faulted goes with --resume", help))
        }
        None => start(arguments, log),
    }
}

fn start(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    open_files::raise_limit();
    let store = arguments.results.store()?;
    let mut plan = new_plan(arguments, &store, log)?;
    // Another run may take a generated name in the meantime; `create_under` then finds a free one.
    if arguments.plan.name.is_some() {
        match store.run(&plan.run) {
            Ok(_) | Err(RecordError::NotReadable { .. }) => {
                return Err(RecordError::Exists { run: plan.run.clone() }.into());
            }
            Err(_) => {}
        }
    }
    refuse_limit(arguments, &plan)?;
    let redactor = redaction::redactor(&arguments.redact_env, &plan)?;
    let tape =
        arguments.record_cassette.as_deref().map(|path| CassetteWriter::new(path, &plan, redactor.clone()));
    let tape = tape.transpose()?;
    let recorder = tape.as_ref().map(CassetteWriter::recorder);
    let models = Some(Arc::new(LinkedModels) as _);
    let resources =
        PolicyResources { redactor: redactor.clone(), recorder, models, ..PolicyResources::default() };
    let policy = policy_of(&plan, &store, &resources)?;
    let machine = Machine::prepare(&[&plan], log)?.lending(resources.programs);
    let mut lock = LockFile::new(&plan, facts::PROGRAM, machine.facts(), machine.limits_not_set());
    if let Some(redactor) = &redactor {
        redaction::note(redactor, &plan, &mut lock)?;
    }
    let results = arguments.results.dir();
    let writer = create_under(&plan.run.clone(), arguments.plan.name.is_some(), &store, |name| {
        plan.run.clone_from(name);
        Ok::<_, Failure>(RunWriter::create(&results, &plan, &lock))
    })?;
    let writer = redacting(writer, redactor)?;
    let task = RunTask::new(plan);
    let run = task.plan.run.clone();
    let exit = perform(arguments, task, policy, machine, (writer, 0), log);
    // The cassette is written for every result of the run.
    let written = tape.map_or(Ok(()), |tape| write_cassette(tape, arguments, run, log));
    exit.and_then(|exit| written.map(|()| exit))
}

/// The plan of the suites, or, for a replay without suites, of the recorded run.
fn new_plan(arguments: &Arguments, store: &RunStore, log: &Log) -> Result<RunPlan, Failure> {
    match (&arguments.plan.policy, arguments.plan.suites.as_slice()) {
        (PolicyChoice::Replay { run }, []) => arguments.plan.recorded(run, &arguments.judge, store),
        _ => Ok(arguments.plan.resolve(&arguments.judge, store, log)?.plan),
    }
}

fn resume(arguments: &Arguments, run: &RunId, log: &Log) -> Result<Exit, Failure> {
    let mode = if arguments.retry_faulted { ResumeMode::RetryFaulted } else { ResumeMode::OpenSlots };
    let store = arguments.results.store()?;
    let found = store.run(run)?;
    if found.train()?.is_some() {
        // A learner requests its slots, and its policy changes.
        let help = format!("go on with it: clawrl train --resume {run}{}", arguments.results.repeated());
        return Err(Failure::with_help(Exit::Refused, format!("run {run} is a training"), help));
    }
    let redactor = || redaction::of_resumed(&arguments.redact_env, &found);
    if !found.is_running() && nothing_to_do(found.state(), &mode) {
        // A later resume may have open slots.
        if !arguments.redact_env.is_empty()
            && let Some(redactor) = redactor()?
        {
            redaction::warn_of_new(&redactor, &found, log)?;
            store.redact(run, &redactor)?;
        }
        log.note(format_args!("run {run} has nothing left to do"));
        return run_end::tell_finished(&found, arguments.json);
    }
    // Refused before the run is changed.
    refuse_limit(arguments, found.plan())?;
    let models = Some(Arc::new(LinkedModels) as _);
    let resources = PolicyResources { redactor: redactor()?, models, ..PolicyResources::default() };
    let policy = policy_of(found.plan(), &store, &resources)?;
    let machine = Machine::prepare(&[found.plan()], log)?.lending(resources.programs);
    let (writer, task) = RunTask::resume(
        &found,
        mode,
        &arguments.results.dir(),
        || redacted_again(&arguments.redact_env, &found, log),
        log,
    )?;
    if !arguments.quiet {
        let open = task.open_slots.len();
        log.note(format_args!("run {run}: {} slots are closed, {open} to go", task.plan.slots.len() - open));
    }
    perform(arguments, task, policy, machine, (writer, spent(&found)), log)
}

/// Writes the cassette and reports its path.
fn write_cassette(
    writer: CassetteWriter,
    arguments: &Arguments,
    run: RunId,
    log: &Log,
) -> Result<(), Failure> {
    let (cassette, withheld) = writer.write(run)?;
    if withheld > 0 {
        log.warn(format_args!("{withheld} replies hold secrets, and are not in the cassette"));
    }
    if let (false, Some(path)) = (arguments.quiet, &arguments.record_cassette) {
        log.note(format_args!("cassette {}", words(path, &cassette)));
    }
    Ok(())
}

/// The redactor of a resumed run; warns of newly redacted variables.
pub(super) fn redacted_again(
    names: &[String],
    found: &Run,
    log: &Log,
) -> Result<Option<Arc<Redactor>>, Failure> {
    let redactor = redaction::of_resumed(names, found)?;
    if let Some(redactor) = &redactor {
        redaction::warn_of_new(redactor, found, log)?;
    }
    Ok(redactor)
}

fn refuse_limit(arguments: &Arguments, plan: &RunPlan) -> Result<(), Failure> {
    match arguments.max_cost_usd {
        Some(_) => Ok(refuse_unpriced("the run", plan)?),
        None => Ok(()),
    }
}

/// Whether a run has nothing to resume: it ended normally and every slot is closed as requested.
fn nothing_to_do(state: Option<&JournalState>, mode: &ResumeMode) -> bool {
    let Some(state) = state else { return false };
    let closed = |slot: &clawrl_record::SlotState| matches!(slot.status, SlotStatus::Closed { .. });
    let wanted_again = |slot: &clawrl_record::SlotState| {
        *mode == ResumeMode::RetryFaulted && slot.closing().is_some_and(AttemptSummary::faulted)
    };
    state.finished().is_some() && state.slots().iter().all(|slot| closed(slot) && !wanted_again(slot))
}

/// Runs the plan. `spent` is the earlier cost in billionths of a US dollar.
fn perform(
    arguments: &Arguments,
    task: RunTask,
    policy: Arc<dyn clawrl_core::Policy>,
    machine: Machine,
    (writer, spent): (RunWriter, u64),
    log: &Log,
) -> Result<Exit, Failure> {
    if !arguments.quiet {
        tell_start(&task, &machine, log);
    }
    let dir: PathBuf = writer.dir().to_owned();
    let run = task.plan.run.clone();
    let environments = environments_word(&task.plan);
    let mut sink: Arc<dyn EpisodeSink> = Arc::new(writer.sink());
    let mut demand = None;
    if let Some(most) = arguments.max_cost_usd {
        let (limit, wanted) = CostLimit::new(sink, most, spent, task.open_slots.len());
        (sink, demand) = (Arc::new(limit), Some(wanted));
    }
    let work = Work {
        plan: task.plan,
        open_slots: task.open_slots,
        first_epoch: task.first_epoch,
        attempt_numbers: task.attempt_numbers,
        demand,
        policy,
        sink,
        metrics: Some(writer.sink()),
        cast_bytes: if arguments.no_cast { 0 } else { CAST_BYTES },
        is_shown: true,
    };
    let executor = Executor::start(machine, FirstInterrupt::Drain, Arc::new(log.quieted(arguments.quiet)))?;
    let ended = executor.run(work);
    executor.end();
    let ended = ended?;
    let account = Account {
        resume: format!("clawrl run --resume {run}{}", arguments.results.repeated()),
        dir,
        environments,
        max_cost_usd: arguments.max_cost_usd,
        json: arguments.json,
    };
    run_end::conclude(ended, writer, &account, log)
}

fn tell_start(task: &RunTask, machine: &Machine, log: &Log) {
    let plan = &task.plan;
    let judge =
        plan.judge.as_deref().map_or(String::new(), |judge| format!(", judge {}", remote_words(judge)));
    log.note(format_args!(
        "run {}: {} of {} slots, {} at once, policy {}{judge}",
        plan.run,
        task.open_slots.len(),
        plan.slots.len(),
        plan.limits.concurrency,
        policy_words(&plan.policy)
    ));
    let limits = machine.limits_not_set();
    if !limits.is_empty() {
        log.note(format_args!("limits that cannot be set on this machine:"));
        for limit in limits {
            log.note(format_args!("  {} ({})", limit.limit, limit.reason));
        }
    }
}

/// Parses an amount above 0.
fn usd(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(usd) if usd > 0.0 && usd.is_finite() => Ok(usd),
        _ => Err("has to be US dollars above 0, such as 2.50".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usd_is_finite_and_above_0() {
        let check = |text: &str, expected: Option<f64>| assert_eq!(usd(text).ok(), expected, "{text}");
        check("2.5", Some(2.5));
        check("0", None);
        check("-1", None);
        check("inf", None);
        check("NaN", None);
        check("2,5", None);
    }
}
