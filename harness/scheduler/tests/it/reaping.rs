//! A policy that blocks its thread: the attempt is taken from its executor, and its late result is discarded.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use clawrl_core::{
    AttemptRecord, BlobStore, Boundary, BoxFuture, EnvProvider, EpisodeSink, LeaseRecord, Outcome, SinkError,
    Timeouts,
};
use clawrl_scheduler::{RunEnd, Scheduler, SchedulerTimeouts};
use clawrl_testkit::{FaultyProvider, MemorySink, PlanShape, Reply, ScriptedPolicy};

use crate::stage::Stage;

/// A gate that one thread waits at until another opens it.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

fn stage(retries: u32) -> Stage {
    let mut shape = PlanShape::flat(3, 3);
    shape.limits.max_retries = retries;
    shape.timeouts = Timeouts { policy: Duration::from_millis(50), ..Timeouts::default() };
    let mut stage = Stage::new(&shape, |_| Vec::new());
    stage.timeouts = SchedulerTimeouts {
        operation_grace: Duration::from_millis(50),
        reap_margin: Duration::from_millis(50),
        reap_scan_gap: Duration::from_millis(50),
        // The first look at an attempt is when its journaling would be overdue.
        record: Duration::from_millis(500),
        ..SchedulerTimeouts::default()
    };
    stage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_blocked_executor_loses_its_attempt() {
    let gate = Arc::new(Gate::default());
    let mut stage = stage(1);
    let at_gate = Arc::clone(&gate);
    stage.policy = Arc::new(ScriptedPolicy::new(move |request| {
        match (request.attempt.slot.0, request.attempt.number) {
            (0, 0) => at_gate.pass(),
            // The retry runs, so the attempt was taken: now the first executor goes on, too late.
            (0, _) => at_gate.open(),
            _ => {}
        }
        Reply::submit()
    }));
    let report = stage.run().await.unwrap();
    assert_eq!((report.end, report.closed, report.passed), (RunEnd::Completed, 3, 3));
    assert_eq!((report.reaped, report.retries, report.lost_executors), (1, 1, 0));
    assert_eq!(stage.sink.violations(), Vec::<String>::new());
    let first = stage.sink.records().into_iter().find(|record| matches!(record.outcome, Outcome::Faulted(_)));
    let Some(Outcome::Faulted(fault)) = first.map(|record| record.outcome) else { panic!("no fault") };
    assert_eq!((fault.boundary, fault.code.as_str()), (Boundary::Policy, "reaped"));
    assert_eq!(stage.usage(), 0, "the environment was dropped");
}

/// Records of faulted attempts open the gate first and are kept only when the environment is gone.
struct WaitsForTheLate {
    gate: Arc<Gate>,
    provider: Arc<FaultyProvider>,
    kept: Arc<MemorySink>,
}

impl EpisodeSink for WaitsForTheLate {
    fn leased(&self, lease: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        self.kept.leased(lease)
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async move {
            if matches!(record.outcome, Outcome::Faulted(_)) {
                self.gate.open();
                while self.provider.usage().live > 0 {
                    tokio::task::yield_now().await;
                }
                // The task that dropped it ends about now; its end must mean nothing any more.
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                }
            }
            self.kept.resolved(record).await
        })
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        self.kept.blobs()
    }
}

/// The taken executor's task ends while its loss is being recorded in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_end_of_a_taken_executor_means_nothing() {
    let gate = Arc::new(Gate::default());
    let mut stage = stage(0);
    stage.timeouts.record = Duration::from_secs(2);
    stage.timeouts.reap_margin = Duration::ZERO;
    let at_gate = Arc::clone(&gate);
    stage.policy = Arc::new(ScriptedPolicy::new(move |request| {
        if request.attempt.slot.0 == 0 {
            at_gate.pass();
            return Reply::Hang;
        }
        Reply::submit()
    }));
    let mut config = stage.config();
    config.sink = Arc::new(WaitsForTheLate {
        gate,
        provider: Arc::clone(&stage.provider),
        kept: Arc::clone(&stage.sink),
    });
    let report = Scheduler::new(config).unwrap().run().await.unwrap();
    assert_eq!((report.end, report.faulted, report.reaped), (RunEnd::Completed, 1, 1));
    assert_eq!((report.lost_executors, stage.sink.violations()), (0, Vec::new()));
}

/// The end of the run does not wait for a thread that never comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_tail_does_not_wait_for_a_blocked_thread() {
    let gate = Arc::new(Gate::default());
    let mut stage = stage(0);
    stage.timeouts.tail = Duration::from_millis(100);
    let at_gate = Arc::clone(&gate);
    stage.policy = Arc::new(ScriptedPolicy::new(move |request| {
        if request.attempt.slot.0 == 0 {
            at_gate.pass();
        }
        Reply::submit()
    }));
    let report = stage.run().await.unwrap();
    assert_eq!((report.end, report.closed, report.faulted), (RunEnd::Completed, 3, 1));
    assert_eq!((report.reaped, report.lost_executors), (1, 1));
    // So that the runtime can end.
    gate.open();
}
