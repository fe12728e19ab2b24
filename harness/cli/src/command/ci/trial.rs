//! A run of a gate, from its plan to its record.
//!
//! I1. A run that cannot start leaves nothing behind: its folder is created last. I2. Every end of a run is journaled
//! if possible. I3. The record distinguishes a run that an interim analysis or a budget ended from an
//! interrupted one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clawrl_config::CiBudget;
use clawrl_core::{EpisodeSink, Policy, RunPlan, SlotId};
use clawrl_record::{JournalState, LockFile, Redactor, ResumeMode, Run, RunStore, RunWriter};
use clawrl_regression::{Comparison, InterimSchedule};
use clawrl_report::policy_words;
use clawrl_runtime::{
    Batches, Before, Ended, FirstInterrupt, Machine, PolicyResources, Programs, Progress, RunTask, Watch,
    Work, execute,
    host::{facts, open_files},
    policy_of, redacting, spent,
};
use clawrl_scheduler::RunEnd;

use super::super::run::redacted_again;
use super::super::run_end;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::redaction;
use crate::results::ResultsArguments;
use crate::training::LinkedModels;

/// Maximum memory of one terminal recording, bytes; enough for dozens of screens.
const CAST_BYTES: usize = 256 << 10;

/// The policy of a run with its resources.
pub(super) struct Actor {
    policy: Arc<dyn Policy>,
    redactor: Option<Arc<Redactor>>,
    /// Receives the machine of the run.
    programs: Programs,
}

impl Actor {
    /// The actor of a plan.
    ///
    /// # Errors
    /// As for [`policy_of`], or a secret is not set.
    pub(super) fn of(plan: &RunPlan, store: &RunStore) -> Result<Self, Failure> {
        Self::redacted(plan, redaction::redactor(&[], plan)?, store)
    }

    /// The actor of a resumed run.
    ///
    /// # Errors
    /// As for [`Self::of`].
    pub(super) fn again(run: &Run, store: &RunStore) -> Result<Self, Failure> {
        Self::redacted(run.plan(), redaction::of_resumed(&[], run)?, store)
    }

    fn redacted(plan: &RunPlan, redactor: Option<Arc<Redactor>>, store: &RunStore) -> Result<Self, Failure> {
        let resources = PolicyResources {
            redactor: redactor.clone(),
            models: Some(Arc::new(LinkedModels)),
            ..PolicyResources::default()
        };
        let policy = policy_of(plan, store, &resources)?;
        Ok(Self { policy, redactor, programs: resources.programs })
    }
}

/// Start of a run.
pub(super) enum Start {
    New(Box<RunPlan>),
    /// Resumes a run.
    Again(Box<Run>),
}

/// A run of a gate.
pub(super) struct Trial<'a> {
    pub(super) start: Start,
    pub(super) actor: Actor,
    /// Comparison and schedule of interim analyses, if any.
    pub(super) looks: Option<(Comparison, InterimSchedule)>,
    pub(super) budget: CiBudget,
    pub(super) results: &'a ResultsArguments,
    pub(super) quiet: bool,
}

impl Trial<'_> {
    /// Runs it to the end.
    ///
    /// # Errors
    /// It cannot start, failed, or a user interrupted it, after which it can be resumed.
    pub(super) fn run(self, log: &Log) -> Result<Run, Failure> {
        open_files::raise_limit();
        let Self { start, actor, looks, budget, results, quiet } = self;
        let Actor { policy, redactor, programs } = actor;
        let planned = match &start {
            Start::New(plan) => plan,
            Start::Again(run) => run.plan(),
        };
        let machine = Machine::prepare(&[planned], log)?.lending(programs);
        let (writer, task, before) = match start {
            Start::New(plan) => {
                let (writer, task) = created(*plan, redactor, &machine, results)?;
                (writer, task, Before::default())
            }
            Start::Again(run) => {
                let (writer, task) = RunTask::resume(
                    &run,
                    ResumeMode::OpenSlots,
                    &results.dir(),
                    || redacted_again(&[], &run, log),
                    log,
                )?;
                let before = used(&run, &task);
                (writer, task, before)
            }
        };
        let RunTask { plan, open_slots, first_epoch, attempt_numbers } = task;
        let run = plan.run.clone();
        if !quiet {
            log.note(format_args!(
                "run {run}: {} tasks, up to {} attempts{}, {} at once, policy {}",
                plan.tasks.len(),
                open_slots.len(),
                if before.closed.is_empty() { "" } else { " to go" },
                plan.limits.concurrency,
                policy_words(&plan.policy)
            ));
        }
        let dir = writer.dir().to_owned();
        let watch = looks.map(|(comparison, schedule)| Watch { comparison, schedule, dir });
        let kept: Arc<dyn EpisodeSink> = Arc::new(writer.sink());
        let heard = (!quiet).then(|| Arc::new(log.clone()) as Arc<dyn Progress>);
        let (batches, demand) = Batches::new(&plan, before, kept, watch, budget, heard);
        let work = Work {
            open_slots,
            plan,
            first_epoch,
            attempt_numbers,
            demand: Some(demand),
            policy,
            sink: Arc::new(batches),
            metrics: Some(writer.sink()),
            cast_bytes: CAST_BYTES,
            is_shown: true,
        };
        let ended = execute(machine, FirstInterrupt::Drain, work, Arc::new(log.quieted(quiet)))?;
        conclude(ended, writer, results, log)?;
        Ok(RunStore::open(&results.dir())?.run(&run)?)
    }
}

fn created(
    plan: RunPlan,
    redactor: Option<Arc<Redactor>>,
    machine: &Machine,
    results: &ResultsArguments,
) -> Result<(RunWriter, RunTask), Failure> {
    let mut lock = LockFile::new(&plan, facts::PROGRAM, machine.facts(), machine.limits_not_set());
    if let Some(redactor) = &redactor {
        redaction::note(redactor, &plan, &mut lock)?;
    }
    let writer = redacting(RunWriter::create(&results.dir(), &plan, &lock)?, redactor)?;
    Ok((writer, RunTask::new(plan)))
}

/// Budget that a run has used so far.
fn used(run: &Run, task: &RunTask) -> Before {
    let open: BTreeSet<SlotId> = task.open_slots.iter().copied().collect();
    let closed = task.plan.slots.iter().filter(|slot| !open.contains(&slot.id));
    Before {
        closed: closed.map(|slot| slot.id.0).collect(),
        leased: task.attempt_numbers.values().copied().fold(0, u32::saturating_add),
        nano_usd: spent(run),
        passed: Duration::from_millis(run.state().map_or(0, JournalState::wall_ms)),
    }
}

/// Journals the end; fails unless the gate itself ended the run.
fn conclude(ended: Ended, writer: RunWriter, results: &ResultsArguments, log: &Log) -> Result<(), Failure> {
    let Ended { report, error, policy_notes, .. } = ended;
    let finished = writer.finish(clawrl_runtime::recorded_end(report.end));
    for note in &policy_notes {
        log.note(format_args!("{note}"));
    }
    for leftover in &report.leftovers {
        log.warn(format_args!("left behind: {leftover}"));
    }
    let exit = run_end::exit_of(&report, error.as_ref(), report.faulted);
    if let Some(error) = error {
        return Err(Failure::with_help(exit, error.to_string(), "what was recorded is valid"));
    }
    let run = finished?.run;
    match report.end {
        RunEnd::Drained | RunEnd::Cancelled => {
            let again = results.repeated();
            let help = format!("`clawrl ci --resume {run}{again} GATE` goes on with it, and judges it");
            Err(Failure::with_help(Exit::Interrupted, "the run was ended, and nothing is judged", help))
        }
        _ if !report.leftovers.is_empty() => {
            Err(Failure::new(Exit::Internal, format!("run {run} has left something behind")))
        }
        _ => Ok(()),
    }
}
