//! What a training is made of before it begins: its name, the plans of its runs, and where its policy is.

use std::path::PathBuf;

use clawrl_config::{PolicySource, TrainPlan, TrainRun, TrainTasks};
use clawrl_core::{RunId, RunPlan};
use clawrl_record::{LockFile, RunStore, RunWriter};

use super::files::TrainingFiles;
use clawrl_runtime::create_under;
use clawrl_runtime::host::capacity;
use clawrl_runtime::training::{TrainError, TrainStart};

/// Everything in it follows from the name.
pub(super) struct Layout {
    pub(super) files: TrainingFiles,
    pub(super) policy_folder: PathBuf,
    /// Of reinforcement learning.
    pub(super) rl: RunPlan,
    /// Of the first evaluation.
    evaluation: RunPlan,
    pub(super) demonstrations: Option<RunPlan>,
}

impl Layout {
    /// Of the training of this name.
    ///
    /// # Errors
    /// What is wrong with a plan; a training to go on with whose suites have changed.
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
        // Looked at now, so that what is wrong with it is told before minutes have passed.
        let evaluation = tasks.evaluation_plan(&policy_folder, &part(files.evaluation(0, None)?))?;
        let demonstrations = match &plan.warm_start {
            Some(_) => Some(tasks.demonstration_plan(&part(files.demonstrations()?))?),
            None => None,
        };
        Ok(Self { files, policy_folder, rl, evaluation, demonstrations })
    }

    /// The plans of its runs.
    pub(super) fn plans(&self) -> Vec<&RunPlan> {
        [&self.rl, &self.evaluation].into_iter().chain(&self.demonstrations).collect()
    }

    /// Makes the training's run. If its name was generated and is taken by now, it gets another one.
    ///
    /// # Errors
    /// A name that is taken; what cannot be written.
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

/// A name that is taken. Parts of an older training of the same name must not be taken for parts of a new one.
fn refuse_taken(files: &TrainingFiles, is_named: bool) -> Result<(), TrainError> {
    let store = RunStore::open(files.results())?;
    let run = files.run();
    if is_named && store.run(run).is_ok() {
        let help = format!("choose another name with --name, or go on with it: clawrl train --resume {run}");
        return Err(TrainError::no_such_run(format!("run {run} exists already")).with_help(help));
    }
    for part in [files.demonstrations()?, files.evaluation(0, None)?] {
        // Without a name of one's own it may be of a training that began just now.
        if store.run(&part).is_ok() && (is_named || store.run(run).is_err()) {
            let help = format!("choose another name with --name, or delete it: clawrl clean {part}");
            let message = format!("run {part} is there already, of an older training of this name");
            return Err(TrainError::no_such_run(message).with_help(help));
        }
    }
    Ok(())
}

/// The plan of a training that is taken up, which goes on with the suites that it began with.
fn recorded_plan(files: &TrainingFiles, tasks: &TrainTasks) -> Result<RunPlan, TrainError> {
    let plan = RunStore::open(files.results())?.run(files.run())?.plan().clone();
    let changed = tasks.suites().iter().zip(&plan.suites).find(|(now, then)| now.sha256() != then.sha256);
    let Some((suite, _)) = changed else { return Ok(plan) };
    let (name, path) = (suite.name(), suite.path().display());
    let message = format!("suite {name} has changed since the training began: {path}");
    let help = "restore it, or train anew under another name";
    Err(TrainError::refused(message).with_help(help))
}
