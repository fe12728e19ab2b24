//! The run plan: arguments, files, environment and probes resolved. The only thing that runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{AgentSpec, GroupId, RemoteSpec, RunId, SlotId, TaskIndex, TaskSpec};

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
    /// Who acts.
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
    /// What is held fixed in every environment.
    pub determinism: Determinism,
}

/// A suite as it was read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteRef {
    /// Its name.
    pub name: String,
    /// The file it was read from.
    pub path: PathBuf,
    /// Hex SHA-256 over the file and all fixtures, in order of path.
    pub sha256: String,
    /// Share in weighted fair sharing; suites of weight 2 and 1 get permits 2 to 1 while both have open slots.
    pub weight: u32,
}

/// One thing to be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotSpec {
    /// Its position.
    pub id: SlotId,
    /// The task.
    pub task: TaskIndex,
    /// Position of its suite in [`RunPlan::suites`].
    pub suite: u32,
    /// The group it belongs to.
    pub group: GroupId,
    /// Its place in the group, axis G.
    pub member: u32,
    /// Seed of the environment side, equal for all members of the group.
    pub env_seed: u64,
    /// Seed of the policy side, different for each member.
    pub policy_seed: u64,
}

/// Who acts in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PolicySpec {
    /// Submits at once. Must pass no task.
    Noop,
    /// Plays each task's oracle, then submits. Must pass every task.
    Oracle,
    /// Plays the oracle with this probability, in percent, else one of the task's mistakes.
    Demonstrator {
        /// 0 to 100.
        oracle_percent: u8,
    },
    /// Plays the calls of the same slots of a recorded run.
    Replay {
        /// The recorded run.
        run: RunId,
    },
    /// Draws each action from a list of texts, one a line of a file.
    Random {
        /// The lines.
        actions: Vec<String>,
    },
    /// A model on libtorch, with the parameters that are current while it acts.
    Torch {
        /// Folder of the model in the Hugging Face layout, as it was when the run began.
        path: PathBuf,
        /// Temperature in thousandths; 0 takes the most likely token each time.
        temperature_milli: u32,
        /// Tokens of a reply before it is cut.
        max_new_tokens: u32,
    },
    /// A model behind a server.
    Remote(Box<RemoteSpec>),
    /// Plays recorded replies to the requests for which they were given, and asks nobody.
    Cassette {
        /// The file, absolute.
        path: PathBuf,
        /// Hex SHA-256 of its bytes.
        sha256: String,
        /// Whose replies it holds.
        recorded: Box<PolicySpec>,
    },
    /// A program of the user's own, started for each attempt.
    Agent(Box<AgentSpec>),
}

impl PolicySpec {
    /// Whose replies are given: of a cassette, the policy that was recorded; of an agent program, its model, if that is
    /// ours.
    #[must_use]
    pub fn speaker(&self) -> &Self {
        match self {
            Self::Cassette { recorded, .. } => recorded.speaker(),
            Self::Agent(agent) => agent.model.as_deref().map_or(self, Self::speaker),
            other => other,
        }
    }
}

/// Which part of a suite's tasks takes part, by a stable hash of family and of what is asked.
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
    /// Whether a task belongs to this split, by what it asks: see [`TaskSpec::asked`].
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

/// Time limits of a task's attempts. Every one has its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// Waiting for an environment.
    pub lease: Duration,
    /// Reset.
    pub setup: Duration,
    /// One action in the environment.
    pub step: Duration,
    /// One reply of the policy.
    pub policy: Duration,
    /// Grading.
    pub grade: Duration,
    /// Closing.
    pub close: Duration,
    /// From the grant of the lease to the end of the last step.
    pub attempt: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(120),
            setup: Duration::from_secs(60),
            step: Duration::from_secs(30),
            policy: Duration::from_secs(120),
            grade: Duration::from_secs(60),
            close: Duration::from_secs(30),
            attempt: Duration::from_secs(300),
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
    /// Further attempts after a fault whose retry is sound.
    pub max_retries: u32,
    /// Faulted slots after which the run is given up; `None` for never.
    pub max_faults: Option<u32>,
}

/// What every environment of the run sees, whatever the host has.
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
