//! Runs that the record's own writer writes, from one-line descriptions of attempts.

use std::time::Duration;

use clawrl_core::{
    AttemptId, AttemptRecord, Boundary, CheckReport, EpisodeSink, Epoch, FORMAT_VERSION, Fault, Grade,
    LeaseRecord, Outcome, PhaseTimes, RunId, RunPlan, SlotId, StopReason, TerminalSpec, Timeouts, Trajectory,
};
use clawrl_record::{LockFile, Run, RunEnd, RunStore, RunWriter};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Behaviour of one attempt.
#[derive(Clone)]
pub(crate) enum Did {
    /// Turns of action and observation, and whether it passed.
    Graded(bool, Vec<(String, String)>),
    /// The attempt faulted.
    Broke,
    /// The slot stays open.
    Nothing,
}

/// One that was graded.
pub(crate) fn graded(passed: bool, turns: &[(&str, &str)]) -> Did {
    Did::Graded(passed, turns.iter().map(|(did, saw)| ((*did).to_owned(), (*saw).to_owned())).collect())
}

/// A task of a run: suite, family, instruction, and its attempts.
pub(crate) type Task<'a> = (&'a str, &'a str, &'a str, Vec<Did>);

/// A results folder.
pub(crate) struct TestStore {
    folder: TempDir,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// Writes a run; one without an end was killed.
    pub(crate) fn record(&self, name: &str, tasks: &[Task<'_>], end: Option<RunEnd>) -> Run {
        let plan = plan(name, tasks);
        let lock = LockFile::new(&plan, "clawrl 0.1.0", Default::default(), Vec::new());
        let writer = RunWriter::create(self.folder.path(), &plan, &lock).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let sink = writer.sink();
            let attempts =
                tasks.iter().flat_map(|(_, _, asked, attempts)| attempts.iter().map(move |did| (asked, did)));
            for ((asked, did), slot) in attempts.zip(0..) {
                let Some(outcome) = outcome(did) else { continue };
                let attempt = AttemptId { slot: SlotId(slot), number: 0 };
                let lease = LeaseRecord { attempt, epoch: Epoch(u64::from(slot) + 1) };
                sink.leased(lease).await.unwrap();
                let record = AttemptRecord {
                    attempt,
                    epoch: lease.epoch,
                    closes_slot: true,
                    outcome,
                    times: PhaseTimes { policy: Duration::from_millis(1_500), ..PhaseTimes::default() },
                    trajectory: trajectory(asked, did),
                };
                sink.resolved(record).await.unwrap();
            }
        });
        match end {
            Some(end) => drop(writer.finish(end).unwrap()),
            None => drop(writer),
        }
        self.run(name)
    }

    pub(crate) fn run(&self, name: &str) -> Run {
        RunStore::open(self.folder.path()).unwrap().run(&RunId::new(name).unwrap()).unwrap()
    }
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn plan(name: &str, tasks: &[Task<'_>]) -> RunPlan {
    let mut suites: Vec<&str> = tasks.iter().map(|(suite, ..)| *suite).collect();
    suites.dedup();
    let place = |suite: &str| suites.iter().position(|other| *other == suite).unwrap();
    let task = |(suite, family, asked, _): &Task<'_>| {
        json!({
            "id": format!("{suite}/{family}"), "suite": suite, "family": family, "instruction": asked,
            "env": { "terminal": TerminalSpec::default() }, "checks": [], "reward": { "scale": 1.0, "offset": 0.0 },
            "action_format": "raw", "max_turns": 20, "timeouts": Timeouts::default(),
        })
    };
    let repeats = |(at, (suite, _, _, attempts)): (usize, &Task<'_>)| -> Vec<Value> {
        let of = |member: usize| {
            json!({
                "task": at, "suite": place(suite), "group": at, "member": member, "env_seed": at, "policy_seed": member,
            })
        };
        (0..attempts.len()).map(of).collect()
    };
    let mut slots: Vec<Value> = tasks.iter().enumerate().flat_map(repeats).collect();
    slots.iter_mut().zip(0..).for_each(|(slot, id)| slot["id"] = json!(id));
    let suite = |name: &&str| {
        let path = format!("tasks/{name}/suite.yaml");
        json!({ "name": name, "path": path, "sha256": "5e".repeat(32), "weight": 1 })
    };
    from(json!({
        "format": FORMAT_VERSION, "run": name, "seed": 7, "suites": suites.iter().map(suite).collect::<Vec<_>>(),
        "policy": "noop", "tasks": tasks.iter().map(task).collect::<Vec<_>>(), "slots": slots,
        "limits": { "concurrency": 4, "prewarm": 0, "max_retries": 0, "max_faults": null },
        "determinism": clawrl_core::Determinism::default(),
    }))
}

fn outcome(did: &Did) -> Option<Outcome> {
    match did {
        Did::Nothing => None,
        Did::Broke => {
            Some(Outcome::Faulted(Fault::transient(Boundary::Env, "shell-lost", "the shell ended")))
        }
        Did::Graded(passed, _) => {
            let check = CheckReport {
                label: "file_equals answer.txt".to_owned(),
                score: if *passed { 1.0 } else { 0.0 },
                weight: 1.0,
                message: if *passed { "it is" } else { "there is no such file" }.to_owned(),
            };
            let grade = Grade::from_checks(vec![check], Vec::new());
            Some(Outcome::Finished { stop: StopReason::Submitted, reward: grade.score, grade })
        }
    }
}

fn trajectory(asked: &str, did: &Did) -> Trajectory {
    let Did::Graded(_, turns) = did else { return Trajectory::default() };
    let text = |text: &str| json!([{ "type": "text", "text": text }]);
    let turn = |(did, saw): &(String, String)| {
        json!({
            "reply": { "role": "assistant", "parts": text(did) },
            "calls": [{ "name": "run", "arguments": { "command": did } }],
            "observation": { "parts": text(saw) },
            "policy_time": { "secs": 1, "nanos": 0 }, "step_time": { "secs": 0, "nanos": 5_000_000 },
        })
    };
    from(json!({
        "prompt": [{ "role": "user", "parts": text(asked) }], "reset": { "parts": text("$ ") },
        "turns": turns.iter().map(turn).collect::<Vec<_>>(),
    }))
}
