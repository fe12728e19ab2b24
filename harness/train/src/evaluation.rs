//! Greedy success on held-out tasks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clawrl_core::{Epoch, Policy, RunPlan, SlotId};
use clawrl_record::{HeldOut, LockFile, RecordError, ResumeMode, Run, RunStore, RunWriter};
use clawrl_scheduler::{RunError, RunReport};

use super::files::TrainingFiles;
use clawrl_runtime::host::facts;
use clawrl_runtime::training::TrainError;
use clawrl_runtime::{Ended, Executor, Progress, Work};

/// A run of a training that is always completed, and resumed if it was interrupted.
pub(super) struct WholeRun<'a> {
    pub(super) executor: &'a Executor,
    pub(super) files: &'a TrainingFiles,
    pub(super) plan: RunPlan,
    pub(super) policy: Arc<dyn Policy>,
    /// Maximum memory of one session's recording, bytes.
    pub(super) cast_bytes: usize,
    pub(super) progress: &'a dyn Progress,
}

impl WholeRun<'_> {
    /// Fills the open slots.
    ///
    /// # Errors
    /// A signal ended the run, or it failed; the next try resumes from the record.
    pub(super) fn fill(self) -> Result<Run, TrainError> {
        let results = self.files.results();
        if let Some(run) = finished(results, &self.plan)? {
            return Ok(run);
        }
        let lock = LockFile::new(
            &self.plan,
            facts::PROGRAM,
            self.executor.machine_facts().clone(),
            self.executor.limits_not_set().to_vec(),
        );
        let run = self.plan.run.clone();
        let (writer, plan, open_slots, first_epoch, attempt_numbers) =
            match RunWriter::create(results, &self.plan, &lock) {
                Ok(writer) => {
                    let open = self.plan.slots.iter().map(|slot| slot.id).collect();
                    (writer, self.plan, open, Epoch(0), BTreeMap::new())
                }
                Err(RecordError::Exists { .. }) => {
                    let (writer, plan, state) = RunWriter::resume(results, &run, ResumeMode::OpenSlots)?;
                    let numbers = (0..).map(SlotId).zip(state.next_numbers).collect();
                    (writer, plan, state.open_slots, state.next_epoch, numbers)
                }
                Err(other) => return Err(other.into()),
            };
        if !open_slots.is_empty() {
            let work = Work {
                plan: Arc::new(plan),
                open_slots,
                first_epoch,
                attempt_numbers,
                demand: None,
                policy: self.policy,
                sink: Arc::new(writer.sink()),
                metrics: Some(writer.sink()),
                cast_bytes: self.cast_bytes,
                is_shown: false,
            };
            let ended = self.executor.run(work)?;
            let report = account(ended, self.progress)?;
            if !report.left_open.is_empty() {
                writer.close()?;
                return Err(interrupted());
            }
        }
        writer.finish(clawrl_record::RunEnd::Completed)?;
        Ok(RunStore::open(results)?.run(&run)?)
    }
}

/// The run of this plan, if it exists and is complete.
fn finished(results: &Path, plan: &RunPlan) -> Result<Option<Run>, TrainError> {
    match RunStore::open(results)?.run(&plan.run) {
        Ok(run) => {
            let whole =
                run.state().is_some_and(|state| state.finished().is_some() && state.open_slots().is_empty());
            Ok(Some(run).filter(|_| whole))
        }
        Err(RecordError::NoSuchRun { .. }) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// The scheduler's report of an execution that did not fail. Leftovers are reported as warnings.
///
/// # Errors
/// The execution failed.
pub(super) fn account(ended: Ended, progress: &dyn Progress) -> Result<RunReport, TrainError> {
    for leftover in &ended.report.leftovers {
        progress.warn(format_args!("left behind: {leftover}"));
    }
    let help = "what was recorded is valid; `clawrl train --resume` goes on with it";
    match ended.error {
        None => Ok(ended.report),
        Some(error @ RunError::Sink { .. }) => Err(TrainError::storage(error.to_string()).with_help(help)),
        Some(error @ RunError::Harness { .. }) => {
            Err(TrainError::internal(error.to_string()).with_help(help))
        }
    }
}

/// The error of a training that a signal ended.
pub(super) fn interrupted() -> TrainError {
    TrainError::interrupted("the training was ended").with_help("`clawrl train --resume` goes on with it")
}

/// The result of an evaluation of this version after so many updates.
pub(super) fn held_out(run: &Run, updates: u32, version: u64) -> HeldOut {
    let plan = run.plan();
    let mut families: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let mut faulted = 0;
    for attempt in run.attempts().filter(|attempt| attempt.closes_slot) {
        let Some(slot) = plan.slots.get(attempt.attempt.slot.0 as usize) else { continue };
        if attempt.faulted() {
            faulted += 1;
            continue;
        }
        let family = families.entry(plan.task_of(slot).family.clone()).or_default();
        family.0 += u32::from(attempt.passed());
        family.1 += 1;
    }
    let families = families.into_iter().map(|(family, (passed, tried))| (family, passed, tried)).collect();
    HeldOut { updates: updates.into(), version, by_gate: false, given_up: false, families, faulted }
}
