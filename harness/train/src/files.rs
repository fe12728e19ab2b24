//! Files and folders of a training.
//!
//! The training is a run: its folder holds the train file, the journal of its groups, metrics, checkpoints, the initial policy
//! and the page. Demonstrations and evaluations are runs of their own beside it, which `clawrl show` opens like any other.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

use clawrl_core::RunId;

use clawrl_runtime::training::{TRAINING_LOCK, TrainError, check_training_name};

/// Names and folders of one training.
#[derive(Debug, Clone)]
pub(crate) struct TrainingFiles {
    run: RunId,
    results: PathBuf,
}

impl TrainingFiles {
    /// The files of the training of this name.
    ///
    /// # Errors
    /// The name is too long for the names of its parts.
    pub(crate) fn new(run: RunId, results: PathBuf) -> Result<Self, TrainError> {
        check_training_name(&run)?;
        Ok(Self { run, results })
    }

    pub(crate) fn run(&self) -> &RunId {
        &self.run
    }

    pub(crate) fn results(&self) -> &Path {
        &self.results
    }

    /// The run of the demonstrations.
    pub(crate) fn demonstrations(&self) -> Result<RunId, TrainError> {
        self.part("demonstrations")
    }

    /// The run of the evaluation after this many updates; with `branch`, the evaluation of the version that a rollback made then.
    pub(crate) fn evaluation(&self, updates: u32, branch: Option<u64>) -> Result<RunId, TrainError> {
        match branch {
            Some(version) => self.part(&format!("eval-v{version:06}")),
            None => self.part(&format!("eval-{updates:06}")),
        }
    }

    /// The run of the evaluation of a version before it acts, after this many updates.
    pub(crate) fn gate_evaluation(&self, updates: u32) -> Result<RunId, TrainError> {
        self.part(&format!("gate-{updates:06}"))
    }

    fn part(&self, part: &str) -> Result<RunId, TrainError> {
        let name = format!("{}-{part}", self.run);
        RunId::new(&name).ok_or_else(|| TrainError::internal(format!("{name} is no name of a run")))
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.results.join("runs").join(self.run.as_str())
    }

    /// Locks the training for this process until the file is dropped or the process ends. The folder has to exist.
    ///
    /// # Errors
    /// Another process holds the lock, or the file cannot be created.
    pub(crate) fn lock(&self) -> Result<File, TrainError> {
        let path = self.folder().join(TRAINING_LOCK);
        let failed =
            |error: std::io::Error| TrainError::storage(format!("cannot lock {}: {error}", path.display()));
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                let message = format!("training {} is under way in another process", self.run);
                Err(TrainError::no_such_run(message))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Folder of the policy that was created from a preset.
    pub(crate) fn policy(&self) -> PathBuf {
        self.folder().join("policy")
    }

    pub(crate) fn page(&self) -> PathBuf {
        self.folder().join("report.html")
    }

    /// Model folder of the weights of this version's checkpoint.
    pub(crate) fn model_of(&self, version: u64) -> PathBuf {
        self.folder().join("checkpoints").join(format!("{version:06}")).join("model")
    }
}
