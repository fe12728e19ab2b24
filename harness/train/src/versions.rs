//! The versions of a training's policy: their parents, and `clawrl policy versions`, `rollback` and `diff`.
//!
//! I1. A rollback makes a new version with the parameters of an older one, under a number that no checkpoint had. I2. Consumed
//! groups stay consumed: a training continues with new groups after a rollback. I3. `versions.jsonl` in the training's folder has
//! one line for each checkpoint, including deleted ones, and for each rejected version.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clawrl_config::{CheckpointPlan, TrainPlan};
use clawrl_core::RunId;
use clawrl_record::{Metric, Run, RunStore, UpdateMetrics, best_of};
use clawrl_torch::{Branch, CheckpointFacts, Checkpoints, Device, Retention, TorchError, load_merged};
use serde::{Deserialize, Serialize};

use super::best;
use super::evaluation::held_out;
use super::files::TrainingFiles;
use super::learning::{now_ms, progress_of};
use super::libtorch::check_libtorch;
use clawrl_runtime::Progress;
use clawrl_runtime::training::{
    PolicyVersion, RollbackOutcome, TrainError, VersionDiff, VersionList, read_plan,
};

/// The history of one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) version: u64,
    /// The checkpoint that this version was made from; `None` before the first update.
    pub(super) parent: Option<u64>,
    /// Number of updates up to this version.
    pub(super) updates: u32,
    pub(super) t_ms: u64,
    /// The version that a rollback replaced by this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instead_of: Option<u64>,
    /// The reason of a rejection. A checkpoint of this number, if there is one, equals its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rejected: Option<String>,
}

/// The file `versions.jsonl` (I3).
#[derive(Debug, Clone)]
pub(super) struct VersionLog {
    path: PathBuf,
}

impl VersionLog {
    pub(super) fn of(files: &TrainingFiles) -> Self {
        Self { path: files.folder().join("versions.jsonl") }
    }

    /// All notes by version. The last note counts if a version was made again after a kill. A torn line is ignored.
    pub(super) fn read(&self) -> BTreeMap<u64, Made> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let notes = text.lines().filter_map(|line| serde_json::from_str::<Made>(line).ok());
        notes.map(|made| (made.version, made)).collect()
    }

    /// Versions made by rollbacks, by the number of updates at that time; the last one for each number.
    pub(super) fn branches(&self) -> BTreeMap<u32, u64> {
        let branches = self.read().into_values().filter(|made| made.instead_of.is_some());
        branches.map(|made| (made.updates, made.version)).collect()
    }

    /// Notes a version, unless the same note exists.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&self, made: &Made) -> Result<(), TrainError> {
        let told = |made: &Made| (made.parent, made.instead_of, made.rejected.clone());
        let same = |known: &Made| told(known) == told(made);
        if self.read().get(&made.version).is_some_and(same) {
            return Ok(());
        }
        let failed = |error: &dyn std::fmt::Display| {
            TrainError::storage(format!("cannot write {}: {error}", self.path.display()))
        };
        let torn = fs::read(&self.path).is_ok_and(|bytes| bytes.last().is_some_and(|&last| last != b'\n'));
        let line = serde_json::to_string(made).map_err(|error| failed(&error))?;
        let line = format!("{}{line}\n", if torn { "\n" } else { "" });
        let file = OpenOptions::new().create(true).append(true).open(&self.path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).map_err(|error| failed(&error))
    }

    /// Removes notes of versions that were rejected after this one: a training that resumes from it makes them again, possibly
    /// with other results.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn forget_rejected_after(&self, version: u64) -> Result<(), TrainError> {
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        let is_stale = |line: &str| {
            let made = serde_json::from_str::<Made>(line);
            made.is_ok_and(|made| made.rejected.is_some() && made.version > version)
        };
        if !text.lines().any(is_stale) {
            return Ok(());
        }
        let kept: String =
            text.lines().filter(|line| !is_stale(line)).map(|line| format!("{line}\n")).collect();
        let beside = self.path.with_extension("part");
        fs::write(&beside, kept)
            .and_then(|()| fs::rename(&beside, &self.path))
            .map_err(|error| TrainError::storage(format!("cannot write {}: {error}", self.path.display())))
    }

    /// Notes the version of a resumed checkpoint, because a kill may have prevented its note.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add_found(
        &self,
        version: u64,
        branch: Option<Branch>,
        updates: u32,
    ) -> Result<(), TrainError> {
        let known = self.read();
        if branch.is_none() && known.contains_key(&version) {
            return Ok(());
        }
        self.add(&found(version, branch, updates, &known))
    }
}

/// The history of a version with a checkpoint but without a note.
fn found(version: u64, branch: Option<Branch>, updates: u32, known: &BTreeMap<u64, Made>) -> Made {
    let before = known.range(..version).next_back().map(|(&version, _)| version);
    let parent = branch.map_or(before, |branch| Some(branch.from));
    let instead_of = branch.map(|branch| branch.instead_of);
    Made { version, parent, updates, t_ms: now_ms(), instead_of, rejected: None }
}

/// The checkpoints of a training, with its plan's retention.
pub(super) fn checkpoints_of(files: &TrainingFiles, keep: CheckpointPlan) -> Checkpoints {
    let retention = Retention { weights: keep.keep_weights, moments: keep.keep_moments };
    Checkpoints::new(&files.folder().join("checkpoints"), retention)
}

/// An existing training.
struct Training {
    files: TrainingFiles,
    run: Run,
    plan: TrainPlan,
    checkpoints: Checkpoints,
}

impl Training {
    fn open(run: &RunId, results: &Path) -> Result<Self, TrainError> {
        check_libtorch()?;
        let found = RunStore::open(results)?.run(run)?;
        let kept = found.train()?.ok_or_else(|| {
            let help = "`clawrl ls` lists runs; those that `clawrl train` made have versions of a policy";
            TrainError::refused(format!("run {run} is no training")).with_help(help)
        })?;
        let plan = read_plan(run, kept)?;
        let files = TrainingFiles::new(run.clone(), results.to_owned())?;
        let checkpoints = checkpoints_of(&files, plan.checkpoint);
        Ok(Self { files, run: found, plan, checkpoints })
    }

    /// All known versions, and the damage of checkpoints.
    fn versions(&self) -> Result<(Vec<PolicyVersion>, Vec<String>), TrainError> {
        let (kept, damaged) = self.checkpoints.list().map_err(results)?;
        let figures = self.run.updates()?;
        let mut made = VersionLog::of(&self.files).read();
        // Checkpoints of older programs, which wrote no notes.
        for checkpoint in &kept {
            if checkpoint.branch.is_some() || !made.contains_key(&checkpoint.version) {
                let updates = progress_of(&checkpoint.progress)?.updates;
                let this = found(checkpoint.version, checkpoint.branch, updates, &made);
                made.insert(checkpoint.version, this);
            }
        }
        let best = best_of(&self.run.held_out()?).map(|best| best.version);
        let told = made.values().map(|this| self.told(this, &made, &kept, &figures, best));
        let told = told.collect::<Result<_, _>>();
        Ok((told?, damaged))
    }

    fn told(
        &self,
        this: &Made,
        all: &BTreeMap<u64, Made>,
        kept: &[CheckpointFacts],
        figures: &[UpdateMetrics],
        best: Option<u64>,
    ) -> Result<PolicyVersion, TrainError> {
        // The target of a rollback was measured when it was new, and possibly again.
        let mut measured = this;
        let mut again = None;
        while measured.instead_of.is_some() {
            again = again.or(self.measured_again(measured)?);
            let Some(parent) = measured.parent.and_then(|parent| all.get(&parent)) else { break };
            measured = parent;
        }
        let of_update = figures.iter().find(|figures| figures.update == u64::from(measured.updates));
        let figure = |metric| of_update.and_then(|figures| figures.get(metric));
        // The measurement of a rejected candidate does not apply to the checkpoint of that number.
        let of_gate = figure(Metric::TrainGateSuccessRatio).filter(|_| this.rejected.is_none());
        let kept = kept.iter().find(|checkpoint| checkpoint.version == this.version);
        Ok(PolicyVersion {
            version: this.version,
            parent: this.parent,
            updates: this.updates,
            instead_of: this.instead_of,
            rejected: this.rejected.clone(),
            held_out: again.or(figure(Metric::TrainHeldOutSuccessRatio)).or(of_gate),
            best: best == Some(this.version),
            entropy_nats: figure(Metric::TrainEntropyNats),
            reply_tokens: figure(Metric::TrainReplyTokensMean),
            reward: figure(Metric::TrainRewardMean),
            has_weights: kept.is_some(),
            has_moments: kept.is_some_and(|checkpoint| checkpoint.has_moments),
        })
    }

    /// Held-out success of a version made by a rollback, if it was evaluated after the rollback.
    fn measured_again(&self, branch: &Made) -> Result<Option<f64>, TrainError> {
        let run = self.files.evaluation(branch.updates, Some(branch.version))?;
        let Ok(run) = RunStore::open(self.files.results())?.run(&run) else { return Ok(None) };
        let is_over = run.state().is_some_and(|state| state.finished().is_some());
        Ok(is_over.then(|| held_out(&run, branch.updates, branch.version).rate().value))
    }
}

fn results(error: TorchError) -> TrainError {
    TrainError::storage(error.to_string())
}

/// The versions of a training's policy.
///
/// # Errors
/// The training does not exist, or its record cannot be read.
pub fn list_versions(run: &RunId, results: &Path) -> Result<VersionList, TrainError> {
    let (versions, damaged) = Training::open(run, results)?.versions()?;
    Ok(VersionList { versions, damaged })
}

/// Makes a new version of a training from the kept version `to`. Damaged checkpoints are reported as warnings.
///
/// # Errors
/// The training does not exist or is under way; the version is not kept or is the newest.
pub fn roll_back(
    run: &RunId,
    to: u64,
    results_folder: &Path,
    progress: &dyn Progress,
) -> Result<RollbackOutcome, TrainError> {
    let training = Training::open(run, results_folder)?;
    let _alone = training.files.lock()?;
    let (kept, damaged) = training.checkpoints.list().map_err(results)?;
    damaged.iter().for_each(|why| progress.warn(format_args!("{why}")));
    let Some(newest) = kept.last() else {
        let message = format!("training {} has no checkpoint yet", run);
        return Err(TrainError::refused(message));
    };
    let Some(target) = kept.iter().find(|checkpoint| checkpoint.version == to) else {
        let there: Vec<String> = kept.iter().map(|checkpoint| checkpoint.version.to_string()).collect();
        let message = format!("version {to} of training {} is not kept", run);
        let help = format!(
            "these are: {}; `keep_weights` of `checkpoint:` says how many stay beside version 0 and the best",
            there.join(", ")
        );
        return Err(TrainError::refused(message).with_help(help));
    };
    if to == newest.version {
        let message = format!("version {to} is the newest of training {}", run);
        return Err(TrainError::refused(message).with_help("there is nothing to go back from"));
    }
    // I1, I2.
    let numbers = training.checkpoints.versions().map_err(results)?;
    let version = numbers.last().map_or(0, |newest| newest + 1);
    let mut stream = progress_of(&newest.progress)?;
    stream.version = version;
    stream.accepted = None;
    // Results of the abandoned version do not apply to the restored one.
    let before = progress_of(&target.progress)?;
    stream.curriculum = stream.curriculum.with_success_of(&before.curriculum);
    (stream.baselines, stream.length) = (before.baselines, before.length);
    let done = stream.updates;
    let text = serde_json::to_string(&stream)
        .map_err(|error| TrainError::internal(format!("progress cannot be written: {error}")))?;
    let branch = Branch { from: to, instead_of: newest.version };
    training.checkpoints.branch(branch, version, &text).map_err(results)?;
    VersionLog::of(&training.files).add_found(version, Some(branch), stream.updates)?;
    best::keep(
        &training.files,
        &training.plan,
        &best::recorded(&training.files, &training.plan, stream.updates)?,
    )?;
    let updates_left = training.plan.rl.as_ref().map_or(0, |rl| rl.updates.saturating_sub(done));
    Ok(RollbackOutcome {
        run: run.clone(),
        version,
        parent: to,
        instead_of: newest.version,
        policy: training.files.model_of(version),
        updates_left,
    })
}

/// The difference of two kept versions. Damaged checkpoints are reported as warnings.
///
/// # Errors
/// The training does not exist, or a version is not kept.
pub fn diff_versions(
    run: &RunId,
    (first, second): (u64, u64),
    results_folder: &Path,
    progress: &dyn Progress,
) -> Result<VersionDiff, TrainError> {
    let training = Training::open(run, results_folder)?;
    let (versions, damaged) = training.versions()?;
    damaged.iter().for_each(|why| progress.warn(format_args!("{why}")));
    let known = |wanted: u64| {
        let found = versions.iter().find(|version| version.version == wanted && version.has_weights);
        found.cloned().ok_or_else(|| {
            let message = format!("version {wanted} of training {} is not kept", run);
            let help = format!("`clawrl policy versions {}` lists those that are", run);
            TrainError::refused(message).with_help(help)
        })
    };
    let (first, second) = (known(first)?, known(second)?);
    // Adapters are compared by the merged model: their factors alone say little.
    let load = |version| {
        training.checkpoints.load(version)?;
        load_merged(&training.files.model_of(version), Device::Cpu)
    };
    let apart = load(second.version).and_then(|second| second.distances(&load(first.version)?));
    let parameters = apart.map_err(results)?;
    Ok(VersionDiff { versions: [first, second], parameters })
}
