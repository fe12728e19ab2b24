//! The parts of a training before it starts: its name, the plans of its runs, and its policy's folder.

use std::path::PathBuf;

use clawrl_config::{PolicySource, TrainPlan, TrainRun, TrainTasks};
use clawrl_core::{RunId, RunPlan};
use clawrl_record::{LockFile, RunStore, RunWriter};

use super::files::TrainingFiles;
use clawrl_runtime::create_under;
use clawrl_runtime::host::capacity;
use clawrl_runtime::training::{TrainError, TrainStart};

/// The parts of a training; all follow from its name.
pub(super) struct Layout {
    pub(super) files: TrainingFiles,
    pub(super) policy_folder: PathBuf,
    /// Plan of reinforcement learning.
    pub(super) rl: RunPlan,
    /// Plan of the first evaluation.
    evaluation: RunPlan,
    pub(super) demonstrations: Option<RunPlan>,
}

impl Layout {
    /// The layout of the training of this name.
    ///
    /// # Errors
    /// A plan is invalid, or the suites of a resumed training have changed.
    pub(super) fn new(
        run: RunId,
        results: PathBuf,
        plan: &TrainPlan,
        tasks: &TrainTasks,
        start: TrainStart,
    ) -> Result<Self, TrainError> {
        let files = TrainingFiles::new(run, results)?;
        let policy_folder = match &plan.policy {
            PolicySource::Preset(_) => files.policy(),
            PolicySource::Path(folder) => folder.clone(),
        };
        let part = |run: RunId| TrainRun { run, host: capacity::probe() };
        let rl = match start {
            TrainStart::New => tasks.rl_plan(&policy_folder, &part(files.run().clone()))?,
            TrainStart::Resume => recorded_plan(&files, tasks)?,
        };
        // Checked now, so that errors are reported before minutes of work.
        let evaluation = tasks.evaluation_plan(&policy_folder, &part(files.evaluation(0, None)?))?;
        let demonstrations = match &plan.warm_start {
            Some(_) => Some(tasks.demonstration_plan(&part(files.demonstrations()?))?),
            None => None,
        };
        Ok(Self { files, policy_folder, rl, evaluation, demonstrations })
    }

    /// The plans of all runs.
    pub(super) fn plans(&self) -> Vec<&RunPlan> {
        [&self.rl, &self.evaluation].into_iter().chain(&self.demonstrations).collect()
    }

    /// Creates the training's run. A generated name that was taken in the meantime is replaced.
    ///
    /// # Errors
    /// The name is taken, or the run cannot be written.
    pub(super) fn create(
        mut self,
        is_named: bool,
        plan: &TrainPlan,
        tasks: &TrainTasks,
        lock: &LockFile,
    ) -> Result<Self, TrainError> {
        refuse_taken(&self.files, is_named)?;
        let train = serde_json::to_value(plan)
            .map_err(|error| TrainError::internal(format!("the train plan cannot be kept: {error}")))?;
        let results = self.files.results().to_owned();
        let store = RunStore::open(&results)?;
        let writer = create_under(&self.files.run().clone(), is_named, &store, |name| {
            if name != self.files.run() {
                self = Self::new(name.clone(), results.clone(), plan, tasks, TrainStart::New)?;
            }
            Ok::<_, TrainError>(RunWriter::create_training(&results, &self.rl, lock, &train))
        })?;
        writer.close()?;
        Ok(self)
    }
}

/// Refuses a name that is taken. Parts of an older training must not become parts of a new one of the same name.
fn refuse_taken(files: &TrainingFiles, is_named: bool) -> Result<(), TrainError> {
    let store = RunStore::open(files.results())?;
    let run = files.run();
    if is_named && store.run(run).is_ok() {
        let help = format!("choose another name with --name, or go on with it: clawrl train --resume {run}");
        return Err(TrainError::no_such_run(format!("run {run} exists already")).with_help(help));
    }
    for part in [files.demonstrations()?, files.evaluation(0, None)?] {
        // A generated name may belong to a training that has just started.
        if store.run(&part).is_ok() && (is_named || store.run(run).is_err()) {
            let help = format!("choose another name with --name, or delete it: clawrl clean {part}");
            let message = format!("run {part} is there already, of an older training of this name");
            return Err(TrainError::no_such_run(message).with_help(help));
        }
    }
    Ok(())
}

/// The recorded plan of a resumed training, which has to have the same suites as at its start.
fn recorded_plan(files: &TrainingFiles, tasks: &TrainTasks) -> Result<RunPlan, TrainError> {
    let plan = RunStore::open(files.results())?.run(files.run())?.plan().clone();
    let changed = tasks.suites().iter().zip(&plan.suites).find(|(now, then)| now.sha256() != then.sha256);
    let Some((suite, _)) = changed else { return Ok(plan) };
    let (name, path) = (suite.name(), suite.path().display());
    let message = format!("suite {name} has changed since the training began: {path}");
    let help = "restore it, or train anew under another name";
    Err(TrainError::refused(message).with_help(help))
}
