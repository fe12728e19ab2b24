//! Small plans and tasks.

use std::path::PathBuf;
use std::sync::Arc;

use clawrl_core::{
    ActionFormat, Determinism, EnvSpec, FORMAT_VERSION, GroupId, PolicySpec, ResolvedLimits, RewardMap,
    RunId, RunPlan, SlotId, SlotSpec, SuiteRef, TaskId, TaskIndex, TaskSpec, TerminalSpec, Timeouts,
    ToolCall, ToolSpec, derive_seed,
};

/// The size of a plan. Slots are in plan order: suite by suite, task by task, members adjacent.
#[derive(Debug, Clone)]
pub struct PlanShape {
    /// Suites.
    pub suites: Vec<SuiteShape>,
    /// Members of each group.
    pub group_size: u32,
    /// Root of the seeds.
    pub seed: u64,
    /// Limits of the run.
    pub limits: ResolvedLimits,
    /// Limits of every task.
    pub timeouts: Timeouts,
    /// Turns of every task.
    pub max_turns: u32,
    /// Format in which replies are parsed.
    pub action_format: ActionFormat,
}

/// One suite of a plan.
#[derive(Debug, Clone, Copy)]
pub struct SuiteShape {
    /// Weight in fair sharing.
    pub weight: u32,
    /// Tasks in it.
    pub tasks: u32,
}

impl PlanShape {
    /// A plan of one suite with `tasks` tasks, groups of one, `concurrency` permits and no retries.
    #[must_use]
    pub fn flat(tasks: u32, concurrency: u32) -> Self {
        Self {
            suites: vec![SuiteShape { weight: 1, tasks }],
            group_size: 1,
            seed: 1,
            limits: ResolvedLimits { concurrency, prewarm: 0, max_retries: 0, max_faults: None },
            timeouts: Timeouts::default(),
            max_turns: 50,
            action_format: ActionFormat::Raw,
        }
    }

    /// The plan.
    ///
    /// # Panics
    /// Never: the run's name is valid.
    #[must_use]
    pub fn build(&self) -> RunPlan {
        let mut tasks = Vec::new();
        let mut slots = Vec::new();
        for (suite, shape) in self.suites.iter().enumerate() {
            for number in 0..shape.tasks {
                let mut row = task(&format!("suite-{suite}/task-{number}"));
                row.suite = format!("suite-{suite}");
                row.timeouts = self.timeouts;
                row.max_turns = self.max_turns;
                row.action_format = self.action_format;
                let index = tasks.len() as u32;
                tasks.push(Arc::new(row));
                for member in 0..self.group_size {
                    slots.push(SlotSpec {
                        id: SlotId(slots.len() as u32),
                        task: TaskIndex(index),
                        suite: suite as u32,
                        group: GroupId(index),
                        member,
                        env_seed: derive_seed(self.seed, "env", &[u64::from(index)]),
                        policy_seed: derive_seed(self.seed, "policy", &[u64::from(index), u64::from(member)]),
                    });
                }
            }
        }
        let suite_ref = |(number, shape): (usize, &SuiteShape)| SuiteRef {
            name: format!("suite-{number}"),
            path: PathBuf::from(format!("suite-{number}/suite.yaml")),
            sha256: "0".repeat(64),
            weight: shape.weight,
        };
        RunPlan {
            format: FORMAT_VERSION,
            run: RunId::new("testkit").expect("letters only"),
            seed: self.seed,
            suites: self.suites.iter().enumerate().map(suite_ref).collect(),
            judge: None,
            policy: PolicySpec::Noop,
            tasks,
            slots,
            limits: self.limits,
            determinism: Determinism::default(),
        }
    }
}

/// A terminal task without files, checks or limits of its own.
#[must_use]
pub fn task(id: &str) -> TaskSpec {
    let terminal = TerminalSpec::default();
    TaskSpec {
        id: TaskId(id.to_owned()),
        suite: "testkit".to_owned(),
        family: id.to_owned(),
        instruction: format!("Do {id}."),
        env: EnvSpec::Terminal(terminal),
        checks: Vec::new(),
        verifier: None,
        reward: RewardMap::default(),
        oracle: None,
        mistakes: Vec::new(),
        action_format: ActionFormat::Raw,
        max_turns: 50,
        timeouts: Timeouts::default(),
    }
}

/// A call of `run`, the primary tool of the fakes and of terminals.
#[must_use]
pub fn call(command: &str) -> ToolCall {
    ToolCall::new("run", serde_json::json!({ "command": command }))
}

/// The `run` tool.
#[must_use]
pub fn run_tool() -> ToolSpec {
    ToolSpec {
        name: "run".to_owned(),
        description: "Runs a command.".to_owned(),
        parameters: serde_json::json!({ "type": "object" }),
        text_argument: Some("command".to_owned()),
    }
}

/// The `submit` tool.
#[must_use]
pub fn submit_tool() -> ToolSpec {
    ToolSpec {
        name: "submit".to_owned(),
        description: "Ends the episode.".to_owned(),
        parameters: serde_json::json!({ "type": "object" }),
        text_argument: None,
    }
}
