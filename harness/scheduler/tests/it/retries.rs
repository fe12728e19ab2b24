//! Retries, the limit on faults, and ends of a run.

use std::time::Duration;

use clawrl_core::{Boundary, CancelReason, Outcome, Retry};
use clawrl_scheduler::{RunEnd, RunError, Scheduler, SetupError};
use clawrl_testkit::{MemorySink, Mishap, PlanShape, Script, SinkFailure, Site};

use crate::stage::Stage;

/// One slot with two retries: number of attempts, and outcome of the last.
async fn check(script: fn(u32) -> Script, expected_attempts: u32, expected_fault: bool) {
    let mut shape = PlanShape::flat(1, 1);
    shape.limits.max_retries = 2;
    let stage = Stage::new(&shape, move |attempt| script(attempt.number));
    let report = stage.run().await.unwrap();
    stage.check_invariants(&report).unwrap();
    assert_eq!(report.attempts, expected_attempts);
    assert_eq!(report.retries, expected_attempts - 1);
    assert_eq!((report.closed, report.faulted == 1), (1, expected_fault));
    let numbers: Vec<u32> = stage.provider.leases().iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, (0..expected_attempts).collect::<Vec<_>>(), "each in a lease of its own");
}

#[tokio::test(start_paused = true)]
async fn only_sound_retries_happen() {
    let sound = Mishap::Fault(Retry::Sound);
    assert_ne!(sound, Mishap::Fault(Retry::Never));
    check(|_| Vec::new(), 1, false).await;
    check(
        |number| if number == 0 { vec![(Site::Lease, Mishap::Fault(Retry::Sound))] } else { Vec::new() },
        2,
        false,
    )
    .await;
    check(|_| vec![(Site::Step(1), Mishap::Fault(Retry::Sound))], 3, true).await;
    check(|_| vec![(Site::Step(1), Mishap::Fault(Retry::Never))], 1, true).await;
    check(|number| if number < 2 { vec![(Site::Grade, Mishap::Panic)] } else { Vec::new() }, 3, false).await;
}

/// I2 of the architecture: an invalid reward is a fault.
#[tokio::test(start_paused = true)]
async fn a_score_that_is_no_number_is_a_fault() {
    for (site, boundary) in [(Site::Grade, Boundary::Grader), (Site::Step(1), Boundary::Env)] {
        let stage = Stage::new(&PlanShape::flat(1, 1), move |_| vec![(site, Mishap::Unsound)]);
        let report = stage.run().await.unwrap();
        stage.check_invariants(&report).unwrap();
        let Outcome::Faulted(fault) = stage.only_outcome() else { panic!("{site:?} gave a reward") };
        assert_eq!((fault.code.as_str(), fault.boundary), ("bad-reward", boundary));
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_rests_and_others_go_on() {
    let mut shape = PlanShape::flat(2, 1);
    shape.limits.max_retries = 1;
    let stage = Stage::new(&shape, |attempt| match (attempt.slot.0, attempt.number) {
        (0, 0) => vec![(Site::Lease, Mishap::Fault(Retry::Sound))],
        _ => Vec::new(),
    });
    let report = stage.run().await.unwrap();
    let order: Vec<u32> = stage.provider.leases().iter().map(|attempt| attempt.slot.0).collect();
    assert_eq!(order, [0, 1, 0], "the permit is not held while the slot rests");
    assert!(report.elapsed >= Duration::from_millis(50));
}

#[tokio::test(start_paused = true)]
async fn too_many_faults_give_the_run_up() {
    let mut shape = PlanShape::flat(20, 2);
    shape.limits.max_faults = Some(3);
    let stage = Stage::new(&shape, |attempt| match attempt.slot.0 {
        1 => vec![(Site::Step(1), Mishap::Slow(Duration::from_secs(20)))],
        _ => vec![(Site::Reset, Mishap::Fault(Retry::Never))],
    });
    let report = stage.run().await.unwrap();
    stage.check_invariants(&report).unwrap();
    assert_eq!((report.end, report.faulted, report.cancelled), (RunEnd::TooManyFaults, 3, 1));
    assert_eq!(report.left_open.len(), 17);
    let cancelled = stage.sink.records().into_iter().find(|record| record.attempt.slot.0 == 1).unwrap();
    assert_eq!(cancelled.outcome, Outcome::Cancelled(CancelReason::RunEnded));
}

#[tokio::test(start_paused = true)]
async fn a_harness_fault_ends_the_run_closed() {
    let stage = Stage::new(&PlanShape::flat(20, 4), |attempt| match attempt.slot.0 {
        2 => vec![(Site::Step(1), Mishap::HarnessFault)],
        _ => vec![(Site::Step(1), Mishap::Slow(Duration::from_secs(3)))],
    });
    let error = stage.run().await.unwrap_err();
    let RunError::Harness { fault, report } = &error else { panic!("{error:?}") };
    assert_eq!(fault.boundary, Boundary::Harness);
    stage.check_invariants(report).unwrap();
    assert_eq!((report.end, report.attempts, report.left_open.len()), (RunEnd::HarnessFault, 4, 20));
}

/// A sink that fails after some calls, whatever the way: the run ends, everything is closed.
async fn check_sink(after: usize, failure: SinkFailure) {
    let mut stage = Stage::new(&PlanShape::flat(20, 4), |_| Vec::new());
    stage.sink = std::sync::Arc::new(MemorySink::failing_after(after, failure));
    let error = stage.run().await.unwrap_err();
    assert!(matches!(error, RunError::Sink { .. }), "{error:?}");
    assert_eq!(error.report().end, RunEnd::SinkFailed);
    assert_eq!(stage.usage(), 0);
    stage.check_invariants(error.report()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_broken_sink_ends_the_run_closed() {
    for after in [0, 2, 5, 9] {
        for failure in [SinkFailure::Error, SinkFailure::Panic, SinkFailure::Hang] {
            check_sink(after, failure).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn configurations_that_cannot_run() {
    let stage = Stage::new(&PlanShape::flat(2, 1), |_| Vec::new());
    let refused = |change: fn(&mut clawrl_scheduler::SchedulerConfig)| {
        let mut config = stage.config();
        change(&mut config);
        Scheduler::new(config).err().map(|error| error.to_string())
    };
    assert_eq!(refused(|_| {}), None);
    let missing = "no provider for environments of kind `terminal`, which task `suite-0/task-0` needs";
    assert_eq!(refused(|config| config.providers.clear()).as_deref(), Some(missing));
    let slot = "open slot s7 is not in the plan, or is listed twice";
    assert_eq!(refused(|config| config.open_slots.push(clawrl_core::SlotId(7))).as_deref(), Some(slot));
    let twice = "open slot s1 is not in the plan, or is listed twice";
    assert_eq!(refused(|config| config.open_slots.push(clawrl_core::SlotId(1))).as_deref(), Some(twice));
    let stage = Stage::new(&PlanShape::flat(2, 0), |_| Vec::new());
    assert_eq!(Scheduler::new(stage.config()).err(), Some(SetupError::NoConcurrency));
}
