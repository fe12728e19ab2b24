//! The run plan: arguments, files, environment and probes resolved. The only thing that runs.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{GroupId, PolicySpec, RemoteSpec, RunId, SlotId, TaskIndex, TaskSpec};

/// Version of the plan's and the record's schema. Readers migrate older ones, and refuse newer ones.
pub const FORMAT_VERSION: u32 = 1;

/// Everything a run is a function of, but the policy's outputs and the outside world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// [`FORMAT_VERSION`] of the program that made it.
    pub format: u32,
    /// Name and label of the run.
    pub run: RunId,
    /// Root of all seeds.
    pub seed: u64,
    /// The suites it came from, with their content hash.
    pub suites: Vec<SuiteRef>,
    /// The acting policy.
    pub policy: PolicySpec,
    /// The model that says whether answers meet rubrics, where a task asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<Box<RemoteSpec>>,
    /// Tasks, axis P.
    pub tasks: Vec<Arc<TaskSpec>>,
    /// Slots in order of dispatch within a suite. Members of a group are adjacent.
    pub slots: Vec<SlotSpec>,
    /// Concurrency and retries.
    pub limits: ResolvedLimits,
    /// Fixed settings of every environment.
    pub determinism: Determinism,
}

/// A suite as it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteRef {
    /// Name of the suite.
    pub name: String,
    /// The file it was read from.
    pub path: PathBuf,
    /// Hex SHA-256 over the file and all fixtures, in order of path.
    pub sha256: String,
    /// Share in weighted fair sharing; suites of weight 2 and 1 get permits 2 to 1 while both have open slots.
    pub weight: u32,
}

/// One slot of the plan, to be filled by one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotSpec {
    /// Position of the slot.
    pub id: SlotId,
    /// The task.
    pub task: TaskIndex,
    /// Position of its suite in [`RunPlan::suites`].
    pub suite: u32,
    /// The group it belongs to.
    pub group: GroupId,
    /// Position in the group, axis G.
    pub member: u32,
    /// Seed of the environment side, equal for all members of the group.
    pub env_seed: u64,
    /// Seed of the policy side, different for each member.
    pub policy_seed: u64,
}

/// Part of a suite's tasks, by a stable hash of template and instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Every task.
    #[default]
    All,
    /// The four fifths to train on.
    Train,
    /// The fifth held out.
    HeldOut,
}

impl Split {
    /// Whether a task belongs to this split; `asked` is [`TaskSpec::asked`].
    #[must_use]
    pub fn contains(self, family: &str, asked: &str) -> bool {
        let hash = crate::stable_hash(format!("{family}\0{asked}").as_bytes());
        let held_out = hash.is_multiple_of(5);
        match self {
            Self::All => true,
            Self::Train => !held_out,
            Self::HeldOut => held_out,
        }
    }
}

/// Concurrency, retries and endings of a run, with nothing left to probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedLimits {
    /// Attempts under way at once.
    pub concurrency: u32,
    /// Environments made ready before the first dispatch.
    pub prewarm: u32,
    /// Maximum retries after a retryable fault.
    pub max_retries: u32,
    /// Faulted slots after which the run is given up; `None` for never.
    pub max_faults: Option<u32>,
}

/// Settings that are equal in every environment, whatever the host has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Determinism {
    /// `TZ`.
    pub time_zone: String,
    /// `LANG` and `LC_ALL`.
    pub locale: String,
    /// `PYTHONHASHSEED`, from the slot's seed when `None`.
    pub python_hash_seed: Option<u32>,
    /// `SOURCE_DATE_EPOCH` and the date of git's commits, seconds since 1970.
    pub source_date_epoch: u64,
}

impl Determinism {
    /// The environment variables by which programs learn of it.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        let date = self.source_date_epoch;
        let mut variables = vec![
            ("TZ", self.time_zone.clone()),
            ("LANG", self.locale.clone()),
            ("LC_ALL", self.locale.clone()),
            ("SOURCE_DATE_EPOCH", date.to_string()),
            // git knows nothing of the variable above, and a commit's hash depends on its dates.
            ("GIT_AUTHOR_DATE", format!("@{date} +0000")),
            ("GIT_COMMITTER_DATE", format!("@{date} +0000")),
        ];
        variables.extend(self.python_hash_seed.map(|seed| ("PYTHONHASHSEED", seed.to_string())));
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl Default for Determinism {
    fn default() -> Self {
        Self {
            time_zone: "UTC".to_owned(),
            locale: "C.UTF-8".to_owned(),
            python_hash_seed: None,
            source_date_epoch: 1_767_225_600,
        }
    }
}

impl RunPlan {
    /// The task of a slot.
    #[must_use]
    pub fn task_of(&self, slot: &SlotSpec) -> &Arc<TaskSpec> {
        &self.tasks[slot.task.0 as usize]
    }
}
