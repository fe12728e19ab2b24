//! Recording of a policy's replies into a cassette, written when the run has ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_cassette::{Cassette, CassetteError, Recorder};
use clawrl_core::{PolicySpec, RunId, RunPlan};
use clawrl_record::Redactor;

use super::cassette::{origin_of, unwritable};
use super::error::RuntimeError;

/// A cassette that is being recorded.
pub struct CassetteWriter {
    path: PathBuf,
    policy: PolicySpec,
    redacted: Vec<String>,
    recorder: Arc<Recorder>,
}

impl CassetteWriter {
    /// Checks the path of the file before anything runs.
    ///
    /// # Errors
    /// The file exists, or its folder does not.
    pub fn new(path: &Path, plan: &RunPlan, redactor: Option<Arc<Redactor>>) -> Result<Self, RuntimeError> {
        if path.exists() {
            return Err(unwritable(&CassetteError::Exists { path: path.to_owned() }));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) || path.file_name().is_none() {
            let message = format!("{} is no place for a cassette", path.display());
            return Err(RuntimeError::refused(message).with_help("name a file in a folder that is there"));
        }
        if matches!(&plan.policy, PolicySpec::Agent(agent) if agent.model.is_none()) {
            let message = "the agent program has a model of its own, and nothing that it says comes by here";
            let help = "name its model in the agent file, as in `model: remote:policy.yaml`";
            return Err(RuntimeError::refused(message).with_help(help));
        }
        let names = redactor.iter().flat_map(|redactor| redactor.names().map(str::to_owned));
        let (policy, redacted) = (plan.policy.clone(), names.collect());
        let is_free = move |said: &_| redactor.as_ref().is_none_or(|redactor| !redactor.is_in_action(said));
        Ok(Self { path: path.to_owned(), policy, redacted, recorder: Arc::new(Recorder::new(is_free)) })
    }

    /// The recorder of replies.
    pub fn recorder(&self) -> Arc<Recorder> {
        Arc::clone(&self.recorder)
    }

    /// Writes the file. Returns the cassette, and the number of replies that hold secrets and were left out.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, run: RunId) -> Result<(Cassette, u64), RuntimeError> {
        let (cassette, withheld) = self.recorder.cassette(origin_of(run, &self.policy, self.redacted));
        cassette.write(&self.path, false).map_err(|error| unwritable(&error))?;
        Ok((cassette, withheld))
    }
}
