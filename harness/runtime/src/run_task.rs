//! The open slots of a run, new or resumed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clawrl_core::{Epoch, RunPlan, SlotId};
use clawrl_record::{RecordError, Redactor, ResumeMode, ResumeState, Run, RunWriter};

use super::progress::Progress;

/// The slots to fill, of a new or a resumed run.
pub struct RunTask {
    /// The run.
    pub plan: Arc<RunPlan>,
    /// Slots to fill.
    pub open_slots: Vec<SlotId>,
    /// Above every epoch granted before.
    pub first_epoch: Epoch,
    /// Number of the next attempt, where it is not 0.
    pub attempt_numbers: BTreeMap<SlotId, u32>,
}

impl RunTask {
    /// All slots of a plan.
    pub fn new(plan: RunPlan) -> Self {
        Self {
            open_slots: plan.slots.iter().map(|slot| slot.id).collect(),
            plan: Arc::new(plan),
            first_epoch: Epoch(0),
            attempt_numbers: BTreeMap::new(),
        }
    }

    /// The open slots of a recorded run, and the writer that continues its record. `redact` is called when the record belongs to
    /// this process, and returns what is redacted from then on.
    ///
    /// # Errors
    /// The record belongs to another process or cannot be continued; those of `redact`.
    pub fn resume<E: From<RecordError>>(
        found: &Run,
        mode: ResumeMode,
        results: &Path,
        redact: impl FnOnce() -> Result<Option<Arc<Redactor>>, E>,
        progress: &dyn Progress,
    ) -> Result<(RunWriter, Self), E> {
        let (writer, plan, state) = RunWriter::resume(results, &found.plan().run, mode)?;
        // Another process may have continued the run in between, and have redacted more.
        let writer = redacting(writer, redact()?)?;
        let ResumeState { open_slots, next_epoch, next_numbers, cut, .. } = state;
        if let Some(cut) = cut {
            progress.note(format_args!(
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

/// The writer, with redaction if there are secrets.
///
/// # Errors
/// The redacted names cannot be noted in the record.
pub fn redacting(writer: RunWriter, redactor: Option<Arc<Redactor>>) -> Result<RunWriter, RecordError> {
    match redactor {
        Some(redactor) => writer.redacting(redactor),
        None => Ok(writer),
    }
}
