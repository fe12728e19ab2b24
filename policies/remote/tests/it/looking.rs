//! The check before a run.

use clawrl_remote::{PreflightError, preflight};
use serde_json::json;

use crate::stage::{KEY, policy, settings};
use crate::stub::{Answer, Stub};

async fn look(stub: &Stub) -> Result<(), PreflightError> {
    let outcome = preflight(&policy(settings(stub))).await;
    assert!(!format!("{outcome:?}").contains(KEY));
    outcome
}

fn paths(stub: &Stub) -> Vec<String> {
    stub.asked().into_iter().map(|asked| asked.path).collect()
}

#[tokio::test]
async fn a_listed_model_costs_nothing() {
    let stub = Stub::start(|_| Answer::models(&["other", "m"])).await;
    assert_eq!(look(&stub).await, Ok(()));
    assert_eq!(paths(&stub), ["/v1/models"]);
}

#[tokio::test]
async fn an_alias_is_found_by_asking() {
    let stub = Stub::start(|asked| match asked.path.as_str() {
        "/v1/models" => Answer::models(&["m:latest"]),
        _ => Answer::said("yes"),
    })
    .await;
    assert_eq!(look(&stub).await, Ok(()));
    assert_eq!(paths(&stub), ["/v1/models", "/v1/chat/completions"]);
    assert_eq!(stub.asked()[1].body["max_tokens"], 16);
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let unknown = Stub::start(|asked| match asked.path.as_str() {
        "/v1/models" => Answer::models(&["one", "two"]),
        _ => Answer::json("404 Not Found", &json!({"error": {"message": "model `m` not found"}})),
    })
    .await;
    let error = look(&unknown).await.unwrap_err();
    assert_eq!(
        (error.code, error.may_pass, error.models.as_slice()),
        ("model-unknown", false, ["one".into(), "two".into()].as_slice())
    );

    let refused =
        Stub::start(|_| Answer::json("401 Unauthorized", &json!({"error": format!("{KEY}?")}))).await;
    let error = look(&refused).await.unwrap_err();
    assert_eq!((error.code, error.may_pass), ("key-refused", false));

    let nothing = Stub::start(|_| Answer::json("404 Not Found", &json!({"detail": "Not Found"}))).await;
    assert_eq!(look(&nothing).await.unwrap_err().code, "url-wrong");

    let stub = Stub::start(|_| Answer::default()).await;
    let settings = settings(&stub);
    stub.die().await;
    let error = preflight(&policy(settings)).await.unwrap_err();
    assert_eq!((error.code, error.may_pass), ("server-unreachable", true));
}

#[tokio::test]
async fn one_error_of_the_server_is_forgiven() {
    let stub = Stub::start(|asked| match asked.number {
        0 => Answer::whole("503 Service Unavailable", "", ""),
        _ => Answer::models(&["m"]),
    })
    .await;
    assert_eq!(look(&stub).await, Ok(()));
}
