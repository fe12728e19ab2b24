//! Streamed answers.

use std::time::Duration;

use clawrl_core::FinishReason;
use clawrl_gateway::BackendError;
use serde_json::{Value, json};

use super::scripted::{Say, Scripted, said};
use super::test_server::TestServer;

fn body(settings: Value) -> Value {
    let mut body = json!({"stream": true, "messages": [{"role": "user", "content": "Hi"}]});
    body.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    body
}

fn token(text: &str) -> Say {
    Say::Token(text.to_owned())
}

fn deltas(events: &[Value]) -> Vec<Value> {
    events.iter().filter_map(|event| event["choices"][0].get("delta").cloned()).collect()
}

#[tokio::test]
async fn stream_sends_pieces_at_once_and_end_after_record() {
    let says = vec![token("Hel"), Say::Gate, token("lo"), Say::Gate, Say::End(FinishReason::Stop)];
    let server = TestServer::new(Scripted::new(vec![Ok(says)])).await;
    let options = json!({"stream_options": {"include_usage": true}});
    let mut answer = server.post("/v1/chat/completions", &body(options)).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("text/event-stream; charset=utf-8"))
    );
    let opening = answer.event().await.unwrap();
    assert_eq!(opening["object"], "chat.completion.chunk");
    assert_eq!(opening["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(answer.event().await.unwrap()["choices"][0]["delta"], json!({"content": "Hel"}));
    // The next piece waits for the test: this one was sent alone.
    server.policy.gate.add_permits(1);
    assert_eq!(answer.event().await.unwrap()["choices"][0]["delta"], json!({"content": "lo"}));
    assert_eq!(server.turns().await[0].line.state, "waiting");
    server.policy.gate.add_permits(1);
    let end = answer.event().await.unwrap();
    assert_eq!(
        (&end["choices"][0]["delta"], &end["choices"][0]["finish_reason"]),
        (&json!({}), &json!("stop"))
    );
    // When the end arrives, the record is complete.
    assert_eq!(server.turns().await[0].requests[0].answers[0].text.as_deref(), Some("Hello"));
    let usage = answer.event().await.unwrap();
    assert_eq!((&usage["choices"], &usage["usage"]["total_tokens"]), (&json!([]), &json!(5)));
    assert_eq!(answer.event().await, Some(json!("[DONE]")));
    assert_eq!(answer.event().await, None);
}

#[tokio::test]
async fn stream_has_calls_and_log_probabilities() {
    let call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    let server =
        TestServer::new(Scripted::new(vec![Ok(said(&["<think>hm</think>", "a ", call, call]))])).await;
    let settings = json!({"tools": [{"type": "function", "function": {"name": "f"}}], "logprobs": true});
    let events = server.post("/v1/chat/completions", &body(settings)).await.events().await;
    let deltas = deltas(&events);
    assert_eq!(deltas[1], json!({"reasoning_content": "hm"}));
    assert_eq!(deltas[2], json!({"content": "a"}));
    for (index, delta) in deltas[3..5].iter().enumerate() {
        let call = &delta["tool_calls"][0];
        assert_eq!(
            (&call["index"], &call["type"], &call["function"]),
            (&json!(index), &json!("function"), &json!({"name": "f", "arguments": "{}"}))
        );
    }
    let finish = &events[events.len() - 2]["choices"][0];
    assert_eq!(finish["finish_reason"], "tool_calls");
    let entries = events.iter().filter_map(|event| event["choices"][0]["logprobs"]["content"].as_array());
    assert_eq!(entries.flatten().count(), 4, "each token once");
}

#[tokio::test]
async fn stream_has_choices_and_text_completions() {
    let server = TestServer::new(Scripted::new(vec![Ok(said(&["a"])), Ok(said(&["b"]))])).await;
    let events = server.post("/v1/chat/completions", &body(json!({"n": 2}))).await.events().await;
    let mut said: Vec<(u64, &str)> = events
        .iter()
        .filter_map(|event| {
            let choice = &event["choices"][0];
            Some((choice["index"].as_u64()?, choice["delta"]["content"].as_str()?))
        })
        .filter(|(_, text)| !text.is_empty())
        .collect();
    said.sort_unstable();
    assert_eq!(said, [(0, "a"), (1, "b")]);
    let text = json!({"prompt": "x", "stream": true, "stop": "bc"});
    let server = TestServer::new(Scripted::new(vec![Ok(self::said(&["ab", "cd"]))])).await;
    let events = server.post("/v1/completions", &text).await.events().await;
    let text: String = events.iter().filter_map(|event| event["choices"][0]["text"].as_str()).collect();
    assert_eq!(text, "a");
    assert_eq!(events[events.len() - 2]["choices"][0]["finish_reason"], "stop");
    assert_eq!(server.policy.dropped.load(std::sync::atomic::Ordering::SeqCst), 1, "sampling has stopped");
}

#[tokio::test]
async fn filtered_and_too_long_answers_are_recorded() {
    let filtered = vec![token("a"), Say::End(FinishReason::ContentFilter)];
    let too_long = vec![token("a"), Say::Fail(BackendError::NoRoom("9 of 8 tokens".to_owned()))];
    let server = TestServer::new(Scripted::new(vec![Ok(filtered), Ok(too_long)])).await;
    let events = server.post("/v1/chat/completions", &body(json!({}))).await.events().await;
    assert_eq!(events[events.len() - 2]["choices"][0]["finish_reason"], "content_filter");
    let mut other = body(json!({}));
    other["messages"][0]["content"] = "another".into();
    let events = server.post("/v1/chat/completions", &other).await.events().await;
    let error = &events.last().unwrap()["error"];
    assert_eq!(
        (&error["code"], &error["message"]),
        (&json!("context_length_exceeded"), &json!("9 of 8 tokens"))
    );
    let turns = server.turns().await;
    assert_eq!(turns[0].requests[0].answers[0].finish_reason, "content_filter");
    assert_eq!(turns[1].requests[0].reason.as_deref(), Some("9 of 8 tokens"));
}

#[tokio::test]
async fn quiet_stream_gets_comments() {
    let server = TestServer::with(
        Scripted::new(vec![Ok(vec![Say::Gate, token("a"), Say::Gate, Say::End(FinishReason::Stop)])]),
        |settings| {
            settings.keep_alive = Duration::from_millis(5);
            settings.begin_grace = Duration::from_millis(5);
        },
    );
    let server = server.await;
    let mut answer = server.post("/v1/chat/completions", &body(json!({}))).await;
    // Before its start, and in the middle.
    assert_eq!(answer.piece().await.unwrap(), ": keepalive\n\n");
    server.policy.gate.add_permits(1);
    let mut piece = answer.piece().await.unwrap();
    while !piece.contains("\"a\"") {
        piece = answer.piece().await.unwrap();
    }
    assert_eq!(answer.piece().await.unwrap(), ": keepalive\n\n");
    server.policy.gate.add_permits(1);
    assert_eq!(answer.events().await.last(), Some(&json!("[DONE]")));
}

#[tokio::test]
async fn early_error_has_a_status_later_one_is_an_event() {
    let error = BackendError::Unavailable { message: "later".to_owned(), retry_after: None };
    let answers = vec![Err(error.clone()), Ok(vec![token("a"), Say::Fail(error.clone())])];
    let server = TestServer::new(Scripted::new(answers)).await;
    assert_eq!(server.post("/v1/chat/completions", &body(json!({}))).await.status, 503);
    let answer = server.post("/v1/chat/completions", &body(json!({}))).await;
    assert_eq!(answer.status, 200);
    let events = answer.events().await;
    assert_eq!(events.last().unwrap()["error"]["code"], "model_unavailable");
    assert_eq!(server.turns().await[0].line.state, "unanswered");
}

#[tokio::test]
async fn disconnect_ends_the_answer() {
    let policy = Scripted::new(vec![Ok(vec![token("a"), Say::Gate, Say::End(FinishReason::Stop)])]);
    let server = TestServer::with(policy, |settings| settings.keep_alive = Duration::from_millis(5)).await;
    let mut answer = server.post("/v1/chat/completions", &body(json!({}))).await;
    while !answer.piece().await.unwrap().contains("\"a\"") {}
    drop(answer);
    server.policy.one_dropped().await;
    // The answer is dropped before it is recorded; calls of the recorder run in order.
    let mut state = server.turns().await[0].requests[0].clone();
    while state.state == "waiting" {
        tokio::task::yield_now().await;
        state = server.turns().await[0].requests[0].clone();
    }
    assert_eq!((state.state.as_str(), state.reason.as_deref()), ("failed", Some("the client disconnected")));

    // The same for a client that waits for the whole answer.
    let mut whole = body(json!({"stream": false}));
    whole["messages"][0]["content"] = "again".into();
    let request = super::client::request(
        "POST",
        "/v1/chat/completions",
        &server.host(),
        &[("Authorization", "Bearer one")],
        whole.to_string().as_bytes(),
    );
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut stream = stream;
    tokio::io::AsyncWriteExt::write_all(&mut stream, &request).await.unwrap();
    while server.policy.asks.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    drop(stream);
    server.policy.one_dropped().await;
}

#[tokio::test]
async fn client_that_does_not_read_is_disconnected() {
    // More than pipes and queues hold.
    let long = "x".repeat(1 << 16);
    let says = std::iter::repeat_n(token(&long), 1_000).chain([Say::End(FinishReason::Stop)]).collect();
    let server = TestServer::with(Scripted::new(vec![Ok(says)]), |settings| {
        settings.stall = Duration::from_millis(50)
    })
    .await;
    let answer = server.post("/v1/chat/completions", &body(json!({}))).await;
    server.policy.one_dropped().await;
    let mut request = server.turns().await[0].requests[0].clone();
    while request.state == "waiting" {
        tokio::task::yield_now().await;
        request = server.turns().await[0].requests[0].clone();
    }
    assert_eq!(request.reason.as_deref(), Some("the client disconnected"));
    drop(answer);
}
