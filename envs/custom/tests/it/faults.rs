//! Programs that violate the protocol: each is a typed fault with the program's standard error, and leaves nothing
//! behind.

use std::time::Duration;

use clawrl_core::{Boundary, Env, EnvProvider, Fault, Limit, Retry};
use clawrl_custom::CustomProvider;
use clawrl_testkit::lease_request;
use serde_json::json;

use crate::support::{
    GUESS, ROGUE, begun, call, ctx, custom_task, guess, http, process, python, serve, with_provider, within,
};

/// Long enough for a program to act, and short enough for one that does nothing.
const LIMIT: Duration = Duration::from_secs(5);

/// Plays an episode up to its first fault.
async fn played(provider: &CustomProvider, at: &str, what: &str) -> Result<f64, Fault> {
    let config = json!({ "at": at, "do": what });
    let is_silent = matches!(what, "hang" | "close-input" | "close-output");
    let limit = if is_silent { Duration::from_millis(700) } else { LIMIT };
    let task = within(limit, &custom_task(python(ROGUE, config)));
    let mut env = provider.lease(lease_request(&task)).await.unwrap();
    let result = episode(env.as_mut(), limit).await;
    assert_eq!(env.close().await.leftovers, Vec::<String>::new());
    result
}

async fn episode(env: &mut dyn Env, limit: Duration) -> Result<f64, Fault> {
    env.reset(ctx(0, LIMIT.max(limit))).await?;
    for seq in 1..3 {
        env.step(&[call("do", json!({ "what": "it" }))], ctx(seq, limit)).await?;
    }
    Ok(env.grade(ctx(3, limit)).await?.score)
}

/// A violation at a method gives this fault, and its message has these parts.
struct Expected<'a> {
    boundary: Boundary,
    code: &'a str,
    retry: Retry,
    parts: &'a [&'a str],
}

async fn check(provider: &CustomProvider, at: &str, what: &str, expected: Expected<'_>) {
    let fault = played(provider, at, what).await.expect_err(what);
    let Expected { boundary, code, retry, parts } = expected;
    assert_eq!(
        (fault.boundary, fault.code.as_str(), fault.retry),
        (boundary, code, retry),
        "{what}: {fault}"
    );
    for part in parts {
        assert!(fault.message.contains(part), "{what} at {at}: {fault}");
    }
    // A flood of errors has washed the beginning away.
    let begun = format!("about to {what} at {at}");
    assert!(what == "flood-errors" || fault.message.contains(&begun), "{what} at {at}: {fault}");
}

fn env(code: &'static str, parts: &'static [&'static str]) -> Expected<'static> {
    Expected { boundary: Boundary::Env, code, retry: Retry::Sound, parts }
}

fn lasting(code: &'static str, parts: &'static [&'static str]) -> Expected<'static> {
    Expected { retry: Retry::Never, ..env(code, parts) }
}

fn grader(code: &'static str, parts: &'static [&'static str]) -> Expected<'static> {
    Expected { boundary: Boundary::Grader, ..env(code, parts) }
}

#[test]
fn programs_that_end() {
    with_provider(&python(ROGUE, json!(null)), |provider| async move {
        let provider = provider.as_ref();
        check(provider, "reset", "exit", env("program-ended", &["before it answered `reset`: exit code 3"]))
            .await;
        check(provider, "step", "kill", env("program-ended", &["`step`: signal 9"])).await;
        check(provider, "step", "throw", env("program-ended", &["exit code 1", "RuntimeError: out of luck"]))
            .await;
        check(provider, "grade", "exit", grader("program-ended", &["exit code 3"])).await;
        check(provider, "step", "fork", env("program-ended", &["exit code 5"])).await;
        check(provider, "step", "flood-errors", env("program-ended", &["exit code 4", "last words"])).await;
        // Violations after the grade are harmless.
        assert_eq!(played(provider, "close", "exit").await, Ok(1.0));
        assert_eq!(played(provider, "close", "hang").await, Ok(1.0));
        assert_eq!(played(provider, "never", "exit").await, Ok(1.0));
    });
}

#[test]
fn protocol_violations_of_programs_are_faults() {
    with_provider(&python(ROGUE, json!(null)), |provider| async move {
        let provider = provider.as_ref();
        let garbage = env("protocol", &["instead of an answer to `step` came `loading model...`"]);
        check(provider, "step", "garbage", garbage).await;
        check(provider, "step", "bytes", env("protocol", &["instead of an answer"])).await;
        check(provider, "step", "deep", env("protocol", &["recursion limit"])).await;
        check(provider, "step", "flood", lasting("message-too-large", &["larger than 1024 KiB"])).await;
        check(provider, "step", "wrong-id", env("answer-unasked", &["which was never made"])).await;
        check(provider, "step", "text-id", env("answer-unasked", &["an answer has the id \"seven\""])).await;
        check(provider, "step", "early", env("answer-unasked", &["an answer to request 3 came"])).await;
        check(
            provider,
            "step",
            "previous-id",
            env("answer-twice", &["request 1 was answered a second time"]),
        )
        .await;
        check(provider, "step", "twice", env("answer-twice", &["request 2 was answered a second time"]))
            .await;
        check(provider, "reset", "twice", env("answer-twice", &["request 1 was answered a second time"]))
            .await;
        check(provider, "reset", "version", lasting("protocol-version", &["protocol version 2"])).await;
        check(provider, "reset", "shape", env("protocol", &["the result of `reset`"])).await;
        check(provider, "step", "shape", env("protocol", &["the result of `step`"])).await;
        check(provider, "grade", "shape", grader("protocol", &["the result of `grade`"])).await;
        check(provider, "grade", "score", grader("protocol", &["1.5 as score"])).await;
        check(provider, "grade", "nan", grader("protocol", &["instead of an answer to `grade`"])).await;
        check(provider, "step", "nan", env("protocol", &["instead of an answer to `step`"])).await;
        check(provider, "step", "error", lasting("env-error", &["error 5: no such level"])).await;
        check(provider, "step", "busy", env("env-error", &["error 6: busy"])).await;
    });
}

#[test]
fn programs_that_fall_silent() {
    with_provider(&python(ROGUE, json!(null)), |provider| async move {
        let provider = provider.as_ref();
        // Closed pipes are not seen, for the launcher of a sandbox holds them as well.
        for (at, what, limit) in [
            ("step", "hang", Limit::Step),
            ("grade", "hang", Limit::Grade),
            ("step", "close-output", Limit::Step),
            ("reset", "close-input", Limit::Step),
        ] {
            let fault = played(provider, at, what).await.unwrap_err();
            assert_eq!((fault.code.as_str(), fault.limit), ("limit", Some(limit)), "{fault}");
            assert!(fault.message.contains(&format!("about to {what} at {at}")), "{fault}");
        }
    });
}

#[test]
fn programs_that_cannot_be_run() {
    let spec = process(&["no-such-program", "--now"], Vec::new(), json!(null));
    with_provider(&spec.clone(), |provider| async move {
        let mut env = provider.lease(lease_request(&custom_task(spec))).await.unwrap();
        let fault = env.reset(ctx(0, LIMIT)).await.unwrap_err();
        let found = (fault.boundary, fault.code.as_str(), fault.retry);
        assert_eq!(found, (Boundary::Provider, "program-missing", Retry::Never), "{fault}");
        assert!(fault.message.contains("`no-such-program` cannot be run"), "{fault}");
        env.close().await;
    });
}

#[test]
fn i3_timed_out_attempt_is_still_graded() {
    let spec = python(ROGUE, json!(null));
    with_provider(&spec.clone(), |provider| async move {
        let (mut env, _) = begun(provider.as_ref(), &custom_task(spec)).await;
        let late =
            env.step(&[call("wait", json!({}))], ctx(1, Duration::from_millis(200))).await.unwrap_err();
        assert_eq!(late.limit, Some(Limit::Step));
        assert_eq!(env.grade(ctx(2, LIMIT)).await.unwrap().score, 1.0);
        env.close().await;
    });
}

#[test]
fn i3_expired_operation_is_not_sent() {
    with_provider(&python(GUESS, json!(null)), |provider| async move {
        let (_server, address) = serve(GUESS).await;
        let config = json!({ "secret": 17, "tries": 5 });
        for spec in [python(GUESS, config.clone()), http(&address, config)] {
            let (mut env, _) = begun(provider.as_ref(), &custom_task(spec)).await;
            let late = env.step(&[guess(17)], ctx(1, Duration::ZERO)).await.unwrap_err();
            assert_eq!(late.limit, Some(Limit::Step), "{late}");
            let grade = env.grade(ctx(2, LIMIT)).await.unwrap();
            assert_eq!((grade.score, grade.checks[0].message.as_str()), (0.0, "0 guesses"));
            env.close().await;
        }
    });
}
