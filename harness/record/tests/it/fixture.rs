//! Plans and records to write, and how they are written.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    ActionFormat, AttemptId, AttemptRecord, Boundary, CheckReport, Determinism, EnvSpec, EpisodeSink, Epoch,
    FORMAT_VERSION, Fault, Grade, GroupId, LeaseRecord, Message, NetworkPolicy, Observation, Outcome,
    PhaseTimes, PolicySpec, ResolvedLimits, RewardMap, Role, RunId, RunPlan, SandboxKind, SandboxLimits,
    SinkError, SlotId, SlotSpec, StopReason, SuiteRef, TaskId, TaskIndex, TaskSpec, TerminalSpec, Timeouts,
    ToolCall, Trajectory, Turn, TurnFlags,
};
use clawrl_record::{LimitNotSet, LockFile};

fn task(suite: &str, family: &str) -> Arc<TaskSpec> {
    Arc::new(TaskSpec {
        id: TaskId(format!("{suite}/{family}")),
        suite: suite.to_owned(),
        family: family.to_owned(),
        instruction: "Write the word apple into out.txt.".to_owned(),
        env: EnvSpec::Terminal(TerminalSpec {
            shell: "bash".to_owned(),
            files: Vec::new(),
            setup: Vec::new(),
            env: Default::default(),
            size: (80, 24),
            idle: Duration::from_millis(500),
            observation_chars: 4000,
            sandbox: SandboxKind::Bubblewrap,
            limits: SandboxLimits::default(),
            network: NetworkPolicy::None,
            image: None,
            read_only: Vec::new(),
        }),
        checks: Vec::new(),
        verifier: None,
        reward: RewardMap::default(),
        oracle: None,
        mistakes: Vec::new(),
        action_format: ActionFormat::Raw,
        max_turns: 20,
        timeouts: Timeouts::default(),
    })
}

/// Two suites, three families; slots go round over the families.
pub(crate) fn plan(run: &str, slots: u32) -> RunPlan {
    let suite = |name: &str| SuiteRef {
        name: name.to_owned(),
        path: PathBuf::from(format!("tasks/{name}/suite.yaml")),
        sha256: "5e".repeat(32),
        weight: 1,
    };
    let slot = |id: u32| SlotSpec {
        id: SlotId(id),
        task: TaskIndex(id % 3),
        suite: u32::from(id % 3 == 2),
        group: GroupId(id),
        member: 0,
        env_seed: u64::from(id),
        policy_seed: u64::from(id),
    };
    RunPlan {
        format: FORMAT_VERSION,
        run: RunId::new(run).unwrap(),
        seed: 7,
        suites: vec![suite("terminal-basics"), suite("more")],
        judge: None,
        policy: PolicySpec::Demonstrator { oracle_percent: 70 },
        tasks: vec![
            task("terminal-basics", "copy-line"),
            task("terminal-basics", "sort"),
            task("more", "find"),
        ],
        slots: (0..slots).map(slot).collect(),
        limits: ResolvedLimits { concurrency: 16, prewarm: 0, max_retries: 1, max_faults: None },
        determinism: Determinism::default(),
    }
}

pub(crate) fn lock(plan: &RunPlan) -> LockFile {
    let host = [("cpus".to_owned(), "2".to_owned())].into_iter().collect();
    let limit = LimitNotSet { limit: "memory_mib".into(), reason: "no memory cgroup is delegated".into() };
    LockFile::new(plan, "clawrl 0.1.0", host, vec![limit])
}

pub(crate) fn attempt(slot: u32, number: u32) -> AttemptId {
    AttemptId { slot: SlotId(slot), number }
}

pub(crate) fn lease(slot: u32, number: u32, epoch: u64) -> LeaseRecord {
    LeaseRecord { attempt: attempt(slot, number), epoch: Epoch(epoch) }
}

pub(crate) fn finished(score: f64) -> Outcome {
    let message = "out.txt is `apple`".to_owned();
    let check = CheckReport { label: "file_equals out.txt".to_owned(), score, weight: 1.0, message };
    let grade = Grade::from_checks(vec![check], Vec::new());
    Outcome::Finished { stop: StopReason::Submitted, reward: 2.0 * score - 1.0, grade }
}

pub(crate) fn fault() -> Outcome {
    Outcome::Faulted(Fault::transient(Boundary::Env, "shell-lost", "the shell ended"))
}

fn turn(index: u32) -> Turn {
    let command = format!("echo apple {index} >> out.txt");
    let mut observation = Observation::from_text(format!("$ {command}\n$ "));
    observation.facts.insert("exit_code".to_owned(), 0.into());
    Turn {
        reply: Message::text(Role::Assistant, command.clone()),
        calls: vec![ToolCall::new("run", serde_json::json!({ "command": command }))],
        tokens: None,
        usage: None,
        observation,
        process_reward: None,
        flags: TurnFlags::default(),
        policy_time: Duration::from_micros(15),
        step_time: Duration::from_micros(1500),
    }
}

/// A record with this many tiny turns.
pub(crate) fn record(lease: LeaseRecord, outcome: Outcome, closes_slot: bool, turns: u32) -> AttemptRecord {
    let seed = u64::from(lease.attempt.slot.0);
    AttemptRecord {
        attempt: lease.attempt,
        epoch: lease.epoch,
        closes_slot,
        outcome,
        times: PhaseTimes { setup: Duration::from_micros(2000 + seed), ..PhaseTimes::default() },
        trajectory: Trajectory {
            prompt: vec![Message::text(Role::User, "Write the word apple into out.txt.")],
            reset: Observation::from_text("$ "),
            turns: (0..turns).map(turn).collect(),
            cast: Some("{\"version\":2,\"width\":80,\"height\":24}\n[0.1,\"o\",\"$ \"]\n".to_owned()),
        },
    }
}

/// Outcome of attempt `number` of a slot, a fixed function: every fifth slot faults once and is
/// retried, every seventh is closed by a fault.
pub(crate) fn scripted_outcome(slot: u32, number: u32) -> (Outcome, bool) {
    match (slot % 5, slot % 7, number) {
        (_, 0, _) => (fault(), true),
        (0, _, 0) => (fault(), false),
        _ => (finished(f64::from(slot % 2)), true),
    }
}

/// Bytes of a picture: several blocks, so that a partial write is shorter.
pub(crate) fn picture(slot: u32, number: u32) -> Vec<u8> {
    format!("{slot}.{number} ").repeat(4_000).into_bytes()
}

/// Fills one slot from attempt `number` on; calls `acknowledged` for every accepted record.
pub(crate) async fn fill(
    sink: &dyn EpisodeSink,
    slot: u32,
    mut number: u32,
    mut epoch: impl FnMut() -> u64,
    mut acknowledged: impl FnMut(&str, LeaseRecord),
) -> Result<(), SinkError> {
    loop {
        let lease = lease(slot, number, epoch());
        sink.leased(lease).await?;
        acknowledged("leased", lease);
        let (outcome, closes_slot) = scripted_outcome(slot, number);
        let mut record = record(lease, outcome, closes_slot, 3);
        if slot.is_multiple_of(4) {
            let blob = sink.blobs().keep("image/png", picture(slot, number)).await;
            let blob = blob.map_err(|error| SinkError { message: error.to_string() })?;
            record.trajectory.turns[0].observation.pictures.push(blob);
        }
        sink.resolved(record).await?;
        acknowledged("resolved", lease);
        if closes_slot {
            return Ok(());
        }
        number += 1;
    }
}

/// Runs asynchronous code to its end on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}
