//! All runs of a results folder.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clawrl_core::{PolicySpec, RunId};
use serde::{Deserialize, Serialize};

use crate::owner::Owner;
use crate::{
    AttemptSummary, PassRate, RecordError, Redactor, Run, RunEnd, fall_of, fall_text, files, lock_file,
};

/// Folders with this prefix are runs on their way out; a run's name never begins with a dot.
const REMOVING: &str = ".removing-";

/// The runs under a results folder.
#[derive(Debug, Clone)]
pub struct RunStore {
    runs: PathBuf,
}

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// A process writes it now.
    Running,
    /// It ended by itself: every slot is closed, or the demand was closed.
    Finished,
    /// It ended with open slots, or its process died. It can be resumed.
    Interrupted,
    /// It is unreadable; [`RunInfo::problem`] has the reason.
    Damaged,
    /// This user has no permission; [`RunInfo::problem`] has the path.
    Unreadable,
}

/// A run in a listing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunInfo {
    /// Name of the run.
    pub run: RunId,
    /// When it began, milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// State of the run.
    pub state: RunState,
    /// Slots of the plan.
    pub slots: u32,
    /// Slots that are closed, by a fault or not.
    pub closed: u32,
    /// Slots that a fault closed.
    pub faulted: u32,
    /// Slots whose episode passed.
    pub passed: u32,
    /// Share of finished episodes that passed; `None` where none has finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass_rate: Option<PassRate>,
    /// Cost of policy and judge, in billionths of a US dollar; `None` without prices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_nano_usd: Option<u64>,
    /// The acting policy; `None` if the plan is unreadable.
    pub policy: Option<PolicySpec>,
    /// Names of the suites.
    pub suites: Vec<String>,
    /// For a training: a drop of its success on held-out tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fall: Option<String>,
    /// Whether it is the run of a training.
    pub is_training: bool,
    /// Bytes of its files; `None` if they cannot be counted.
    pub size_bytes: Option<u64>,
    /// The damage, or the bytes that a resume would cut.
    pub problem: Option<String>,
}

impl RunStore {
    /// The runs under this folder. It may be empty or not exist yet.
    ///
    /// # Errors
    /// [`RecordError::Io`] if it is there and no folder, or cannot be read.
    pub fn open(results_dir: &Path) -> Result<Self, RecordError> {
        let runs = results_dir.join(files::RUNS);
        match fs::read_dir(&runs) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(RecordError::io("read", runs, source)),
            _ => Ok(Self { runs }),
        }
    }

    /// All runs, the latest first; those that cannot be read last.
    ///
    /// # Errors
    /// [`RecordError::Io`] if the folder cannot be read. A run that cannot be is listed as damaged.
    pub fn list(&self) -> Result<Vec<RunInfo>, RecordError> {
        let mut infos: Vec<RunInfo> = self.names()?.iter().map(|run| self.info(run)).collect();
        infos.sort_by(|a, b| b.started_ms.cmp(&a.started_ms).then_with(|| a.run.cmp(&b.run)));
        Ok(infos)
    }

    /// Summary of one run. An unreadable run is described as damaged.
    #[must_use]
    pub fn info(&self, run: &RunId) -> RunInfo {
        let dir = self.runs.join(run.as_str());
        let is_training = files::is_there(&dir.join(files::TRAIN)).unwrap_or(false);
        let size_bytes = size_of(&dir).ok();
        match self.run(run) {
            Ok(opened) => RunInfo { is_training, size_bytes, ..described(run, &opened) },
            Err(error) => RunInfo {
                is_training,
                size_bytes,
                run: run.clone(),
                started_ms: None,
                state: match error {
                    RecordError::NotReadable { .. } => RunState::Unreadable,
                    _ => RunState::Damaged,
                },
                slots: 0,
                closed: 0,
                faulted: 0,
                passed: 0,
                pass_rate: None,
                cost_nano_usd: None,
                policy: None,
                suites: Vec::new(),
                fall: None,
                problem: Some(match error {
                    RecordError::NoSuchRun { .. } => {
                        "its folder has neither a plan nor a journal: the process died before the run started"
                            .to_owned()
                    }
                    _ => error.to_string(),
                }),
            },
        }
    }

    /// Opens a run for reading.
    ///
    /// # Errors
    /// [`RecordError::NoSuchRun`], also for a folder whose process died before there was a plan, and as
    /// [`Run::open_read`].
    pub fn run(&self, run: &RunId) -> Result<Run, RecordError> {
        let dir = self.existing(run)?;
        for file in [files::PLAN, files::JOURNAL] {
            if files::is_there(&dir.join(file))? {
                return Run::open_read(&dir);
            }
        }
        Err(self.no_such(run))
    }

    /// Removes a run with everything in it: first from sight, in one step, then from the disk.
    ///
    /// # Errors
    /// [`RecordError::Running`] if a process writes it; [`RecordError::NoSuchRun`]; [`RecordError::Io`].
    pub fn remove_run(&self, run: &RunId) -> Result<(), RecordError> {
        let dir = self.existing(run)?;
        // Held until the folder is gone, so that the run cannot be resumed during its removal.
        let _owner = Owner::take(&dir, run)?;
        let hidden = self.runs.join(format!("{REMOVING}{run}"));
        remove_tree(&hidden)?;
        fs::rename(&dir, &hidden).map_err(|source| RecordError::io("remove", &dir, source))?;
        remove_tree(&hidden)
    }

    /// Makes every later resume of a run redact these secrets, too, like [`crate::RunWriter::redacting`]; for a run
    /// without open slots.
    ///
    /// # Errors
    /// [`RecordError::Running`]; [`RecordError::NoSuchRun`]; as [`crate::RunWriter::redacting`].
    pub fn redact(&self, run: &RunId, redactor: &Redactor) -> Result<(), RecordError> {
        let dir = self.existing(run)?;
        let _owner = Owner::take(&dir, run)?;
        lock_file::add_redacted(&dir, redactor)
    }

    fn existing(&self, run: &RunId) -> Result<PathBuf, RecordError> {
        let dir = self.runs.join(run.as_str());
        if files::is_folder(&dir)? { Ok(dir) } else { Err(self.no_such(run)) }
    }

    fn no_such(&self, run: &RunId) -> RecordError {
        RecordError::NoSuchRun { run: run.clone(), dir: self.runs.clone() }
    }

    fn names(&self) -> Result<Vec<RunId>, RecordError> {
        let failed = |source| RecordError::io("read", &self.runs, source);
        let entries = match fs::read_dir(&self.runs) {
            Err(source) if source.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let Some(run) = name.to_str().and_then(RunId::new) else { continue };
            // The listing itself provides this if possible, because the content may be unreadable for this user.
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() || (kind.is_symlink() && files::is_folder(&entry.path()).unwrap_or(true)) {
                names.push(run);
            }
        }
        Ok(names)
    }
}

fn remove_tree(dir: &Path) -> Result<(), RecordError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(RecordError::io("remove", dir, error)),
        _ => Ok(()),
    }
}

/// Bytes of all files below a folder. Files that disappear meanwhile are ignored.
fn size_of(dir: &Path) -> std::io::Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        size += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => match size_of(&entry.path()) {
                Err(error) if error.kind() == ErrorKind::NotFound => 0,
                size => size?,
            },
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
    }
    Ok(size)
}

fn described(run: &RunId, opened: &Run) -> RunInfo {
    let plan = opened.plan();
    let state = opened.state();
    let its_own = |end: RunEnd| matches!(end, RunEnd::Completed | RunEnd::DemandClosed);
    let completed = state.and_then(|state| state.finished()).is_some_and(|finished| its_own(finished.end));
    let count = |wanted: fn(&AttemptSummary) -> bool| {
        let closing = state.iter().flat_map(|state| state.slots()).filter_map(|slot| slot.closing());
        u32::try_from(closing.filter(|summary| wanted(summary)).count()).unwrap_or(u32::MAX)
    };
    let total = opened.summary().total;
    let costs =
        [total.usage, total.judge_usage].into_iter().flatten().filter_map(|usage| usage.cost_nano_usd);
    RunInfo {
        run: run.clone(),
        started_ms: state.map(|state| state.started_ms()),
        state: match (opened.is_running(), completed) {
            (true, _) => RunState::Running,
            (false, true) => RunState::Finished,
            (false, false) => RunState::Interrupted,
        },
        slots: u32::try_from(plan.slots.len()).unwrap_or(u32::MAX),
        closed: state.map_or(0, |state| state.counts().0),
        faulted: count(AttemptSummary::faulted),
        passed: count(AttemptSummary::passed),
        pass_rate: total.pass_rate,
        cost_nano_usd: costs.reduce(u64::saturating_add),
        policy: Some(plan.policy.clone()),
        suites: plan.suites.iter().map(|suite| suite.name.clone()).collect(),
        fall: opened.held_out().ok().and_then(|held_out| fall_of(&held_out).map(fall_text)),
        is_training: false,
        size_bytes: None,
        problem: opened.torn_tail().map(|tail| {
            format!("the last {} bytes of the journal are incomplete; `--resume` removes them", tail.bytes)
        }),
    }
}
