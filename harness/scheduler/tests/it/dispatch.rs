//! Order of dispatch, permits, warming up, figures, and a run that is dropped.

use std::time::Duration;

use clawrl_core::{EnvProvider, SlotId};
use clawrl_scheduler::{Phase, Scheduler};
use clawrl_testkit::{Mishap, PlanShape, Site, SuiteShape};

use crate::stage::Stage;

/// Each attempt takes ten seconds.
fn slow(_: clawrl_core::AttemptId) -> clawrl_testkit::Script {
    vec![(Site::Step(1), Mishap::Slow(Duration::from_secs(10)))]
}

fn dispatched(stage: &Stage) -> Vec<SlotId> {
    stage.provider.leases().iter().map(|attempt| attempt.slot).collect()
}

#[tokio::test(start_paused = true)]
async fn members_of_a_group_go_together() {
    let mut shape = PlanShape::flat(3, 4);
    shape.group_size = 4;
    let stage = Stage::new(&shape, slow);
    stage.run().await.unwrap();
    assert_eq!(dispatched(&stage), (0..12).map(SlotId).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn suites_share_by_weight() {
    let mut shape = PlanShape::flat(40, 6);
    shape.suites = vec![SuiteShape { weight: 2, tasks: 40 }, SuiteShape { weight: 1, tasks: 40 }];
    let stage = Stage::new(&shape, slow);
    stage.run().await.unwrap();
    let first: Vec<SlotId> = dispatched(&stage).into_iter().take(48).collect();
    let of_first_suite = first.iter().filter(|slot| slot.0 < 40).count();
    assert_eq!(of_first_suite, 32, "two thirds of 48");
}

#[tokio::test(start_paused = true)]
async fn a_kind_has_its_own_permits() {
    let stage = Stage::new(&PlanShape::flat(9, 6), slow);
    let mut config = stage.config();
    config.providers.get_mut("terminal").unwrap().permits = Some(2);
    let report = Scheduler::new(config).unwrap().run().await.unwrap();
    assert_eq!((stage.provider.usage().peak, report.peak_environments, report.closed), (2, 2, 9));
}

/// Warmed-up environments by slots, prewarm setting and concurrency.
async fn check_warm_up(slots: u32, prewarm: u32, concurrency: u32, expected: &[(u32, usize)]) {
    let mut shape = PlanShape::flat(slots, concurrency);
    shape.limits.prewarm = prewarm;
    let stage = Stage::new(&shape, |_| Vec::new());
    stage.run().await.unwrap();
    assert_eq!(stage.provider.warm_ups(), expected, "{slots} slots, prewarm {prewarm}");
}

#[tokio::test(start_paused = true)]
async fn warm_up_precedes_leases_and_is_limited() {
    check_warm_up(9, 0, 4, &[]).await;
    check_warm_up(9, 3, 4, &[(3, 0)]).await;
    check_warm_up(2, 3, 4, &[(2, 0)]).await;
    check_warm_up(9, 8, 4, &[(4, 0)]).await;
}

#[tokio::test(start_paused = true)]
async fn figures_of_a_run() {
    let stage = Stage::new(&PlanShape::flat(5, 3), slow);
    let scheduler = Scheduler::new(stage.config()).unwrap();
    let progress = scheduler.progress();
    let before = progress.snapshot();
    assert_eq!((before.slots, before.queued, before.running), (5, 5, 0));
    let halfway = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        progress.snapshot()
    };
    let (report, halfway) = tokio::join!(scheduler.run(), halfway);
    assert_eq!((halfway.running, halfway.queued, halfway.closed), (3, 2, 0));
    assert_eq!(halfway.phases.get(Phase::Step), 3);
    let after = progress.snapshot();
    assert_eq!((after.closed, after.passed, after.running, after.queued), (5, 5, 0, 0));
    assert_eq!(after.steps, report.unwrap().steps);
    assert!(Phase::ALL.iter().all(|&phase| after.phases.get(phase) == 0), "{after:?}");
    let latency = after.latencies.get(Phase::Step).unwrap();
    assert_eq!(latency.max.as_secs(), 10);
}

/// Dropping a run drops its environments; open leases stay for a resume.
#[tokio::test(start_paused = true)]
async fn a_dropped_run_leaves_no_environment() {
    let stage = Stage::new(&PlanShape::flat(9, 4), |_| vec![(Site::Step(1), Mishap::Hang)]);
    let dropped = tokio::time::timeout(Duration::from_secs(1), stage.run()).await;
    assert!(dropped.is_err() && stage.usage() <= 4);
    // Aborted tasks are dropped by the runtime when it gets to them; on a paused clock that is now.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!((stage.usage(), stage.sink.unresolved().len()), (0, 4));
}
