//! A suite that nothing fails checks nothing: each kind of misbehaviour fails the check meant for it.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::EnvProvider;
use clawrl_core::Retry;
use clawrl_core::ToolCall;
use clawrl_testkit::conformance::{Case, check_provider};
use clawrl_testkit::{FaultyProvider, Mishap, NullProvider, NullSettings, Site, call, task};

fn case(make: impl Fn() -> Arc<dyn EnvProvider> + Send + Sync + 'static) -> Case {
    Case {
        make_provider: Box::new(make),
        task: Arc::new(task("conformance")),
        quick_calls: vec![call("true")],
        long_calls: None,
        ending_calls: Some(vec![ToolCall::new("submit", serde_json::json!({}))]),
        deterministic: true,
        patience: Duration::from_secs(5),
        at_once: 8,
    }
}

/// The checks that a provider with this one mishap fails. Time is tokio's, and stands still.
async fn check(mishap: Option<(Site, Mishap)>, long: bool, expected: &[&str]) {
    let mut case = case(move || Arc::new(FaultyProvider::new(move |_| mishap.into_iter().collect())));
    if long {
        case.long_calls = Some(vec![call("sleep 1000")]);
        // Steps are long in this script, so nothing quick is there to be checked.
        case.ending_calls = None;
        case.deterministic = false;
    }
    let report = check_provider(case).await;
    assert_eq!(report.failed(), expected, "{mishap:?}\n{report}");
}

#[tokio::test]
async fn the_null_provider_conforms() {
    check_provider(case(|| Arc::new(NullProvider::new(NullSettings::default())))).await.assert_conforms();
}

#[tokio::test]
async fn unsupported_checks_are_reported() {
    let told = async |settings| {
        let report = check_provider(case(move || Arc::new(NullProvider::new(settings)))).await;
        report.assert_conforms();
        let told = report.to_string();
        let of_steps =
            |line: &&str| ["C3 ", "C5 ", "C6 ", "not covered"].iter().any(|part| line.contains(part));
        told.lines().filter(of_steps).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(told(NullSettings::default()).await, @r"
    pass  C3  dropped-step: after a dropped step only close works
    pass  C5  deadline: a step returns by its deadline, and grading works after it
              not covered: a step that exceeds its deadline while running: no long call is known
    pass  C6  cancel: a cancelled step returns early
              not covered: a long step: no long call is known
    ");
    insta::assert_snapshot!(told(NullSettings { yields: false, ..NullSettings::default() }).await, @r"
    n/a   C3  dropped-step: its calls never wait, so a step cannot be interrupted
    pass  C5  deadline: a step returns by its deadline, and grading works after it
              not covered: a step that exceeds its deadline while running: no long call is known
    n/a   C6  cancel: its calls never wait, so a step cannot be interrupted
    ");
}

#[tokio::test(start_paused = true)]
async fn misbehaviour_is_found() {
    check(None, false, &[]).await;
    // Without a call that is known to take long, a step is interrupted where it waits.
    let first_step = ["order", "deadline", "cancel", "deterministic", "neighbours", "ending"];
    check(Some((Site::Step(1), Mishap::Hang)), false, &first_step).await;
    // An environment whose steps are long and keep their bounds fails only what needs a quick step.
    check(Some((Site::Step(1), Mishap::Endless)), true, &["order", "neighbours"]).await;
    let hangs = ["order", "deadline", "cancel", "neighbours"];
    check(Some((Site::Step(1), Mishap::Hang)), true, &hangs).await;
    let close = Some((Site::Close, Mishap::Hang));
    let all_that_close = [
        "order",
        "close-twice",
        "dropped-step",
        "deadline",
        "cancel",
        "dropped-lease",
        "cancelled-lease",
        "shutdown",
        "deterministic",
        "neighbours",
        "warm-up",
        "ending",
    ];
    check(close, false, &all_that_close).await;
    let lease = Some((Site::Lease, Mishap::Fault(Retry::Never)));
    let all_that_lease = [
        "order",
        "close-twice",
        "dropped-step",
        "drop-without-close",
        "deadline",
        "cancel",
        "dropped-lease",
        "shutdown",
        "deterministic",
        "neighbours",
        "warm-up",
        "ending",
    ];
    check(lease, false, &all_that_lease).await;
    check(Some((Site::Grade, Mishap::Panic)), false, &["order", "ending"]).await;
}
