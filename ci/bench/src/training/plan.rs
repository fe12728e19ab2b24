//! The plan of a training: more groups than its updates can use up.

use std::path::PathBuf;
use std::sync::Arc;

use clawrl_core::{
    ActionFormat, Determinism, EnvSpec, FORMAT_VERSION, GroupId, PolicySpec, ResolvedLimits, RewardMap,
    RunId, RunPlan, SlotId, SlotSpec, SuiteRef, TaskId, TaskIndex, TaskSpec, TerminalSpec, Timeouts,
    derive_seed,
};

use super::TrainingConfig;

pub(super) fn plan(config: &TrainingConfig) -> RunPlan {
    // A batch uses up a batch of groups; at most `max_staleness` and one more batches are under way beside it.
    let batches = u64::from(config.updates) + config.schedule.max_staleness() + 2;
    let groups = config.groups.get() * u32::try_from(batches).unwrap_or(u32::MAX);
    let tasks = config.instructions.iter().enumerate();
    let tasks: Vec<Arc<TaskSpec>> =
        tasks.map(|(number, instruction)| Arc::new(task(number, instruction, config.turns))).collect();
    let kinds = tasks.len().max(1) as u32;
    let slot = |number: u32| {
        let group = number / config.members;
        SlotSpec {
            id: SlotId(number),
            task: TaskIndex(group % kinds),
            suite: 0,
            group: GroupId(group),
            member: number % config.members,
            // Unlike in a suite, each member's own: its latency is.
            env_seed: derive_seed(config.seed, "env", &[u64::from(number)]),
            policy_seed: derive_seed(config.seed, "policy", &[u64::from(number)]),
        }
    };
    let suite = SuiteRef {
        name: "bench".to_owned(),
        path: PathBuf::from("bench/suite.yaml"),
        sha256: "0".repeat(64),
        weight: 1,
    };
    RunPlan {
        format: FORMAT_VERSION,
        run: RunId::new("bench-training").expect("letters and a dash"),
        seed: config.seed,
        suites: vec![suite],
        judge: None,
        policy: PolicySpec::Noop,
        tasks,
        slots: (0..groups * config.members).map(slot).collect(),
        limits: ResolvedLimits {
            concurrency: config.concurrency,
            prewarm: 0,
            max_retries: 0,
            max_faults: None,
        },
        determinism: Determinism::default(),
    }
}

fn task(number: usize, instruction: &str, turns: u32) -> TaskSpec {
    // The kind of environment that a plan can name; what is leased is in this process.
    let terminal = TerminalSpec::default();
    TaskSpec {
        id: TaskId(format!("bench/words#{number}")),
        suite: "bench".to_owned(),
        family: "words".to_owned(),
        instruction: instruction.to_owned(),
        env: EnvSpec::Terminal(terminal),
        checks: Vec::new(),
        verifier: None,
        reward: RewardMap { scale: 1.0, offset: 0.0 },
        oracle: None,
        mistakes: Vec::new(),
        action_format: ActionFormat::Raw,
        max_turns: turns,
        timeouts: Timeouts::default(),
    }
}
