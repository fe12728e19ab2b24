//! Makes a run writable again after its process ended, however it ended.
//!
//! I1. Bytes that a `synced` line covers are kept, or the run is refused as damaged; they are never cut.
//! I2. The cut removes the first journal line that is torn, or whose frame is missing, and everything after it;
//!     then trajectories are cut after the last referenced frame.
//! I3. Resuming twice in a row gives the same slots as resuming once.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use std::collections::BTreeSet;

use clawrl_core::{Epoch, FORMAT_VERSION, GroupId, RunId, RunPlan, SlotId};

use crate::journal::{self, Journal, JournalError, TailCut, UnsyncedFrame};
use crate::migrate::MigrateError;
use crate::{
    AttemptSummary, Entry, JournalState, Line, RecordError, ReopenCause, files, frame, line, migrate,
};

/// Slots that a resumed run fills.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ResumeMode {
    /// The open slots.
    #[default]
    OpenSlots,
    /// Also those that a fault closed.
    RetryFaulted,
    /// Also every slot of a group that a learner's checkpoint has not consumed, however it was closed: the learner
    /// goes back to that checkpoint, and whole groups run again under new attempt numbers. Figures of later
    /// updates are removed from `metrics.jsonl`.
    RollBack {
        /// The last update that the checkpoint holds.
        update: u64,
        /// The groups that it has consumed.
        consumed: BTreeSet<GroupId>,
    },
}

impl ResumeMode {
    /// The closed slots that it opens again, and why.
    pub(crate) fn reopened(&self, plan: &RunPlan, state: &JournalState) -> (Vec<SlotId>, ReopenCause) {
        match self {
            Self::OpenSlots => (Vec::new(), ReopenCause::Faulted),
            Self::RetryFaulted => (state.faulted_slots(), ReopenCause::Faulted),
            Self::RollBack { consumed, .. } => {
                let group = |slot: SlotId| plan.slots.get(slot.0 as usize).map(|spec| spec.group);
                let wanted = |slot| group(slot).is_some_and(|group| !consumed.contains(&group));
                (state.closed_slots(wanted), ReopenCause::RolledBack)
            }
        }
    }
}

/// State of a resumed run.
#[derive(Debug, Clone, PartialEq)]
pub struct ResumeState {
    /// Slots to fill, ascending.
    pub open_slots: Vec<SlotId>,
    /// The first epoch to grant.
    pub next_epoch: Epoch,
    /// Number of the next attempt, by [`SlotId`].
    pub next_numbers: Vec<u32>,
    /// The attempts that closed the other slots.
    pub closed: Vec<AttemptSummary>,
    /// Bytes cut from a torn tail. Their records were never acknowledged, or a loss of power removed them.
    pub cut: Option<TailCut>,
}

impl ResumeState {
    pub(crate) fn new(state: &JournalState, cut: Option<TailCut>) -> Self {
        Self {
            open_slots: state.open_slots(),
            next_epoch: state.next_epoch(),
            next_numbers: state.slots().iter().map(|slot| slot.next_number).collect(),
            closed: state.slots().iter().filter_map(|slot| slot.closing().cloned()).collect(),
            cut,
        }
    }
}

/// Reads and checks `plan.json`; also its SHA-256.
pub(crate) fn read_plan(dir: &Path) -> Result<(RunPlan, String), RecordError> {
    let path = dir.join(files::PLAN);
    let bytes = files::read(path.clone())?;
    let plan = migrate::plan(&bytes).map_err(|error| understood(path, error))?;
    Ok((plan, clawrl_core::sha256_hex(&bytes)))
}

/// Error about an existing file with unreadable content.
pub(crate) fn understood(path: PathBuf, error: MigrateError) -> RecordError {
    match error {
        MigrateError::Newer { found } => RecordError::Newer { path, found },
        other => RecordError::Unreadable { path, reason: other.to_string() },
    }
}

/// An error about the journal at `path`.
pub(crate) fn journal_error(path: &Path, error: JournalError) -> RecordError {
    let path = path.to_owned();
    match error {
        JournalError::Damaged { line, offset, reason } => RecordError::Damaged { path, line, offset, reason },
        JournalError::Newer { found } => RecordError::Newer { path, found },
    }
}

/// Checks that plan and train file are those of the journal.
pub(crate) fn check_plan(dir: &Path, state: &JournalState, sha256: &str) -> Result<(), RecordError> {
    let unchanged = |name: &str, expected: &str, found: &str| {
        if expected == found {
            return Ok(());
        }
        let (expected, found) = (expected.to_owned(), found.to_owned());
        Err(RecordError::PlanChanged { path: dir.join(name), expected, found })
    };
    unchanged(files::PLAN, &state.opened().plan_sha256, sha256)?;
    match &state.opened().train_sha256 {
        Some(expected) => {
            let found = files::read(dir.join(files::TRAIN))?;
            unchanged(files::TRAIN, expected, &clawrl_core::sha256_hex(&found))
        }
        None => Ok(()),
    }
}

/// The run's files, whole and open for appending.
pub(crate) struct Repaired {
    /// `None` when not even `opened` was written: nothing ever happened.
    pub(crate) state: Option<JournalState>,
    pub(crate) journal: (File, u64),
    pub(crate) frames: (File, u64),
    pub(crate) cut: Option<TailCut>,
}

/// Cuts torn tails, migrates an older journal, opens both files. The caller owns the run.
/// Nothing is changed when the plan is not the one with `plan_sha256`, or when something is damaged.
pub(crate) fn repair(dir: &Path, run: &RunId, plan_sha256: &str) -> Result<Repaired, RecordError> {
    let journal_path = dir.join(files::JOURNAL);
    let frames_path = dir.join(files::TRAJECTORIES);
    let bytes = files::read_optional(&journal_path)?.unwrap_or_default();
    let failed = |error| journal_error(&journal_path, error);
    let mut journal = journal::replay(&bytes).map_err(failed)?;
    if let Some(state) = &journal.state {
        check_plan(dir, state, plan_sha256)?;
    }

    let mut frames = open_append(&frames_path)?;
    let frames_len = file_len(&frames, &frames_path)?;
    if journal.state.is_none() && frames_len > 0 {
        let reason = format!("it has no complete line, but run {run} has {frames_len} bytes of trajectories");
        return Err(RecordError::Unreadable { path: journal_path, reason });
    }
    if frames_len < journal.synced_frames_end {
        let reason =
            format!("it has {frames_len} bytes, but the journal refers to {}", journal.synced_frames_end);
        return Err(RecordError::TrajectoriesDamaged { path: frames_path, reason });
    }
    let mut cut = journal.tail.take();
    if let Some((lost, reason)) = first_lost(&journal, &mut frames, &frames_path)? {
        let bytes_cut = bytes.len() as u64 - lost.offset;
        cut = Some(TailCut {
            file: files::TRAJECTORIES.to_owned(),
            line: lost.line,
            offset: lost.offset,
            bytes: bytes_cut,
            reason,
        });
        journal = journal::replay(&bytes[..lost.offset as usize]).map_err(failed)?;
    }

    let mut journal_len = journal.whole_bytes;
    if let Some(lines) = &journal.migrated {
        journal_len = rewrite(&journal_path, lines)?;
    }
    let journal_file = open_append(&journal_path)?;
    set_len(&journal_file, &journal_path, journal_len)?;
    set_len(&frames, &frames_path, journal.frames_end)?;
    files::sync_dir(dir)?;
    Ok(Repaired {
        state: journal.state,
        journal: (journal_file, journal_len),
        frames: (frames, journal.frames_end),
        cut,
    })
}

/// The first frame that no `synced` line vouches for and that is not there as written.
fn first_lost(
    journal: &Journal,
    frames: &mut File,
    path: &Path,
) -> Result<Option<(UnsyncedFrame, String)>, RecordError> {
    for unsynced in &journal.unsynced {
        match read_frame(frames, unsynced.frame) {
            Ok(bytes) => {
                if let Err(error) = frame::verify(&bytes, unsynced.frame) {
                    return Ok(Some((*unsynced, format!("its frame is torn: {error}"))));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Ok(Some((*unsynced, "its frame is missing".to_owned())));
            }
            Err(source) => return Err(RecordError::io("read", path, source)),
        }
    }
    Ok(None)
}

/// The bytes of a frame. A reference beyond the end of the file is `UnexpectedEof`, whatever it says.
pub(crate) fn read_frame(file: &mut File, frame: crate::FrameRef) -> std::io::Result<Vec<u8>> {
    if frame.end() > file.metadata()?.len() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    file.seek(SeekFrom::Start(frame.offset))?;
    let mut bytes = vec![0; usize::try_from(frame.len).unwrap_or(usize::MAX)];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Puts a migrated journal in place of the old one; returns its length.
fn rewrite(path: &Path, lines: &[Line]) -> Result<u64, RecordError> {
    let mut bytes = Vec::new();
    let synced = lines.last().map(|last| Line { t_ms: last.t_ms, entry: Entry::Synced });
    for line in lines.iter().chain(&synced) {
        line::encode(line, &mut bytes).map_err(|error| RecordError::Unreadable {
            path: path.to_owned(),
            reason: format!("it cannot be migrated to format {FORMAT_VERSION}: {error}"),
        })?;
    }
    files::write_atomic(path, &bytes)?;
    Ok(bytes.len() as u64)
}

fn open_append(path: &Path) -> Result<File, RecordError> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    options.open(path).map_err(|source| RecordError::io("write", path, source))
}

fn file_len(file: &File, path: &Path) -> Result<u64, RecordError> {
    Ok(file.metadata().map_err(|source| RecordError::io("read", path, source))?.len())
}

fn set_len(file: &File, path: &Path, len: u64) -> Result<(), RecordError> {
    let cut = if file_len(file, path)? > len { file.set_len(len) } else { Ok(()) };
    cut.and_then(|()| file.sync_all()).map_err(|source| RecordError::io("write", path, source))
}
