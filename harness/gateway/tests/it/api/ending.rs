//! Shutdown, and limits.

use std::time::Duration;

use clawrl_core::FinishReason;
use clawrl_gateway::Drained;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::scripted::{Say, Scripted};
use super::test_server::TestServer;

fn body() -> Value {
    json!({"stream": true, "messages": [{"role": "user", "content": "Hi"}]})
}

fn gated() -> Vec<Say> {
    vec![Say::Token("a".to_owned()), Say::Gate, Say::End(FinishReason::Stop)]
}

#[tokio::test]
async fn shutdown_lets_running_answers_finish() {
    let mut server = TestServer::new(Scripted::new(vec![Ok(gated())])).await;
    let mut answer = server.post("/v1/chat/completions", &body()).await;
    answer.event().await.unwrap();
    server.end();
    // New connections are refused.
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    server.policy.gate.add_permits(1);
    assert_eq!(answer.events().await.last(), Some(&json!("[DONE]")));
    assert_eq!(server.ended().await, Drained { cut: 0 });
    assert_eq!(server.turns().await[0].line.state, "answered");
}

#[tokio::test]
async fn shutdown_cuts_slow_answers_and_records_it() {
    let policy = Scripted::new(vec![Ok(gated())]);
    let mut server = TestServer::with(policy, |settings| settings.drain = Duration::from_millis(20)).await;
    let mut answer = server.post("/v1/chat/completions", &body()).await;
    answer.event().await.unwrap();
    server.end();
    assert_eq!(server.ended().await, Drained { cut: 1 });
    assert!(answer.events().await.iter().all(|event| *event != "[DONE]"));
    assert_eq!(server.turns().await[0].requests[0].state, "failed");
}

#[tokio::test]
async fn requests_over_the_limit_are_refused() {
    let server = TestServer::with(Scripted::new(vec![Ok(gated())]), |settings| {
        settings.answers = 3;
        settings.answers_of_user = 2;
    });
    let server = server.await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let answer = server.post("/v1/chat/completions", &body()).await;
        assert_eq!(answer.status, 200);
        open.push(answer);
    }
    let refused = server.post("/v1/chat/completions", &body()).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.json().await["error"]["type"], "rate_limit_error");
    // Another user has their own limit, within the total.
    let other = server.post_as("two", "/v1/chat/completions", body().to_string().as_bytes()).await;
    assert_eq!(other.status, 200);
    let busy = server.post_as("two", "/v1/chat/completions", body().to_string().as_bytes()).await;
    assert_eq!((busy.status, busy.header("retry-after")), (503, Some("1")));
    server.policy.gate.add_permits(3);
    for answer in open {
        assert_eq!(answer.events().await.last(), Some(&json!("[DONE]")));
    }
    other.events().await;
    while server.get("/metrics").await.text().await.contains("gateway_running_count 3") {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.post("/v1/chat/completions", &body()).await.status, 200);
}
