//! `--record-cassette`: what the policy of a run says goes into a file at the end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_cassette::{CassetteError, Recorder};
use clawrl_core::{PolicySpec, RunId, RunPlan};
use clawrl_record::Redactor;
use clawrl_runtime::{origin_of, unwritable};

use super::cassette::words;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;

/// A cassette that is being recorded.
pub(super) struct Tape {
    path: PathBuf,
    policy: PolicySpec,
    redacted: Vec<String>,
    recorder: Arc<Recorder>,
}

impl Tape {
    /// Looks at the place of the file before anything runs.
    ///
    /// # Errors
    /// A file that is there, or a folder that is not.
    pub(super) fn new(path: &Path, plan: &RunPlan, redactor: Option<Arc<Redactor>>) -> Result<Self, Failure> {
        if path.exists() {
            return Err(unwritable(&CassetteError::Exists { path: path.to_owned() }).into());
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) || path.file_name().is_none() {
            let message = format!("{} is no place for a cassette", path.display());
            return Err(Failure::with_help(Exit::Refused, message, "name a file in a folder that is there"));
        }
        if matches!(&plan.policy, PolicySpec::Agent(agent) if agent.model.is_none()) {
            let message = "the agent program has a model of its own, and nothing that it says comes by here";
            let help = "name its model in the agent file, as in `model: remote:policy.yaml`";
            return Err(Failure::with_help(Exit::Refused, message, help));
        }
        let names = redactor.iter().flat_map(|redactor| redactor.names().map(str::to_owned));
        let (policy, redacted) = (plan.policy.clone(), names.collect());
        let is_free = move |said: &_| redactor.as_ref().is_none_or(|redactor| !redactor.is_in_action(said));
        Ok(Self { path: path.to_owned(), policy, redacted, recorder: Arc::new(Recorder::new(is_free)) })
    }

    /// Where replies go.
    pub(super) fn recorder(&self) -> Arc<Recorder> {
        Arc::clone(&self.recorder)
    }

    /// Writes the file, and says what is in it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(self, run: RunId, quiet: bool, log: &Log) -> Result<(), Failure> {
        let (cassette, withheld) = self.recorder.cassette(origin_of(run, &self.policy, self.redacted));
        if withheld > 0 {
            log.warn(format_args!("{withheld} replies hold secrets, and are not in the cassette"));
        }
        cassette.write(&self.path, false).map_err(|error| unwritable(&error))?;
        if !quiet {
            log.note(format_args!("cassette {}", words(&self.path, &cassette)));
        }
        Ok(())
    }
}
