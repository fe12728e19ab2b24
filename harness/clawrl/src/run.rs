//! A run: a policy attempts the tasks of suites, and every attempt is recorded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_config::{PlanOptions, load_suites, resolve_plan};
use clawrl_core::{Epoch, Policy, PolicySpec};
use clawrl_record::{LockFile, RunStore, RunSummary, RunWriter};
use clawrl_report::{Options, heading, report};
use clawrl_runtime::host::{capacity, facts, open_files};
use clawrl_runtime::{
    Ended, Executor, FirstInterrupt, Machine, NoProgress, PolicyChoice, PolicyResources, Progress,
    ServerChoice, Work, create_under, parse_run_name, policy_of, recorded_end, stamp, unused_name,
};

use crate::error::{Error, Result};
use crate::suite::{Suite, provider_of};

/// Most memory that the recording of one terminal session takes, bytes.
const CAST_BYTES: usize = 256 << 10;

/// A run to be made. By default the reference solutions of the tasks act, each task is attempted once, and results are in
/// `results`.
pub struct Run {
    suites: Vec<Suite>,
    policy: Acting,
    results: PathBuf,
    name: Option<String>,
    seed: u64,
    repeats: u32,
    limit: Option<u32>,
    concurrency: Option<u32>,
    progress: Arc<dyn Progress>,
}

/// The policy of a run.
enum Acting {
    Named(PolicyChoice),
    /// A value of this process.
    Own(Arc<dyn Policy>),
}

/// A run that has ended.
pub struct Finished {
    summary: RunSummary,
    store: RunStore,
    folder: PathBuf,
}

impl Run {
    /// A run of one suite.
    #[must_use]
    pub fn new(suite: Suite) -> Self {
        Self {
            suites: vec![suite],
            policy: Acting::Named(PolicyChoice::Oracle),
            results: PathBuf::from("results"),
            name: None,
            seed: 0,
            repeats: 1,
            limit: None,
            concurrency: None,
            progress: Arc::new(NoProgress),
        }
    }

    /// Adds a suite.
    #[must_use]
    pub fn suite(mut self, suite: Suite) -> Self {
        self.suites.push(suite);
        self
    }

    /// The policy, as `clawrl run --policy` takes it: `oracle`, `noop`, `openai:MODEL`, `anthropic:MODEL`, `remote:FILE`,
    /// `agent:FILE`, ...
    ///
    /// # Errors
    /// [`Error::Policy`], if the text is not a policy.
    pub fn policy(mut self, policy: &str) -> Result<Self> {
        let choice = PolicyChoice::parse(policy)
            .map_err(|message| Error::Policy { policy: policy.to_owned(), message })?;
        self.policy = Acting::Named(choice);
        Ok(self)
    }

    /// A policy of this process. It is recorded under its name, and a resume needs this program.
    #[must_use]
    pub fn policy_value(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = Acting::Own(policy);
        self
    }

    /// Folder of the results; `results` by default.
    #[must_use]
    pub fn results(mut self, folder: impl Into<PathBuf>) -> Self {
        self.results = folder.into();
        self
    }

    /// Name of the run; date, time and suite by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Root of all seeds; 0 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Attempts at each task, with different environment seeds; 1 by default.
    #[must_use]
    pub fn repeats(mut self, repeats: u32) -> Self {
        self.repeats = repeats;
        self
    }

    /// Maximum tasks of each suite.
    #[must_use]
    pub fn limit(mut self, tasks: u32) -> Self {
        self.limit = Some(tasks);
        self
    }

    /// Maximum attempts at once; as many as fit this host by default.
    #[must_use]
    pub fn concurrency(mut self, attempts: u32) -> Self {
        self.concurrency = Some(attempts);
        self
    }

    /// Receives progress, notes and warnings; by default they are discarded.
    #[must_use]
    pub fn progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// Runs all tasks and returns when every attempt is recorded. A first Ctrl-C lets running attempts finish, a second one
    /// cancels them.
    ///
    /// # Errors
    /// Everything that [`Error`] lists. Attempts that were recorded before stay valid; `clawrl run --resume` continues.
    pub fn run(self) -> Result<Finished> {
        open_files::raise_limit();
        let environments = provider_of(&self.suites);
        let paths = self.suites.iter().map(|suite| suite.path(&self.results.join("suites")));
        let suites = load_suites(&paths.collect::<Result<Vec<_>>>()?)?;
        for warning in suites.iter().flat_map(clawrl_config::Suite::warnings) {
            self.progress.file_warning(warning);
        }
        let store = RunStore::open(&self.results)?;
        let is_named = self.name.is_some();
        let run = match &self.name {
            Some(name) => {
                parse_run_name(name).map_err(|message| Error::Setting { setting: name.clone(), message })?
            }
            None => unused_name(&store, &format!("{}-{}", stamp(), suites[0].name()))?,
        };
        let policy = match &self.policy {
            Acting::Named(choice) => choice.spec(&ServerChoice::default())?,
            Acting::Own(policy) => PolicySpec::InProcess { name: policy.name().to_owned() },
        };
        let options = PlanOptions {
            seed: self.seed,
            repeats: self.repeats,
            limit: self.limit,
            concurrency: self.concurrency,
            max_retries: 1,
            ..PlanOptions::new(run, policy, capacity::probe())
        };
        let mut plan = resolve_plan(&suites, &options)?;
        let resources = PolicyResources { models: models(), ..PolicyResources::default() };
        let policy = match self.policy {
            Acting::Named(_) => policy_of(&plan, &store, &resources)?,
            Acting::Own(policy) => policy,
        };
        let mut machine = Machine::prepare(&[&plan], &*self.progress)?.lending(resources.programs);
        if let Some(environments) = environments {
            machine = machine.hosting(environments);
        }
        let lock = LockFile::new(&plan, facts::PROGRAM, machine.facts(), machine.limits_not_set());
        let results = self.results.clone();
        let writer = create_under(&plan.run.clone(), is_named, &store, |name| {
            plan.run.clone_from(name);
            Ok::<_, Error>(RunWriter::create(&results, &plan, &lock))
        })?;
        let plan = Arc::new(plan);
        let work = Work {
            open_slots: plan.slots.iter().map(|slot| slot.id).collect(),
            plan: Arc::clone(&plan),
            first_epoch: Epoch(0),
            attempt_numbers: BTreeMap::new(),
            demand: None,
            policy,
            sink: Arc::new(writer.sink()),
            metrics: Some(writer.sink()),
            cast_bytes: CAST_BYTES,
            is_shown: true,
        };
        let executor = Executor::start(machine, FirstInterrupt::Drain, self.progress)?;
        let ended = executor.run(work);
        executor.end();
        let Ended { report, error, .. } = ended?;
        let folder = writer.dir().to_owned();
        let summary = writer.finish(recorded_end(report.end))?;
        match error {
            Some(error) => Err(Error::Run(error)),
            None => Ok(Finished { summary, store, folder }),
        }
    }
}

impl Finished {
    /// Counts, pass rates and rewards.
    #[must_use]
    pub fn summary(&self) -> &RunSummary {
        &self.summary
    }

    /// Folder of the run's record.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a page about the run, with every attempt.
    ///
    /// # Errors
    /// [`Error::Record`], [`Error::Report`], [`Error::File`].
    pub fn write_report(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let run = self.store.run(&self.summary.run)?;
        let page = report(&run, &heading(&run), &Options::default())?.page;
        std::fs::write(path, page).map_err(Error::file("write", path))
    }
}

/// Loads models that this process runs.
#[cfg(feature = "torch")]
fn models() -> Option<Arc<dyn clawrl_runtime::PolicyLoader>> {
    Some(Arc::new(clawrl_train::Libtorch))
}

/// Without libtorch, `torch:DIR` is refused.
#[cfg(not(feature = "torch"))]
fn models() -> Option<Arc<dyn clawrl_runtime::PolicyLoader>> {
    None
}
