//! What a run has to do, and how one that was cut short is taken up again.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_core::{Epoch, RunPlan, SlotId};
use clawrl_record::{RecordError, Redactor, ResumeMode, ResumeState, Run, RunWriter};

use crate::failure::Failure;
use crate::log::Log;
use crate::redaction;
use crate::results::ResultsArguments;

/// What is to be filled, however it came about.
pub(super) struct Task {
    pub(super) plan: Arc<RunPlan>,
    pub(super) open_slots: Vec<SlotId>,
    pub(super) first_epoch: Epoch,
    pub(super) attempt_numbers: BTreeMap<SlotId, u32>,
}

impl Task {
    /// All of a plan.
    pub(super) fn new(plan: RunPlan) -> Self {
        Self {
            open_slots: plan.slots.iter().map(|slot| slot.id).collect(),
            plan: Arc::new(plan),
            first_epoch: Epoch(0),
            attempt_numbers: BTreeMap::new(),
        }
    }

    /// What is left of a run, and who goes on with its record, with these variables struck out of it besides those of before.
    ///
    /// # Errors
    /// The record is another process's or cannot be gone on with; a variable that is not set.
    pub(super) fn again(
        found: &Run,
        mode: ResumeMode,
        redacted: &[String],
        results: &ResultsArguments,
        log: &Log,
    ) -> Result<(RunWriter, Self), Failure> {
        let (writer, plan, state) = RunWriter::resume(&results.dir(), &found.plan().run, mode)?;
        // Made of a lock file that is now ours: another process may have gone on with the run in between, and have redacted more.
        let redactor = redaction::of_resumed(redacted, found)?;
        if let Some(redactor) = &redactor {
            redaction::warn_of_new(redactor, found, log)?;
        }
        let writer = redacting(writer, redactor)?;
        let ResumeState { open_slots, next_epoch, next_numbers, cut, .. } = state;
        if let Some(cut) = cut {
            log.note(format_args!(
                "the last {} bytes of {} were torn and are cut: {}",
                cut.bytes, cut.file, cut.reason
            ));
        }
        let task = Self {
            plan: Arc::new(plan),
            open_slots,
            first_epoch: next_epoch,
            attempt_numbers: (0..).map(SlotId).zip(next_numbers).collect(),
        };
        Ok((writer, task))
    }
}

/// The writer, which strikes secrets out if there are any.
///
/// # Errors
/// What is redacted cannot be noted in the record.
pub(super) fn redacting(
    writer: RunWriter,
    redactor: Option<Arc<Redactor>>,
) -> Result<RunWriter, RecordError> {
    match redactor {
        Some(redactor) => writer.redacting(redactor),
        None => Ok(writer),
    }
}
