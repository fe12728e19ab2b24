//! Ctrl-C once, twice, and resumes.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{CancelReason, Epoch, Outcome, SlotId};
use clawrl_scheduler::{Interrupt, RunEnd, Scheduler};
use clawrl_testkit::{Mishap, PlanShape, Reply, ScriptedPolicy, Site};

use crate::stage::Stage;

/// Ten slots, three at a time, each turn a minute long; interrupted in the second minute.
async fn interrupted(interrupts: &[Interrupt]) -> (Stage, clawrl_scheduler::RunReport) {
    let mut stage = Stage::new(&PlanShape::flat(10, 3), |_| Vec::new());
    stage.policy = Arc::new(ScriptedPolicy::new(|request| {
        let action = match request.turn {
            0..2 => clawrl_core::Action::call(clawrl_testkit::call("true")),
            _ => clawrl_core::Action { text: "submit".to_owned(), ..Default::default() },
        };
        Reply::ActAfter(Duration::from_secs(60), action)
    }));
    let person = async {
        for &interrupt in interrupts {
            tokio::time::sleep(Duration::from_secs(70)).await;
            stage.interrupt.send_replace(interrupt);
        }
    };
    let (report, ()) = tokio::join!(stage.run(), person);
    let report = report.unwrap();
    stage.check_invariants(&report).unwrap();
    (stage, report)
}

#[tokio::test(start_paused = true)]
async fn drain_finishes_live_attempts() {
    let (stage, report) = interrupted(&[Interrupt::Drain]).await;
    assert_eq!((report.end, report.closed, report.attempts), (RunEnd::Drained, 3, 3));
    assert_eq!(report.left_open, (3..10).map(SlotId).collect::<Vec<_>>());
    assert_eq!(report.elapsed.as_secs(), 180);
    assert!(stage.sink.unresolved().is_empty());
}

#[tokio::test(start_paused = true)]
async fn cancel_resolves_everything_at_once() {
    let (stage, report) = interrupted(&[Interrupt::Drain, Interrupt::CancelAll]).await;
    assert_eq!((report.end, report.closed, report.cancelled), (RunEnd::Cancelled, 0, 3));
    assert_eq!(report.left_open.len(), 10);
    assert_eq!(report.elapsed.as_secs(), 140);
    for record in stage.sink.records() {
        assert_eq!(record.outcome, Outcome::Cancelled(CancelReason::Interrupted));
        assert!(!record.closes_slot);
        assert_eq!(record.trajectory.turns.len(), 2, "what it did is kept");
    }
}

/// An environment that hears nothing holds a cancelled run up for its grace and its close limit only.
#[tokio::test(start_paused = true)]
async fn cancel_does_not_wait_for_the_deaf() {
    let deaf = |_| vec![(Site::Step(1), Mishap::Hang), (Site::Close, Mishap::Hang)];
    let stage = Stage::new(&PlanShape::flat(4, 4), deaf);
    let person = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        stage.interrupt.send_replace(Interrupt::CancelAll);
    };
    let (report, ()) = tokio::join!(stage.run(), person);
    let report = report.unwrap();
    assert_eq!((report.cancelled, report.left_open.len()), (4, 4));
    assert_eq!(report.elapsed.as_secs(), 3 + 5 + 30);
    assert_eq!(report.leftovers.len(), 4);
    assert!(report.leftovers[0].contains("close_timeout_secs"), "{:?}", report.leftovers);
    assert_eq!(stage.usage(), 0);
}

#[tokio::test(start_paused = true)]
async fn interrupted_before_it_starts() {
    let stage = Stage::new(&PlanShape::flat(4, 4), |_| Vec::new());
    stage.interrupt.send_replace(Interrupt::Drain);
    let report = stage.run().await.unwrap();
    assert_eq!((report.end, report.attempts, report.left_open.len()), (RunEnd::Drained, 0, 4));
}

/// The second part of a run fills the open slots, under new numbers and epochs.
#[tokio::test(start_paused = true)]
async fn a_resume_runs_the_open_slots() {
    let (stage, first) = interrupted(&[Interrupt::Drain, Interrupt::CancelAll]).await;
    stage.interrupt.send_replace(Interrupt::None);
    let mut config = stage.config();
    config.open_slots = first.left_open;
    config.first_epoch = Epoch(3);
    config.attempt_numbers = stage.sink.leases().iter().map(|lease| (lease.attempt.slot, 1)).collect();
    let report = Scheduler::new(config).unwrap().run().await.unwrap();
    assert_eq!((report.end, report.closed), (RunEnd::Completed, 10));
    stage.check_invariants(&report).unwrap();
    let numbers: Vec<u32> = stage.sink.leases().iter().skip(3).map(|lease| lease.attempt.number).collect();
    assert_eq!(numbers, [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
}
