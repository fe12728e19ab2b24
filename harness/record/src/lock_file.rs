//! `lock.json`: under which circumstances a run was made.

use std::collections::BTreeMap;
use std::path::Path;

use clawrl_core::{Determinism, FORMAT_VERSION, RunPlan};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{RecordError, Redactor, files, migrate, resume};

/// The circumstances of a run, for comparisons with other runs. Written when the run is opened; a
/// resume that redacts more variables adds them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockFile {
    /// Version of the record's schema.
    pub format: u32,
    /// Name and version of the program.
    pub program: String,
    /// Facts about the host, as the caller found them: `kernel`, `cpus`, `memory_mib`, `bubblewrap`, ...
    pub host: BTreeMap<String, String>,
    /// Fixed settings of every environment.
    pub determinism: Determinism,
    /// SHA-256 (hex) of each suite with its fixtures, by name.
    pub suites: BTreeMap<String, String>,
    /// Limits that the plan asks for and this host cannot set.
    pub limits_not_set: Vec<LimitNotSet>,
    /// Environment variables whose values are redacted in the run's records. Names only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redacted: Vec<String>,
}

/// A limit that could not be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitNotSet {
    /// `memory_mib`, `pids`, ...
    pub limit: String,
    /// Why, for a person.
    pub reason: String,
}

impl LockFile {
    /// The lock file of a plan, with findings of the caller. `program` is name and version.
    #[must_use]
    pub fn new(
        plan: &RunPlan,
        program: &str,
        host: BTreeMap<String, String>,
        limits_not_set: Vec<LimitNotSet>,
    ) -> Self {
        Self {
            format: FORMAT_VERSION,
            program: program.to_owned(),
            host,
            determinism: plan.determinism.clone(),
            suites: plan.suites.iter().map(|suite| (suite.name.clone(), suite.sha256.clone())).collect(),
            limits_not_set,
            redacted: Vec::new(),
        }
    }
}

/// Adds variables to redact to the lock file of this folder. Everything else in the file stays, including keys that this
/// program does not know. The caller must own the run.
pub(crate) fn add_redacted(dir: &Path, redactor: &Redactor) -> Result<(), RecordError> {
    let path = dir.join(files::LOCK);
    let bytes = files::read(path.clone())?;
    let damaged =
        |error: serde_json::Error| RecordError::Unreadable { path: path.clone(), reason: error.to_string() };
    let known = migrate::lock(&bytes).map_err(|error| resume::understood(path.clone(), error))?.redacted;
    let mut names = known.clone();
    names.extend(redactor.names().filter(|name| !known.iter().any(|known| known == name)).map(str::to_owned));
    if names.len() == known.len() {
        return Ok(());
    }
    let mut lock: Value = serde_json::from_slice(&bytes).map_err(damaged)?;
    lock["redacted"] = names.into();
    let mut bytes = serde_json::to_vec_pretty(&lock).map_err(damaged)?;
    bytes.push(b'\n');
    files::write_atomic(&path, &bytes)
}
