//! Runs whose groups are released one by one.

use std::time::Duration;

use clawrl_core::{Epoch, Retry, SlotId};
use clawrl_scheduler::{Demand, GroupDemand, Interrupt, RunEnd, RunReport, Scheduler};
use clawrl_testkit::{Mishap, PlanShape, Script, Site};
use tokio::sync::watch;

use crate::stage::Stage;

/// Six groups of two; each attempt takes ten seconds.
fn stage(concurrency: u32, script: fn(clawrl_core::AttemptId) -> Script) -> (Stage, watch::Sender<Demand>) {
    let mut shape = PlanShape::flat(6, concurrency);
    shape.group_size = 2;
    shape.limits.max_retries = 1;
    let mut stage = Stage::new(&shape, script);
    let sender = watch::Sender::new(Demand::default());
    stage.demand = Some(sender.clone());
    (stage, sender)
}

fn slow(_: clawrl_core::AttemptId) -> Script {
    vec![(Site::Step(1), Mishap::Slow(Duration::from_secs(10)))]
}

fn open(groups: u32) -> Demand {
    Demand { groups: GroupDemand::First(groups), closed: false }
}

fn dispatched(stage: &Stage) -> Vec<u32> {
    stage.provider.leases().iter().map(|attempt| attempt.slot.0).collect()
}

/// Runs while a consumer changes the demand at these times, in seconds.
async fn run(stage: &Stage, sender: &watch::Sender<Demand>, wants: &[(u64, Demand)]) -> RunReport {
    let consumer = async {
        let mut now = 0;
        for (at, demand) in wants.iter().cloned() {
            tokio::time::sleep(Duration::from_secs(at - now)).await;
            now = at;
            sender.send_replace(demand);
        }
    };
    let (report, ()) = tokio::join!(stage.run(), consumer);
    let report = report.unwrap();
    stage.check_invariants(&report).unwrap();
    report
}

#[tokio::test(start_paused = true)]
async fn groups_run_when_they_are_wanted() {
    let (stage, sender) = stage(12, slow);
    let wants = [
        (5, open(1)),
        (100, open(3)),
        (200, open(2)),
        (300, Demand { groups: GroupDemand::First(9), closed: true }),
    ];
    let report = run(&stage, &sender, &wants).await;
    assert_eq!((report.end, report.closed, report.passed), (RunEnd::DemandClosed, 6, 6));
    assert_eq!(report.left_open, (6..12).map(SlotId).collect::<Vec<_>>());
    assert_eq!((report.slots, report.withheld), (12, 6));
    assert_eq!(dispatched(&stage), [0, 1, 2, 3, 4, 5]);
    assert_eq!(report.elapsed.as_secs(), 300, "it waited for demand, and ended with it");
}

#[tokio::test(start_paused = true)]
async fn groups_run_in_whatever_order_they_are_wanted() {
    let (stage, sender) = stage(12, slow);
    let these = |positions: &[u32]| Demand { groups: GroupDemand::These(positions.into()), closed: false };
    let wants = [
        (5, these(&[4])),
        (100, these(&[4, 1, 5])),
        (200, these(&[4, 1])),
        (300, Demand { closed: true, ..these(&[4, 1, 5]) }),
    ];
    let report = run(&stage, &sender, &wants).await;
    assert_eq!((report.end, report.closed, report.passed), (RunEnd::DemandClosed, 6, 6));
    assert_eq!((report.slots, report.withheld), (12, 6));
    // Groups demanded together start in plan order.
    assert_eq!(dispatched(&stage), [8, 9, 2, 3, 10, 11]);
}

#[tokio::test(start_paused = true)]
async fn queued_slots_stay_open_after_demand_closes() {
    let (stage, sender) = stage(3, slow);
    let report =
        run(&stage, &sender, &[(0, open(4)), (5, Demand { groups: GroupDemand::First(4), closed: true })])
            .await;
    assert_eq!((report.end, report.closed, report.left_open.len()), (RunEnd::DemandClosed, 3, 9));
    assert_eq!((report.withheld, report.elapsed.as_secs()), (4, 10));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_every_group_was_wanted_is_complete() {
    let (stage, sender) = stage(12, slow);
    let report = run(&stage, &sender, &[(0, open(2)), (50, open(u32::MAX))]).await;
    assert_eq!((report.end, report.closed, report.withheld), (RunEnd::Completed, 12, 0));
    assert_eq!(report.elapsed.as_secs(), 60, "it does not wait for more demand");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_sender_wants_no_more() {
    let (mut stage, sender) = stage(2, slow);
    sender.send_replace(open(2));
    let config = stage.config();
    stage.demand = None;
    let consumer = async {
        tokio::time::sleep(Duration::from_secs(15)).await;
        drop(sender);
    };
    let scheduler = Scheduler::new(config).unwrap();
    let (report, ()) = tokio::join!(scheduler.run(), consumer);
    let report = report.unwrap();
    assert_eq!((report.end, report.closed, report.elapsed.as_secs()), (RunEnd::DemandClosed, 4, 20));
    stage.check_invariants(&report).unwrap();
}

#[tokio::test(start_paused = true)]
async fn run_without_demand_ends() {
    let (mut stage, sender) = stage(2, slow);
    sender.send_replace(open(2));
    let config = stage.config();
    stage.demand = None;
    drop(sender);
    let report = Scheduler::new(config).unwrap().run().await.unwrap();
    assert_eq!((report.end, report.attempts, report.withheld), (RunEnd::DemandClosed, 0, 12));
}

#[tokio::test(start_paused = true)]
async fn retries_need_no_further_demand() {
    let (stage, sender) = stage(2, |attempt| match attempt.number {
        0 => vec![(Site::Lease, Mishap::Fault(Retry::Sound))],
        _ => Vec::new(),
    });
    let report =
        run(&stage, &sender, &[(0, open(1)), (60, Demand { groups: GroupDemand::First(1), closed: true })])
            .await;
    assert_eq!((report.end, report.closed, report.retries), (RunEnd::DemandClosed, 2, 2));
    let mut slots = dispatched(&stage);
    slots.sort_unstable();
    assert_eq!(slots, [0, 0, 1, 1]);
}

/// Interrupts end a run that waits for demand, at once.
async fn check_interrupt(interrupt: Interrupt, end: RunEnd) {
    let (stage, sender) = stage(2, slow);
    let person = async {
        tokio::time::sleep(Duration::from_secs(70)).await;
        stage.interrupt.send_replace(interrupt);
    };
    let wants = [(0, open(1))];
    let (report, ()) = tokio::join!(run(&stage, &sender, &wants), person);
    assert_eq!((report.end, report.closed, report.elapsed.as_secs()), (end, 2, 70));
}

#[tokio::test(start_paused = true)]
async fn interrupts_end_the_wait() {
    check_interrupt(Interrupt::Drain, RunEnd::Drained).await;
    check_interrupt(Interrupt::CancelAll, RunEnd::Cancelled).await;
}

#[tokio::test(start_paused = true)]
async fn progress_counts_withheld_slots() {
    let (stage, sender) = stage(3, slow);
    sender.send_replace(open(2));
    let scheduler = Scheduler::new(stage.config()).unwrap();
    let progress = scheduler.progress();
    let before = progress.snapshot();
    assert_eq!((before.slots, before.queued, before.withheld), (12, 0, 12));
    let watcher = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let halfway = progress.snapshot();
        assert_eq!((halfway.running, halfway.queued, halfway.withheld), (3, 1, 8));
        tokio::time::sleep(Duration::from_secs(25)).await;
        let waiting = progress.snapshot();
        assert_eq!((waiting.slots, waiting.closed, waiting.running, waiting.withheld), (12, 4, 0, 8));
        sender.send_replace(Demand { groups: GroupDemand::First(0), closed: true });
    };
    let (report, ()) = tokio::join!(scheduler.run(), watcher);
    assert_eq!(report.unwrap().closed, 4);
}

/// Positions are those of the plan, so that a resumed run counts as the first did.
#[tokio::test(start_paused = true)]
async fn a_resume_counts_groups_from_the_start_of_the_plan() {
    let (stage, sender) = stage(12, slow);
    let mut config = stage.config();
    config.open_slots = [9, 3, 2, 8].map(SlotId).to_vec();
    config.first_epoch = Epoch(40);
    sender.send_replace(open(2));
    let consumer = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(dispatched(&stage), [2, 3]);
        sender.send_replace(open(5));
    };
    let scheduler = Scheduler::new(config).unwrap();
    let (report, ()) = tokio::join!(scheduler.run(), consumer);
    assert_eq!((report.unwrap().end, dispatched(&stage)), (RunEnd::Completed, vec![2, 3, 8, 9]));
}
