//! Baselines: the accepted results of an agent, one file per gate, stored in the repository.
//!
//! I1. Only [`Baseline::write`] writes a baseline, and it replaces the file atomically: the old content or the new, also after a
//! loss of power. I2. A baseline is only compared under its own conditions; differences are reported. I3. An edited or truncated file
//! is refused: it contains the hashes of its outcomes and conditions. I4. It has one line per task, so that changes
//! can be reviewed. I5. Only complete runs become baselines: no attempt missing, and at least one graded attempt.
//!
//! Errors: [`BaselineError`], [`AcceptError`]. Blocking file access; nothing to cancel.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clawrl_core::{PolicySpec, RunId, sha256_hex};
use clawrl_record::{JournalState, Run, RunEnd};
use serde::{Deserialize, Serialize};

use crate::assessment::BaselineNote;
use crate::conditions::Conditions;
use crate::outcomes::{Outcomes, outcomes};

/// Newest version of baseline files that this program reads, and the one that it writes.
pub const BASELINE_FORMAT: u32 = 1;

/// Folder of all baselines, inside the results folder.
const FOLDER: &str = "baselines";

/// An accepted run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// [`BASELINE_FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Name of the gate.
    pub gate: String,
    /// The run that was accepted.
    pub run: RunId,
    /// When, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// Name and version of the program that ran it.
    pub program: String,
    /// Name of the acting policy, for people. It may differ from the policy that is judged.
    pub policy: String,
    /// Hex SHA-256 of the conditions.
    pub plan_sha256: String,
    /// Conditions that must be equal on both sides.
    pub conditions: Conditions,
    /// Hex SHA-256 of the outcomes.
    pub outcomes_sha256: String,
    /// Results of its attempts.
    pub outcomes: Outcomes,
}

/// Reason for which there is no baseline to compare with.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// No baseline was accepted yet.
    #[error("there is no baseline at {path}", path = path.display())]
    Missing {
        /// Expected path.
        path: PathBuf,
    },
    /// No file that can be read or written.
    #[error("failed to {what} {path}: {source}", path = path.display())]
    Io {
        /// `read` or `write`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The content does not match its hashes.
    #[error("the baseline {path} is damaged: {reason}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// Written by a newer program.
    #[error("the baseline {path} has format {format}, newer than {BASELINE_FORMAT}, which this program reads", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Format of the file.
        format: u64,
    },
    /// Belongs to another gate.
    #[error("the baseline {path} belongs to the gate `{found}`, not to `{wanted}`", path = path.display())]
    OtherGate {
        /// The file.
        path: PathBuf,
        /// Gate of the file.
        found: String,
        /// Expected gate.
        wanted: String,
    },
    /// Recorded with other tasks or under other conditions.
    #[error("the baseline of `{gate}` was recorded under other conditions: {}", differences.join("; "))]
    OtherPlan {
        /// Name of the gate.
        gate: String,
        /// In which way, one sentence each.
        differences: Vec<String>,
    },
}

/// Why a run cannot become a baseline.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum AcceptError {
    /// A process writes it.
    #[error("run {run} is still under way")]
    UnderWay {
        /// The run.
        run: RunId,
    },
    /// The run was cut short.
    #[error("run {run} was cut short: {missing} of its attempts are unfinished")]
    CutShort {
        /// The run.
        run: RunId,
        /// Number of unfinished attempts.
        missing: u32,
    },
    /// The run has no graded attempts.
    #[error("no attempt of run {run} was graded: {faults} ended in faults")]
    NothingGraded {
        /// The run.
        run: RunId,
        /// Number of faults.
        faults: u32,
    },
    /// A task has no graded attempt.
    #[error("all attempts of run {run} at task `{task}` ended in faults")]
    LostTask {
        /// The run.
        run: RunId,
        /// The task.
        task: String,
    },
    /// With it nothing would ever pass.
    #[error("{faults} of {attempts} attempts of run {run} ended in faults (limit of the gate: {:.0} %)", 100.0 * allowed)]
    ManyFaults {
        /// The run.
        run: RunId,
        /// Number of faults.
        faults: u32,
        /// Number of attempts.
        attempts: u32,
        /// The gate's `max_fault_share`.
        allowed: f64,
    },
}

impl Baseline {
    /// Path of a gate's baseline in the results folder.
    #[must_use]
    pub fn path(results: &Path, gate: &str) -> PathBuf {
        results.join(FOLDER).join(format!("{gate}.json"))
    }

    /// Makes a baseline from a run, for a gate that allows this share of faults. `program` is name and version of the program that ran it.
    ///
    /// # Errors
    /// [`AcceptError`] (I5).
    pub fn of(
        gate: &str,
        max_fault_share: f64,
        run: &Run,
        program: &str,
        accepted_ms: u64,
    ) -> Result<Self, AcceptError> {
        let name = || run.plan().run.clone();
        if run.is_running() {
            return Err(AcceptError::UnderWay { run: name() });
        }
        let outcomes = outcomes(run, u32::MAX);
        let sum = |of: fn(&crate::outcomes::TaskOutcomes) -> u32| {
            outcomes.values().map(of).fold(0, u32::saturating_add)
        };
        let (missing, faults) = (sum(|task| task.missing), sum(|task| task.faults));
        let end = run.state().and_then(JournalState::finished).map(|finished| finished.end);
        if missing > 0 || !matches!(end, Some(RunEnd::Completed | RunEnd::DemandClosed)) {
            return Err(AcceptError::CutShort { run: name(), missing });
        }
        if outcomes.values().all(|task| task.episodes.is_empty()) {
            return Err(AcceptError::NothingGraded { run: name(), faults });
        }
        let attempts = sum(|task| task.tried());
        // Computed exactly as in the assessment.
        if f64::from(faults) / f64::from(attempts) > max_fault_share {
            return Err(AcceptError::ManyFaults { run: name(), faults, attempts, allowed: max_fault_share });
        }
        if let Some((task, _)) = outcomes.iter().find(|(_, task)| task.episodes.is_empty()) {
            return Err(AcceptError::LostTask { run: name(), task: task.clone() });
        }
        let conditions = Conditions::of(run.plan());
        Ok(Self {
            format: BASELINE_FORMAT,
            gate: gate.to_owned(),
            run: name(),
            accepted_ms,
            program: program.to_owned(),
            policy: policy_word(&run.plan().policy),
            plan_sha256: conditions.sha256(),
            conditions,
            outcomes_sha256: outcomes_sha256(&outcomes),
            outcomes,
        })
    }

    /// Reads the baseline of a gate.
    ///
    /// # Errors
    /// [`BaselineError`], but for [`BaselineError::OtherPlan`].
    pub fn read(path: &Path, gate: &str) -> Result<Self, BaselineError> {
        let bytes = fs::read(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => BaselineError::Missing { path: path.to_owned() },
            _ => BaselineError::Io { what: "read", path: path.to_owned(), source },
        })?;
        let damaged = |reason: String| BaselineError::Damaged { path: path.to_owned(), reason };
        #[derive(Deserialize)]
        struct Peek {
            format: u64,
        }
        // A newer file may have another shape; then the error must name its format.
        let Peek { format } = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if format > u64::from(BASELINE_FORMAT) {
            return Err(BaselineError::Newer { path: path.to_owned(), format });
        }
        let baseline: Self = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        if baseline.plan_sha256 != baseline.conditions.sha256() {
            return Err(damaged("its hash does not match its conditions".to_owned()));
        }
        if baseline.outcomes_sha256 != outcomes_sha256(&baseline.outcomes) {
            return Err(damaged("its hash does not match its outcomes".to_owned()));
        }
        if baseline.gate != gate {
            let (found, wanted) = (baseline.gate, gate.to_owned());
            return Err(BaselineError::OtherGate { path: path.to_owned(), found, wanted });
        }
        Ok(baseline)
    }

    /// Checks that a plan has the conditions of this baseline.
    ///
    /// # Errors
    /// [`BaselineError::OtherPlan`] (I2).
    pub fn refuse_other(&self, conditions: &Conditions) -> Result<(), BaselineError> {
        let differences = self.conditions.differences(conditions);
        if differences.is_empty() {
            return Ok(());
        }
        Err(BaselineError::OtherPlan { gate: self.gate.clone(), differences })
    }

    /// Writes it, in place of the one that was there (I1).
    ///
    /// # Errors
    /// [`BaselineError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), BaselineError> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".new");
        let temporary = path.with_file_name(name);
        let folder = path.parent().unwrap_or(Path::new("."));
        let written = fs::create_dir_all(folder)
            .and_then(|()| File::create(&temporary))
            .and_then(|mut file| {
                file.write_all(self.text().as_bytes())?;
                file.sync_all()?;
                fs::rename(&temporary, path)
            })
            .and_then(|()| File::open(folder)?.sync_all());
        written.map_err(|source| {
            // The file is unused; remove it so that it does not confuse readers.
            let _ = fs::remove_file(&temporary);
            BaselineError::Io { what: "write", path: path.to_owned(), source }
        })
    }

    /// The file (I4).
    fn text(&self) -> String {
        let head = Self { outcomes: Outcomes::new(), ..self.clone() };
        let mut text = serde_json::to_string_pretty(&head).unwrap_or_default();
        let tasks: Vec<String> = self
            .outcomes
            .iter()
            .map(|(task, outcomes)| format!("\n    {}: {}", json(task), json(outcomes)))
            .collect();
        let empty = "\"outcomes\": {}\n}";
        text.truncate(text.len().saturating_sub(empty.len()));
        // Writing to a string does not fail.
        let _ = writeln!(text, "\"outcomes\": {{{}\n  }}\n}}", tasks.join(","));
        text
    }

    /// Identification for an assessment.
    #[must_use]
    pub fn note(&self) -> BaselineNote {
        BaselineNote {
            run: self.run.clone(),
            accepted_ms: self.accepted_ms,
            plan_sha256: self.plan_sha256.clone(),
        }
    }
}

/// Name of a policy without paths of one machine, because the file is stored in a repository.
pub(crate) fn policy_word(policy: &PolicySpec) -> String {
    match policy {
        PolicySpec::Noop => "noop".to_owned(),
        PolicySpec::Oracle => "oracle".to_owned(),
        PolicySpec::Demonstrator { oracle_percent } => format!("demonstrator:{oracle_percent}"),
        PolicySpec::Replay { run } => format!("replay:{run}"),
        PolicySpec::Random { .. } => "random".to_owned(),
        PolicySpec::Torch { .. } => "torch".to_owned(),
        PolicySpec::Remote(remote) => format!("{}:{}", remote.dialect.name(), remote.model),
        PolicySpec::Cassette { .. } => "cassette".to_owned(),
        PolicySpec::Agent(agent) => format!("agent:{}", agent.command.join(" ")),
        _ => "another".to_owned(),
    }
}

fn outcomes_sha256(outcomes: &Outcomes) -> String {
    sha256_hex(json(outcomes).as_bytes())
}

/// Keys are strings and recorded numbers are finite, so this never falls back to the empty default.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
