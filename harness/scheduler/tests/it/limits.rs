//! The limit that fired is the limit that is named, each with its own clock.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{Boundary, Limit, Outcome, StopReason, Timeouts};
use clawrl_testkit::{Mishap, PlanShape, Reply, ScriptedPolicy, Site};
use tokio::time::Instant;

use crate::stage::Stage;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// All far apart, so that a wrong name cannot be right by chance.
fn apart() -> Timeouts {
    Timeouts {
        lease: secs(11),
        setup: secs(23),
        step: secs(37),
        policy: secs(53),
        grade: secs(71),
        close: secs(97),
        attempt: secs(1_000),
    }
}

#[derive(Debug, PartialEq)]
enum Ends {
    /// Boundary, code, limit, and seconds of the whole run.
    Fault(Boundary, &'static str, Limit, u64),
    Truncated(u64),
    Submitted(u64),
}

/// One attempt with this mishap; the policy answers each turn after `think` and submits at the third.
async fn check(site: Option<(Site, Mishap)>, think: Option<Duration>, timeouts: Timeouts, expected: Ends) {
    let mut shape = PlanShape::flat(1, 1);
    shape.timeouts = timeouts;
    let mut stage = Stage::new(&shape, move |_| site.into_iter().collect());
    stage.policy = Arc::new(ScriptedPolicy::new(move |request| {
        let reply = if request.turn < 2 { Reply::run("true") } else { Reply::submit() };
        match (think, reply) {
            (Some(Duration::MAX), _) => Reply::Hang,
            (Some(time), Reply::Act(action)) => Reply::ActAfter(time, action),
            (_, reply) => reply,
        }
    }));
    let start = Instant::now();
    let report = stage.run().await.unwrap();
    let took = (start.elapsed().as_millis() as u64 + 500) / 1_000;
    stage.check_invariants(&report).unwrap();
    let ends = match stage.only_outcome() {
        Outcome::Faulted(fault) => {
            let code = if fault.code == "limit" { "limit" } else { "deadline-ignored" };
            assert_eq!(fault.code, code);
            assert!(fault.message.contains(fault.limit.unwrap().key()), "{}", fault.message);
            Ends::Fault(fault.boundary, code, fault.limit.unwrap(), took)
        }
        Outcome::Finished { stop: StopReason::TimeLimit(Limit::Attempt), .. } => Ends::Truncated(took),
        Outcome::Finished { stop: StopReason::Submitted, .. } => Ends::Submitted(took),
        other => panic!("{other:?}"),
    };
    assert_eq!(ends, expected, "{site:?}, policy {think:?}, {timeouts:?}");
}

#[tokio::test(start_paused = true)]
async fn environments_that_keep_their_deadline() {
    let endless = |site| Some((site, Mishap::Endless));
    let limit = |boundary, limit, took| Ends::Fault(boundary, "limit", limit, took);
    check(endless(Site::Lease), None, apart(), limit(Boundary::Provider, Limit::Lease, 11)).await;
    check(endless(Site::Reset), None, apart(), limit(Boundary::Env, Limit::Setup, 23)).await;
    check(endless(Site::Step(1)), None, apart(), limit(Boundary::Env, Limit::Step, 37)).await;
    check(endless(Site::Grade), None, apart(), limit(Boundary::Grader, Limit::Grade, 71)).await;
}

#[tokio::test(start_paused = true)]
async fn environments_that_ignore_their_deadline() {
    let hang = |site| Some((site, Mishap::Hang));
    let ignored = |boundary, limit, took| Ends::Fault(boundary, "deadline-ignored", limit, took);
    check(hang(Site::Lease), None, apart(), Ends::Fault(Boundary::Provider, "limit", Limit::Lease, 11)).await;
    check(hang(Site::Reset), None, apart(), ignored(Boundary::Env, Limit::Setup, 23 + 5)).await;
    check(hang(Site::Step(2)), None, apart(), ignored(Boundary::Env, Limit::Step, 37 + 5)).await;
    check(hang(Site::Grade), None, apart(), ignored(Boundary::Grader, Limit::Grade, 71 + 5)).await;
    // Closing changes no outcome: leftovers are reported.
    check(hang(Site::Close), None, apart(), Ends::Submitted(97)).await;
    // Late, but within the grace.
    check(Some((Site::Step(1), Mishap::Slow(secs(41)))), None, apart(), Ends::Submitted(41)).await;
}

#[tokio::test(start_paused = true)]
async fn the_policy() {
    let limit = Ends::Fault(Boundary::Policy, "limit", Limit::Policy, 53);
    check(None, Some(Duration::MAX), apart(), limit).await;
    check(None, Some(secs(52)), apart(), Ends::Submitted(3 * 52)).await;
}

/// Nested limits, one second apart: the attempt's truncates and is graded, the step's is a fault.
#[tokio::test(start_paused = true)]
async fn nested_limits_close_together() {
    let attempt = |attempt| Timeouts { attempt: secs(attempt), ..apart() };
    let endless = Some((Site::Step(1), Mishap::Endless));
    let step = |took| Ends::Fault(Boundary::Env, "limit", Limit::Step, took);
    check(endless, None, attempt(38), step(37)).await;
    check(endless, None, attempt(37), step(37)).await;
    check(endless, None, attempt(36), Ends::Truncated(36)).await;
    // While the policy thinks.
    check(None, Some(secs(30)), attempt(45), Ends::Truncated(45)).await;
    check(None, Some(Duration::MAX), attempt(54), Ends::Fault(Boundary::Policy, "limit", Limit::Policy, 53))
        .await;
    check(None, Some(Duration::MAX), attempt(52), Ends::Truncated(52)).await;
    // A hanging environment is named by the limit that it ignored.
    let hang = Some((Site::Step(1), Mishap::Hang));
    let ignored = |limit, took| Ends::Fault(Boundary::Env, "deadline-ignored", limit, took);
    check(hang, None, attempt(36), ignored(Limit::Attempt, 36 + 5)).await;
    check(hang, None, attempt(38), ignored(Limit::Step, 37 + 5)).await;
    // During setup there is nothing to grade.
    let setup = Some((Site::Reset, Mishap::Endless));
    check(setup, None, attempt(20), Ends::Fault(Boundary::Env, "limit", Limit::Attempt, 20)).await;
    check(setup, None, attempt(24), Ends::Fault(Boundary::Env, "limit", Limit::Setup, 23)).await;
    // A step that ends the episode late in the attempt counts.
    let slow = Some((Site::Step(3), Mishap::Slow(secs(38))));
    check(slow, None, attempt(36), Ends::Submitted(38)).await;
    // One that does not end it is the last.
    let slow = Some((Site::Step(2), Mishap::Slow(secs(38))));
    check(slow, None, attempt(36), Ends::Truncated(38)).await;
}

/// The attempt's clock starts with the lease: a long wait for it takes nothing away.
#[tokio::test(start_paused = true)]
async fn waiting_for_the_lease_is_not_the_attempts_time() {
    let timeouts = Timeouts { attempt: secs(20), lease: secs(100), ..apart() };
    let slow = Some((Site::Lease, Mishap::Slow(secs(90))));
    check(slow, Some(secs(6)), timeouts, Ends::Submitted(90 + 18)).await;
    check(slow, Some(secs(7)), timeouts, Ends::Truncated(90 + 20)).await;
}
