//! Reading a run.
//!
//! I1. Nothing is modified, whatever state the run is in.
//! I2. A run that is under way reads as of the last whole line of its journal; [`Run::open_read`] again for
//!     news.
//! I3. A trajectory is checked against its checksum whenever it is read.

use std::fs::File;
use std::path::{Path, PathBuf};

use clawrl_core::{AttemptId, AttemptRecord, BlobRef, RunPlan};

use crate::owner::Owner;
use crate::{
    AttemptSummary, HeldOut, JournalState, JudgedTurn, LockFile, MetricRow, RecordError, RunSummary, TailCut,
    UpdateMetrics,
};
use crate::{blobs, files, frame, held_out, journal, judgements, metrics, migrate, resume};

/// A run as it stands.
#[derive(Debug)]
pub struct Run {
    dir: PathBuf,
    plan: RunPlan,
    state: Option<JournalState>,
    tail: Option<TailCut>,
    running: bool,
}

impl Run {
    /// Reads plan and journal of the run in this folder.
    ///
    /// # Errors
    /// [`RecordError::Newer`], [`RecordError::PlanChanged`], [`RecordError::Damaged`],
    /// [`RecordError::Unreadable`], [`RecordError::Io`].
    pub fn open_read(dir: &Path) -> Result<Self, RecordError> {
        // Asked first: if the writer ends in between, the journal is read whole and only called running.
        let running = Owner::is_held(dir);
        let (plan, sha256) = resume::read_plan(dir)?;
        let path = dir.join(files::JOURNAL);
        let bytes = files::read_optional(&path)?.unwrap_or_default();
        let journal = journal::replay(&bytes).map_err(|error| resume::journal_error(&path, error))?;
        if let Some(state) = &journal.state {
            resume::check_plan(dir, state, &sha256)?;
        }
        // While the run is under way, a torn tail is a line being written.
        let tail = journal.tail.filter(|_| !running);
        Ok(Self { dir: dir.to_owned(), plan, state: journal.state, tail, running })
    }

    /// The run's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The plan of the run.
    #[must_use]
    pub fn plan(&self) -> &RunPlan {
        &self.plan
    }

    /// State of the journal; `None` if the process died before the first line.
    #[must_use]
    pub fn state(&self) -> Option<&JournalState> {
        self.state.as_ref()
    }

    /// Whether a process was writing it when it was opened.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.running
    }

    /// Whether a process is writing it now.
    #[must_use]
    pub fn is_held(&self) -> bool {
        Owner::is_held(&self.dir)
    }

    /// A torn tail that a resume would cut.
    #[must_use]
    pub fn torn_tail(&self) -> Option<&TailCut> {
        self.tail.as_ref()
    }

    /// The circumstances it was made under.
    ///
    /// # Errors
    /// [`RecordError::Io`], [`RecordError::Unreadable`], [`RecordError::Newer`].
    pub fn lock_file(&self) -> Result<LockFile, RecordError> {
        let path = self.dir.join(files::LOCK);
        let bytes = files::read(path.clone())?;
        migrate::lock(&bytes).map_err(|error| resume::understood(path, error))
    }

    /// Figures of the run as it stands.
    #[must_use]
    pub fn summary(&self) -> RunSummary {
        match &self.state {
            Some(state) => RunSummary::new(&self.plan, state),
            None => RunSummary::unopened(&self.plan),
        }
    }

    /// Attempts that resolved, slot by slot.
    pub fn attempts(&self) -> impl Iterator<Item = &AttemptSummary> {
        self.state.iter().flat_map(JournalState::attempts)
    }

    /// Everything recorded about one attempt.
    ///
    /// # Errors
    /// [`RecordError::NoSuchAttempt`], [`RecordError::TrajectoriesDamaged`], [`RecordError::Io`].
    pub fn trajectory(&self, attempt: AttemptId) -> Result<AttemptRecord, RecordError> {
        let missing = || RecordError::NoSuchAttempt { run: self.plan.run.clone(), attempt };
        let summary = self.state.as_ref().and_then(|state| state.attempt(attempt)).ok_or_else(missing)?;
        self.read(&mut self.open_trajectories()?, summary)
    }

    /// All records in the order of the file, so that it is read sequentially.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the file cannot be opened; items as for [`Run::trajectory`].
    pub fn trajectories(
        &self,
    ) -> Result<impl Iterator<Item = Result<AttemptRecord, RecordError>> + '_, RecordError> {
        let mut summaries: Vec<&AttemptSummary> = self.attempts().collect();
        summaries.sort_by_key(|summary| summary.frame.offset);
        let mut file = if summaries.is_empty() { None } else { Some(self.open_trajectories()?) };
        Ok(summaries.into_iter().filter_map(move |summary| Some(self.read(file.as_mut()?, summary))))
    }

    /// The asciicast v2 recording of an attempt's terminal session; `None` if its environment has none.
    ///
    /// # Errors
    /// As [`Run::trajectory`].
    pub fn cast(&self, attempt: AttemptId) -> Result<Option<String>, RecordError> {
        Ok(self.trajectory(attempt)?.trajectory.cast)
    }

    /// A blob by its hash, verified; `None` if it does not exist.
    ///
    /// # Errors
    /// [`RecordError::Io`], or [`RecordError::Unreadable`] for a damaged blob.
    pub fn blob(&self, blob: &BlobRef) -> Result<Option<Vec<u8>>, RecordError> {
        blobs::read(&self.dir, blob)
    }

    /// The content of `train.json` in the run of a training. Only the program that wrote it understands
    /// it.
    ///
    /// # Errors
    /// [`RecordError::Io`], [`RecordError::Unreadable`].
    pub fn train(&self) -> Result<Option<serde_json::Value>, RecordError> {
        let path = self.dir.join(files::TRAIN);
        let Some(bytes) = files::read_optional(&path)? else { return Ok(None) };
        let unreadable =
            |error: serde_json::Error| RecordError::Unreadable { path, reason: error.to_string() };
        serde_json::from_slice(&bytes).map(Some).map_err(unreadable)
    }

    /// Evaluations of a training on held-out tasks, in order; none of other runs.
    ///
    /// # Errors
    /// [`RecordError::Io`], [`RecordError::Unreadable`].
    pub fn held_out(&self) -> Result<Vec<HeldOut>, RecordError> {
        held_out::read(&self.dir)
    }

    /// Folder of the learner's checkpoints, which may not exist. The record neither writes nor reads there;
    /// removing the run removes it.
    #[must_use]
    pub fn checkpoints_dir(&self) -> PathBuf {
        self.dir.join(files::CHECKPOINTS)
    }

    /// Figures of training, by update.
    ///
    /// # Errors
    /// As [`Run::metrics`].
    pub fn updates(&self) -> Result<Vec<UpdateMetrics>, RecordError> {
        Ok(metrics::by_update(&self.metrics()?))
    }

    /// Figures over time. A row that is being written is left out.
    ///
    /// # Errors
    /// [`RecordError::Io`], [`RecordError::Unreadable`].
    pub fn metrics(&self) -> Result<Vec<MetricRow>, RecordError> {
        let path = self.dir.join(files::METRICS);
        let bytes = files::read_optional(&path)?.unwrap_or_default();
        metrics::parse(&bytes).map_err(|(line, error)| metrics::unreadable(path, line, &error))
    }

    /// Judgements of an attempt's turns, in order; empty if none were requested.
    ///
    /// # Errors
    /// [`RecordError::Io`], [`RecordError::Unreadable`].
    pub fn judgements(&self, attempt: AttemptId) -> Result<Vec<JudgedTurn>, RecordError> {
        let path = self.dir.join(files::JUDGEMENTS);
        let bytes = files::read_optional(&path)?.unwrap_or_default();
        judgements::of_attempt(&bytes, attempt)
            .map_err(|(line, error)| metrics::unreadable(path, line, &error))
    }

    fn open_trajectories(&self) -> Result<File, RecordError> {
        let path = self.dir.join(files::TRAJECTORIES);
        File::open(&path).map_err(|source| RecordError::io("read", path, source))
    }

    fn read(&self, file: &mut File, summary: &AttemptSummary) -> Result<AttemptRecord, RecordError> {
        let damaged = |reason: String| RecordError::TrajectoriesDamaged {
            path: self.dir.join(files::TRAJECTORIES),
            reason: format!("the frame of attempt {}: {reason}", summary.attempt),
        };
        let bytes = resume::read_frame(file, summary.frame).map_err(|error| damaged(error.to_string()))?;
        let mut record: AttemptRecord =
            frame::decode(&bytes, summary.frame).map_err(|error| damaged(error.to_string()))?;
        // The frame holds the state at the time of writing; the journal knows about reopened slots.
        record.closes_slot = summary.closes_slot;
        Ok(record)
    }
}
