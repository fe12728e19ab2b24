//! The dialect of Anthropic.

use clawrl_core::{ActionFormat, Message, RemoteDialect, RemoteSpec, Retry, Role, ToolCall, UsageSource};
use serde_json::{Value, json};

use crate::stage::{KEY, Turn, ask, faulted, policy, settings};
use crate::stub::{Answer, Stub};

fn anthropic(stub: &Stub) -> RemoteSpec {
    RemoteSpec { dialect: RemoteDialect::Anthropic, ..settings(stub) }
}

fn stream(events: &[Value]) -> Answer {
    let pieces: Vec<String> = events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
        .collect();
    Answer::pieces(&pieces.iter().map(|piece| piece.as_bytes()).collect::<Vec<_>>())
}

fn called() -> Answer {
    stream(&[
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 30, "cache_read_input_tokens": 20, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I look."}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t1", "name": "run", "input": {}}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"command\":"}}),
        json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "\"ls\"}"}}),
        json!({"type": "ping"}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 12}}),
        json!({"type": "message_stop"}),
    ])
}

#[tokio::test]
async fn calls_and_their_results_go_to_and_fro() {
    let stub = Stub::start(|_| called()).await;
    let policy = policy(anthropic(&stub));
    let first = Turn { format: ActionFormat::ToolCalls, ..Turn::default() };
    let action = first.ask(&policy).await.unwrap();
    let call = ToolCall { id: "t1".to_owned(), ..ToolCall::new("run", json!({"command": "ls"})) };
    assert_eq!((action.text.as_str(), &action.tool_calls), ("I look.", &vec![call.clone()]));
    let usage = action.usage.unwrap();
    assert_eq!(
        (usage.source, usage.input_tokens, usage.cached_tokens, usage.output_tokens),
        (UsageSource::Reported, 50, 20, 12)
    );
    let asked = &stub.asked()[0];
    assert_eq!(asked.path, "/v1/messages");
    assert_eq!(
        (asked.headers["x-api-key"].as_str(), asked.headers["anthropic-version"].as_str()),
        (KEY, "2023-06-01")
    );
    assert!(!asked.headers.contains_key("authorization"));
    assert_eq!(asked.body["tools"][0]["input_schema"]["type"], "object");

    let mut reply = Message::text(Role::Assistant, "I look.");
    reply.tool_calls = vec![call];
    let mut answer = Message::text(Role::Tool, "");
    answer.tool_call_id = Some("t1".to_owned());
    let conversation =
        [Message::text(Role::User, "Do it."), reply, answer, Message::text(Role::User, "And?")];
    Turn { format: ActionFormat::ToolCalls, conversation: &conversation, ..Turn::default() }
        .ask(&policy)
        .await
        .unwrap();
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "Do it."}]},
        {"role": "assistant", "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t1", "name": "run", "input": {"command": "ls"}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t1", "content": "(nothing)"},
            {"type": "text", "text": "And?"},
        ]},
    ]);
    assert_eq!(stub.asked()[1].body["messages"], expected);
}

#[tokio::test]
async fn instructions_stand_apart() {
    let stub = Stub::start(|_| called()).await;
    ask(&policy(anthropic(&stub))).await.unwrap();
    let body = &stub.asked()[0].body;
    assert!(body["system"].as_str().unwrap().contains("submit"));
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_overload_is_waited_out_and_a_refusal_is_not() {
    let error =
        |kind: &str| json!({"type": "error", "error": {"type": kind, "message": format!("no {KEY}")}});
    let overloaded = error("overloaded_error");
    let stub = Stub::start(move |asked| match asked.number {
        0 => Answer::json("529 Overloaded", &overloaded),
        1 => stream(std::slice::from_ref(&overloaded)),
        _ => called(),
    })
    .await;
    assert_eq!(ask(&policy(anthropic(&stub))).await.unwrap().usage.unwrap().retries, 2);
    let refused = error("authentication_error");
    let stub = Stub::start(move |_| Answer::json("401 Unauthorized", &refused)).await;
    let message = faulted(ask(&policy(anthropic(&stub))).await, "key-refused", Retry::Never);
    assert!(message.contains("no [key]"), "{message}");
}
