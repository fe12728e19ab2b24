//! Writes a run: create or resume, hand out the sink, finish.
//!
//! I1. `plan.json`, `lock.json` and a training's `train.json` are on the disk before the journal is opened,
//!     `opened` or `resumed` before the sink is handed out.
//! I2. Dropping a writer leaves a run that can be resumed, with everything acknowledged synced.
//! I3. The lock file names every redacted variable before the first record in which it is redacted.
//!
//! Everything here blocks and belongs on an OS thread; only [`RunSink`] is for asynchronous code.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use clawrl_core::{FORMAT_VERSION, RunId, RunPlan, SlotId};
use crossbeam::channel::{Sender, bounded};

use serde::Serialize;

use crate::committer::{Command, Committer, Ended, SYNC_INTERVAL, Target, now_ms};
use crate::logs::{LogError, Logs};
use crate::owner::Owner;
use crate::resume::Repaired;
use crate::sink::CREDITS;
use crate::{
    Entry, JournalState, Line, LockFile, Opened, RecordError, ReopenCause, ResumeMode, ResumeState, Resumed,
    RunEnd,
};
use crate::{Redactor, RunBlobs, RunSink, RunSummary, TailCut, files, line, lock_file, metrics, resume};

/// A run that this process writes. Owns the writer thread, which ends with it.
#[derive(Debug)]
pub struct RunWriter {
    run: RunId,
    dir: PathBuf,
    plan: RunPlan,
    commands: Sender<Command>,
    sink: RunSink,
    thread: Option<JoinHandle<Ended>>,
    _owner: Owner,
}

impl RunWriter {
    /// Makes the run's folder under `results_dir/runs/` and opens its journal.
    ///
    /// # Errors
    /// [`RecordError::Exists`] if the folder is there; [`RecordError::NoSpace`], [`RecordError::NotWritable`].
    pub fn create(results_dir: &Path, plan: &RunPlan, lock: &LockFile) -> Result<Self, RecordError> {
        Self::create_run(results_dir, plan, lock, None)
    }

    /// Creates the run of a training, whose folder also contains the train file. The record does not
    /// interpret it, stores it as `train.json` and checks the journal against it.
    ///
    /// # Errors
    /// As for [`RunWriter::create`].
    pub fn create_training(
        results_dir: &Path,
        plan: &RunPlan,
        lock: &LockFile,
        train: &serde_json::Value,
    ) -> Result<Self, RecordError> {
        Self::create_run(results_dir, plan, lock, Some(train))
    }

    fn create_run(
        results_dir: &Path,
        plan: &RunPlan,
        lock: &LockFile,
        train: Option<&serde_json::Value>,
    ) -> Result<Self, RecordError> {
        // Before anything is created, so that a run that cannot be written is never started.
        let plan_bytes = compact(&plan.run, plan)?;
        let lock_bytes = pretty(&plan.run, lock)?;
        let train_bytes = train.map(|train| pretty(&plan.run, train)).transpose()?;
        let runs = results_dir.join(files::RUNS);
        fs::create_dir_all(&runs).map_err(|source| RecordError::io("create", &runs, source))?;
        let dir = runs.join(plan.run.as_str());
        match fs::create_dir(&dir) {
            Ok(()) => {}
            // A folder without a plan was left by a process that died in this function; it may be used.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => return Err(RecordError::io("create", &dir, source)),
        }
        let owner = Owner::take(&dir, &plan.run)?;
        if files::is_there(&dir.join(files::PLAN))? {
            return Err(RecordError::Exists { run: plan.run.clone() });
        }
        let train_path = dir.join(files::TRAIN);
        match train_bytes {
            Some(train) => files::write_atomic(&train_path, &train)?,
            None => files::remove_optional(&train_path)?,
        }
        files::write_atomic(&dir.join(files::PLAN), &plan_bytes)?;
        files::write_atomic(&dir.join(files::LOCK), &lock_bytes)?;
        files::sync_dir(&runs)?;
        Self::begin(dir, plan, &clawrl_core::sha256_hex(&plan_bytes), &lock.program, owner)
    }

    /// Resumes a run whose process ended: cuts torn tails, journals `resumed`, and `reopened` for closed slots that
    /// the mode opens again. A run that died before its journal was opened starts now.
    ///
    /// # Errors
    /// [`RecordError::NoSuchRun`], [`RecordError::Running`], [`RecordError::Newer`],
    /// [`RecordError::PlanChanged`], [`RecordError::Damaged`], [`RecordError::TrajectoriesDamaged`].
    pub fn resume(
        results_dir: &Path,
        run: &RunId,
        mode: ResumeMode,
    ) -> Result<(Self, RunPlan, ResumeState), RecordError> {
        let runs = results_dir.join(files::RUNS);
        let dir = runs.join(run.as_str());
        if !files::is_there(&dir.join(files::PLAN))? {
            return Err(RecordError::NoSuchRun { run: run.clone(), dir: runs });
        }
        let owner = Owner::take(&dir, run)?;
        let (plan, sha256) = resume::read_plan(&dir)?;
        let Repaired { journal, frames, state, cut } = resume::repair(&dir, run, &sha256)?;
        let mut logs = Logs::new(journal, frames);
        let state = match state {
            None => open_journal(&mut logs, &dir, opened(&dir, &plan, &program(&dir), sha256)?, run)?,
            Some(state) => {
                let reopened = mode.reopened(&plan, &state);
                resume_journal(&mut logs, &dir, state, reopened, cut.as_ref(), run)?
            }
        };
        if let ResumeMode::RollBack { update, .. } = mode {
            forget_updates(&dir, update)?;
        }
        let resume_state = ResumeState::new(&state, cut);
        let writer = Self::start(dir, plan.clone(), state, logs, owner)?;
        Ok((writer, plan, resume_state))
    }

    fn begin(
        dir: PathBuf,
        plan: &RunPlan,
        sha256: &str,
        program: &str,
        owner: Owner,
    ) -> Result<Self, RecordError> {
        let Repaired { journal, frames, .. } = resume::repair(&dir, &plan.run, sha256)?;
        let mut logs = Logs::new(journal, frames);
        let opened = opened(&dir, plan, program, sha256.to_owned())?;
        let state = open_journal(&mut logs, &dir, opened, &plan.run)?;
        Self::start(dir, plan.clone(), state, logs, owner)
    }

    fn start(
        dir: PathBuf,
        plan: RunPlan,
        state: JournalState,
        logs: Logs<File>,
        owner: Owner,
    ) -> Result<Self, RecordError> {
        let metrics = files::open_lines(&dir.join(files::METRICS))?;
        let run = plan.run.clone();
        let target = Target {
            run: run.clone(),
            dir: dir.clone(),
            logs,
            metrics: Some(metrics),
            state,
            sync_interval: SYNC_INTERVAL,
        };
        let failed = |source| RecordError::io("start the writer thread of", &dir, source);
        let committer = Committer::new(target).map_err(failed)?;
        // One slot more than there are credits: the command that ends the thread needs no credit.
        let (commands, queue) = bounded(CREDITS + 1);
        let builder = std::thread::Builder::new().name("clawrl-journal".to_owned());
        let thread = builder.spawn(move || committer.run(&queue)).map_err(failed)?;
        let sink = RunSink::new(commands.clone(), Arc::new(RunBlobs::open(&dir)?));
        Ok(Self { run, dir, plan, commands, sink, thread: Some(thread), _owner: owner })
    }

    /// From now on, sinks of this run redact the values of these secrets in every record, and the lock file names the variables, so
    /// that a resume can redact them, too. Plan and lock file are not redacted: the caller that creates or
    /// resumes a run checks them with [`Redactor::found_in`] first.
    ///
    /// # Errors
    /// [`RecordError::Unreadable`], [`RecordError::Newer`], [`RecordError::NoSpace`], [`RecordError::NotWritable`]
    /// of the lock file. The run can be resumed then.
    pub fn redacting(mut self, redactor: Arc<Redactor>) -> Result<Self, RecordError> {
        lock_file::add_redacted(&self.dir, &redactor)?;
        self.sink = self.sink.clone().redacting(redactor);
        Ok(self)
    }

    /// The sink of this run. Its clones stop working when the writer ends.
    #[must_use]
    pub fn sink(&self) -> RunSink {
        self.sink.clone()
    }

    /// The run's folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Folder of the learner's checkpoints; see [`crate::Run::checkpoints_dir`].
    #[must_use]
    pub fn checkpoints_dir(&self) -> PathBuf {
        self.dir.join(files::CHECKPOINTS)
    }

    /// Journals the end of the run, syncs, and writes `summary.json`. Blocks.
    ///
    /// # Errors
    /// [`RecordError::Refused`] while attempts are under way, unless `end` is [`RunEnd::HarnessFault`];
    /// [`RecordError::Writer`] when something could not be written. The run can be resumed then.
    pub fn finish(mut self, end: RunEnd) -> Result<RunSummary, RecordError> {
        let ended = self.end(Command::Finish(end))?;
        if let Some(error) = ended.error {
            return Err(error);
        }
        let summary = RunSummary::new(&self.plan, &ended.state);
        files::write_atomic(&self.dir.join(files::SUMMARY), &pretty(&self.run, &summary)?)?;
        Ok(summary)
    }

    /// Syncs and leaves the run open for a resume. Blocks.
    ///
    /// # Errors
    /// [`RecordError::Writer`] when something could not be written.
    pub fn close(mut self) -> Result<(), RecordError> {
        self.end(Command::Close)?.error.map_or(Ok(()), Err)
    }

    fn end(&mut self, command: Command) -> Result<Ended, RecordError> {
        // The channel has room; if the thread is gone, joining it returns the error.
        let _ = self.commands.try_send(command);
        let thread =
            self.thread.take().ok_or_else(|| RecordError::Writer("the writer has ended".to_owned()))?;
        thread
            .join()
            .map_err(|_| RecordError::Writer("the writer thread panicked; resume the run".to_owned()))
    }
}

impl Drop for RunWriter {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // No caller is left; a failed write was reported to the waiting caller.
            let _ = self.end(Command::Close);
        }
    }
}

fn opened(dir: &Path, plan: &RunPlan, program: &str, plan_sha256: String) -> Result<Opened, RecordError> {
    let slots = u32::try_from(plan.slots.len()).unwrap_or(u32::MAX);
    let train = files::read_optional(&dir.join(files::TRAIN))?;
    let train_sha256 = train.map(|bytes| clawrl_core::sha256_hex(&bytes));
    Ok(Opened { format: FORMAT_VERSION, program: program.to_owned(), plan_sha256, slots, train_sha256 })
}

/// Variables of the lock file; a run that died before its first line may have none.
fn program(dir: &Path) -> String {
    let lock = files::read_optional(&dir.join(files::LOCK)).ok().flatten();
    lock.and_then(|bytes| crate::migrate::lock(&bytes).ok()).map_or("unknown".to_owned(), |lock| lock.program)
}

fn open_journal(
    logs: &mut Logs<File>,
    dir: &Path,
    opened: Opened,
    run: &RunId,
) -> Result<JournalState, RecordError> {
    let line = Line { t_ms: now_ms(), entry: Entry::Opened(opened) };
    let state = JournalState::open(&line)
        .map_err(|violation| RecordError::Refused { run: run.clone(), violation })?;
    append_synced(logs, dir, &[line])?;
    Ok(state)
}

fn resume_journal(
    logs: &mut Logs<File>,
    dir: &Path,
    mut state: JournalState,
    (reopened, cause): (Vec<SlotId>, ReopenCause),
    cut: Option<&TailCut>,
    run: &RunId,
) -> Result<JournalState, RecordError> {
    let cut_bytes = cut.map_or(0, |cut| cut.bytes);
    let mut entries = vec![Entry::Resumed(Resumed { first_epoch: state.next_epoch(), cut_bytes })];
    if !reopened.is_empty() {
        entries.push(Entry::Reopened { slots: reopened, cause });
    }
    let t_ms = now_ms();
    let lines: Vec<Line> = entries.into_iter().map(|entry| Line { t_ms, entry }).collect();
    for line in &lines {
        state.apply(line).map_err(|violation| RecordError::Refused { run: run.clone(), violation })?;
    }
    append_synced(logs, dir, &lines)?;
    Ok(state)
}

/// Appends lines, syncs, and says so in the journal.
fn append_synced(logs: &mut Logs<File>, dir: &Path, lines: &[Line]) -> Result<(), RecordError> {
    let encoded = |lines: &[Line]| {
        let mut bytes = Vec::new();
        let all = lines.iter().try_for_each(|line| line::encode(line, &mut bytes));
        all.map(|()| bytes)
            .map_err(|error| RecordError::Writer(format!("a journal line cannot be encoded: {error}")))
    };
    let failed = |error: LogError| RecordError::io("write", dir.join(error.file), error.source);
    logs.append(&[], &encoded(lines)?).map_err(failed)?;
    logs.sync().map_err(failed)?;
    files::sync_dir(dir)?;
    let mark = Line { t_ms: now_ms(), entry: Entry::Synced };
    logs.append(&[], &encoded(&[mark])?).map_err(failed)
}

/// Removes the figures of updates after this one.
fn forget_updates(dir: &Path, update: u64) -> Result<(), RecordError> {
    let path = dir.join(files::METRICS);
    let Some(bytes) = files::read_optional(&path)? else { return Ok(()) };
    let unreadable = |(line, error)| metrics::unreadable(path.clone(), line, &error);
    let kept = metrics::up_to(&bytes, update).map_err(unreadable)?;
    if kept.len() < bytes.len() { files::write_atomic(&path, &kept) } else { Ok(()) }
}

/// On one line: a plan of many slots is for programs.
fn compact<T: Serialize>(run: &RunId, value: &T) -> Result<Vec<u8>, RecordError> {
    json_line(run, serde_json::to_vec(value))
}

fn pretty<T: Serialize>(run: &RunId, value: &T) -> Result<Vec<u8>, RecordError> {
    json_line(run, serde_json::to_vec_pretty(value))
}

fn json_line(run: &RunId, json: serde_json::Result<Vec<u8>>) -> Result<Vec<u8>, RecordError> {
    let mut bytes =
        json.map_err(|error| RecordError::NotStorable { run: run.clone(), reason: error.to_string() })?;
    bytes.push(b'\n');
    Ok(bytes)
}
