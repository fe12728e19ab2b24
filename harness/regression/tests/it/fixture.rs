//! Runs of eight tasks whose attempts end as a test wants, and a gate for them.

use std::path::{Path, PathBuf};

use clawrl_config::{CiBudget, CiCompleteness, CiMetric, CiPlan, MetricKind, Repeats};
use clawrl_core::{
    AttemptId, AttemptRecord, Boundary, EpisodeSink, Epoch, Fault, Grade, LeaseRecord, Outcome, PhaseTimes,
    RunId, RunPlan, SlotId, StopReason, Trajectory,
};
use clawrl_record::{LockFile, Run, RunEnd, RunStore, RunWriter};
use clawrl_regression::{Baseline, Comparison};
use clawrl_testkit::PlanShape;
use tempfile::TempDir;

pub(crate) const TASKS: u32 = 8;

/// How an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Passes,
    Fails,
    Faults,
    /// The attempt is missing.
    Missing,
}

/// A results folder.
pub(crate) struct TestStore {
    folder: TempDir,
}

/// Which repeats a run has, and how it ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) repeats: u32,
    /// End of the run; `None` if its process died.
    pub(crate) end: Option<RunEnd>,
    pub(crate) seed: u64,
    pub(crate) tasks: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { repeats: 4, end: Some(RunEnd::Completed), seed: 1, tasks: TASKS }
    }
}

pub(crate) fn task(number: u32) -> String {
    format!("suite-0/task-{number}")
}

fn plan(name: &str, shape: Shape) -> RunPlan {
    let shape = PlanShape { group_size: shape.repeats, seed: shape.seed, ..PlanShape::flat(shape.tasks, 4) };
    RunPlan { run: RunId::new(name).unwrap(), ..shape.build() }
}

fn outcome(end: End) -> Option<Outcome> {
    let graded = |passed: bool| Outcome::Finished {
        stop: StopReason::Submitted,
        reward: f64::from(u8::from(passed)),
        grade: Grade {
            score: f64::from(u8::from(passed)),
            passed,
            ..Grade::from_checks(Vec::new(), Vec::new())
        },
    };
    match end {
        End::Passes => Some(graded(true)),
        End::Fails => Some(graded(false)),
        End::Faults => {
            Some(Outcome::Faulted(Fault::permanent(Boundary::Env, "shell-lost", "the shell ended")))
        }
        End::Missing => None,
    }
}

impl TestStore {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Opens a run and fills it, by task and repeat.
    pub(crate) fn filled(&self, name: &str, shape: Shape, end: impl Fn(u32, u32) -> End) -> RunWriter {
        let plan = plan(name, shape);
        let lock = LockFile::new(&plan, "clawrl 0.1.0", Default::default(), Vec::new());
        let writer = RunWriter::create(self.path(), &plan, &lock).unwrap();
        let sink = writer.sink();
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            for slot in &plan.slots {
                let Some(outcome) = outcome(end(slot.task.0, slot.member)) else { continue };
                let attempt = AttemptId { slot: slot.id, number: 0 };
                let lease = LeaseRecord { attempt, epoch: Epoch(u64::from(slot.id.0) + 1) };
                sink.leased(lease).await.unwrap();
                sink.resolved(record(lease, outcome)).await.unwrap();
            }
        });
        writer
    }

    /// A run that is over.
    pub(crate) fn run(&self, name: &str, shape: Shape, end: impl Fn(u32, u32) -> End) -> Run {
        let writer = self.filled(name, shape, end);
        match shape.end {
            Some(end) => drop(writer.finish(end).unwrap()),
            None => writer.close().unwrap(),
        }
        self.recorded(name)
    }

    pub(crate) fn recorded(&self, name: &str) -> Run {
        RunStore::open(self.path()).unwrap().run(&RunId::new(name).unwrap()).unwrap()
    }

    /// A comparison with a baseline whose even tasks always pass, and whose odd ones do in half of their repeats.
    pub(crate) fn comparison(&self, gate: CiPlan) -> Comparison {
        let run = self.run("before", Shape::default(), usual);
        Comparison::new(gate, Baseline::of("g", 1.0, &run, "clawrl 0.1.0", 5).unwrap())
    }

    pub(crate) fn baseline_path(&self) -> PathBuf {
        Baseline::path(self.path(), "g")
    }
}

/// Ends of the baseline.
pub(crate) fn usual(task: u32, repeat: u32) -> End {
    if task.is_multiple_of(2) || repeat.is_multiple_of(2) { End::Passes } else { End::Fails }
}

fn record(lease: LeaseRecord, outcome: Outcome) -> AttemptRecord {
    let millis = std::time::Duration::from_millis;
    AttemptRecord {
        attempt: lease.attempt,
        epoch: lease.epoch,
        closes_slot: true,
        outcome,
        times: PhaseTimes {
            lease: millis(900),
            setup: millis(10),
            policy: millis(100),
            step: millis(20),
            grade: millis(5),
            close: millis(1),
        },
        trajectory: Trajectory::default(),
    }
}

/// A gate of pass rates with a `min_effect` of a quarter.
pub(crate) fn gate() -> CiPlan {
    CiPlan {
        gate: "g".to_owned(),
        file: PathBuf::from("g.yaml"),
        suites: Vec::new(),
        policy: "oracle".to_owned(),
        seed: 1,
        repeats: Repeats::Exactly(4),
        metrics: vec![metric(MetricKind::PassRate, 0.25)],
        must_pass: Vec::new(),
        each_task: None,
        alpha: 0.05,
        power: 0.9,
        interim_analyses: 1,
        deterministic: false,
        completeness: CiCompleteness { max_fault_share: 0.1, max_lost_share: 0.0 },
        budget: CiBudget::default(),
    }
}

pub(crate) fn metric(kind: MetricKind, min_effect: f64) -> CiMetric {
    CiMetric { kind, tolerance: 0.0, min_effect }
}

pub(crate) fn slot(task: u32, repeat: u32) -> SlotId {
    SlotId(task * Shape::default().repeats + repeat)
}
