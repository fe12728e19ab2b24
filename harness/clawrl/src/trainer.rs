//! Training of a policy on suites.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_config::{TrainSetting, load_train_with, new_train};
use clawrl_record::RunStore;
use clawrl_runtime::training::{TrainOutcome, TrainRequest, TrainStart, default_training_name};
use clawrl_runtime::{NoProgress, Progress, parse_run_name, unused_name};

use crate::error::{Error, Result};
use crate::suite::{Suite, provider_of};

/// What is trained and how: a train file, or a preset that takes suites.
#[derive(Debug, Clone)]
pub struct TrainPlan {
    source: Source,
    settings: Vec<TrainSetting>,
}

#[derive(Debug, Clone)]
enum Source {
    File(PathBuf),
    Tiny,
}

/// A training to be made.
pub struct Trainer {
    plan: TrainPlan,
    suites: Vec<Suite>,
    results: PathBuf,
    name: Option<String>,
    progress: Arc<dyn Progress>,
}

/// A training that has ended.
#[derive(Debug)]
pub struct Trained(TrainOutcome);

impl TrainPlan {
    /// The plan of a train file, which names its suites.
    #[must_use]
    pub fn yaml(path: impl Into<PathBuf>) -> Self {
        Self { source: Source::File(path.into()), settings: Vec::new() }
    }

    /// A plan for the suites of the [`Trainer`]. `tiny`: a policy of half a million parameters from scratch, which imitates the
    /// tasks' solutions and then learns from its own attempts.
    ///
    /// # Errors
    /// [`Error::Setting`], if there is no such preset.
    pub fn preset(name: &str) -> Result<Self> {
        match name {
            "tiny" => Ok(Self { source: Source::Tiny, settings: Vec::new() }),
            _ => Err(Error::Setting {
                setting: name.to_owned(),
                message: "the only preset is `tiny`".to_owned(),
            }),
        }
    }

    /// Changes a key of the train file, as `clawrl train --set` does: `set("rl.updates=10")`.
    ///
    /// # Errors
    /// [`Error::Setting`], if the text is not a key with a value. An unknown key is an error of [`Trainer::run`].
    pub fn set(mut self, setting: &str) -> Result<Self> {
        let parsed =
            setting.parse().map_err(|message| Error::Setting { setting: setting.to_owned(), message })?;
        self.settings.push(parsed);
        Ok(self)
    }
}

impl Trainer {
    /// A training by this plan. Results are in `results` by default.
    #[must_use]
    pub fn new(plan: TrainPlan) -> Self {
        Self {
            plan,
            suites: Vec::new(),
            results: PathBuf::from("results"),
            name: None,
            progress: Arc::new(NoProgress),
        }
    }

    /// Adds a suite. A plan of a file has its own.
    #[must_use]
    pub fn suite(mut self, suite: Suite) -> Self {
        self.suites.push(suite);
        self
    }

    /// Folder of the results; `results` by default.
    #[must_use]
    pub fn results(mut self, folder: impl Into<PathBuf>) -> Self {
        self.results = folder.into();
        self
    }

    /// Name of the training; date, time and plan by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Receives progress, notes and warnings; by default they are discarded.
    #[must_use]
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Trains, and returns after the last evaluation. Ctrl-C ends it after the current attempts.
    ///
    /// # Errors
    /// Everything that [`Error`] lists. A training that ended early keeps its checkpoints.
    pub fn run(self) -> Result<Trained> {
        let environments = provider_of(&self.suites);
        let folder = self.results.join("suites");
        let file = match &self.plan.source {
            Source::File(path) => path.clone(),
            Source::Tiny => {
                let suites =
                    self.suites.iter().map(|suite| suite.path(&folder)).collect::<Result<Vec<_>>>()?;
                let name = "tiny";
                let file = folder.join(format!("{name}.yaml"));
                // Of an earlier training.
                if file.exists() {
                    fs::remove_file(&file).map_err(Error::file("write", &file))?;
                }
                new_train(&folder, name, &suites)?
            }
        };
        let plan = load_train_with(&file, &self.plan.settings)?;
        let run = match &self.name {
            Some(name) => {
                parse_run_name(name).map_err(|message| Error::Setting { setting: name.clone(), message })?
            }
            None => unused_name(&RunStore::open(&self.results)?, &default_training_name(&plan.name))?,
        };
        let request = TrainRequest {
            plan,
            run,
            is_named: self.name.is_some(),
            results: self.results,
            start: TrainStart::New,
        };
        let mut trainer = clawrl_train::Trainer::plan(request, self.progress)?;
        if let Some(environments) = environments {
            trainer = trainer.hosting(environments);
        }
        Ok(Trained(trainer.run()?))
    }
}

impl Trained {
    /// Updates, evaluations on held-out tasks, and the folder of the trained model.
    #[must_use]
    pub fn outcome(&self) -> &TrainOutcome {
        &self.0
    }

    /// Copies the page about the training, with its learning curve.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write_report(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        fs::copy(&self.0.page, path).map(drop).map_err(Error::file("write", path))
    }
}
