//! Whole answers, and their records.

use clawrl_gateway::{BackendError, Prompt};
use serde_json::{Value, json};

use super::scripted::{Say, Scripted, said};
use super::test_server::TestServer;

fn chat(settings: Value) -> Value {
    let mut body =
        json!({"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]});
    body.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    body
}

fn tool() -> Value {
    json!({"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}})
}

#[tokio::test]
async fn whole_answer_is_sent_and_recorded() {
    let server = TestServer::new(Scripted::new(vec![Ok(said(&["Hel", "lo", "."]))])).await;
    let answer = server.post("/v1/chat/completions", &chat(json!({"seed": 5}))).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let answer = answer.json().await;
    let id = answer["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap().to_owned();
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!((&answer["model"], &answer["system_fingerprint"]), (&json!("policy"), &json!("v7")));
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": "Hello.", "refusal": null}, "logprobs": null, "finish_reason": "stop"});
    assert_eq!(answer["choices"], json!([choice]));
    assert_eq!(answer["usage"], json!({"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}));

    let turns = server.turns().await;
    let [turn] = turns.as_slice() else { panic!("{turns:?}") };
    assert_eq!((turn.line.kind.as_str(), turn.line.state.as_str()), ("main", "answered"));
    let [request] = turn.requests.as_slice() else { panic!("{turn:?}") };
    assert_eq!((request.request.to_string(), request.state.as_str()), (id, "answered"));
    assert_eq!(
        (request.prompt_ids.as_slice(), request.prompt_tokens, request.completion_tokens),
        ([1, 2, 3].as_slice(), Some(3), Some(3))
    );
    let [recorded] = request.answers.as_slice() else { panic!("{request:?}") };
    assert_eq!(
        (recorded.text.as_deref(), recorded.sampled_ids.as_slice()),
        (Some("Hello."), [0, 1, 2].as_slice())
    );
    assert_eq!((recorded.logprobs.as_slice(), &recorded.versions), ([-0.5; 3].as_slice(), &json!([[0, 7]])));
    assert_eq!((recorded.exact, recorded.seed, recorded.temperature), (true, Some(5), Some(0.7)));
}

#[tokio::test]
async fn next_request_links_to_the_answer() {
    let answers = vec![Ok(said(&["One"])), Ok(said(&["Two"]))];
    let server = TestServer::new(Scripted::new(answers)).await;
    server.post("/v1/chat/completions", &chat(json!({}))).await.json().await;
    let next = json!({"messages": [
        {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "One"}, {"role": "user", "content": "No, two"}]});
    server.post("/v1/chat/completions", &next).await.json().await;
    let turns = server.turns().await;
    assert_eq!(turns.len(), 2);
    let state = turns[0].next_state.as_ref().unwrap();
    assert_eq!((state.request, &state.messages), (turns[1].requests[0].request, &json!([[2, "user", null]])));
}

#[tokio::test]
async fn answer_with_calls_reasoning_and_choices() {
    let call = "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}</tool_call>";
    let answers = vec![Ok(said(&["<think>", "hm</think>", "Look: ", call])), Ok(said(&["No."]))];
    let server = TestServer::new(Scripted::new(answers)).await;
    let answer =
        server.post("/v1/chat/completions", &chat(json!({"n": 2, "tools": [tool()]}))).await.json().await;
    let [first, second] = answer["choices"].as_array().unwrap().as_slice() else { panic!("{answer}") };
    let message = &first["message"];
    assert_eq!((&message["content"], &message["reasoning_content"]), (&json!("Look:"), &json!("hm")));
    assert_eq!(
        message["tool_calls"][0]["function"],
        json!({"name": "read", "arguments": "{\"path\":\"a\"}"})
    );
    let id = message["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() <= 40 && id.chars().all(|char| char.is_ascii_alphanumeric()), "{id}");
    assert_eq!((&first["finish_reason"], &second["finish_reason"]), (&json!("tool_calls"), &json!("stop")));
    assert_eq!(second["message"]["content"], "No.");
    assert_eq!(answer["usage"], json!({"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}));
    let asks = server.policy.asks.lock().unwrap();
    assert_ne!(asks[0].sampling.seed, asks[1].sampling.seed);
}

#[tokio::test]
async fn answer_that_cannot_be_trained_has_a_reason() {
    let server = TestServer::new(Scripted::new(vec![Ok(said(&["a"]))])).await;
    for (settings, why) in [
        (json!({"temperature": 0}), "greedy"),
        (json!({"top_p": 0.5}), "truncated"),
        (json!({"top_k": 4}), "truncated"),
    ] {
        let mut body = chat(settings);
        body["messages"][1]["content"] = why.into();
        server.post("/v1/chat/completions", &body).await.json().await;
        let turn = server.turns().await.pop().unwrap();
        let answer = &turn.requests.last().unwrap().answers[0];
        assert!(!answer.exact && answer.inexact.as_ref().unwrap().contains(why), "{answer:?}");
    }
}

#[tokio::test]
async fn text_completions_are_not_recorded() {
    let server = TestServer::new(Scripted::new(vec![Ok(said(&["a", "b"]))])).await;
    let answer = server.post("/v1/completions", &json!({"prompt": "x", "logprobs": 0})).await.json().await;
    assert_eq!((&answer["object"], &answer["choices"][0]["text"]), (&json!("text_completion"), &json!("ab")));
    assert_eq!(answer["choices"][0]["logprobs"]["tokens"], json!(["a", "b"]));
    assert_eq!(answer["choices"][0]["logprobs"]["token_logprobs"], json!([-0.5, -0.5]));
    let answer = server.post("/v1/completions", &json!({"prompt": [[4, 5], "y"], "n": 2})).await.json().await;
    assert_eq!(answer["choices"].as_array().unwrap().len(), 4);
    let prompts: Vec<Prompt> =
        server.policy.asks.lock().unwrap().iter().skip(1).map(|ask| ask.prompt.clone()).collect();
    let (ids, text) = (Prompt::Ids(vec![4, 5]), Prompt::Text("y".to_owned()));
    assert_eq!(prompts, [ids.clone(), ids, text.clone(), text]);
    assert!(server.sessions().await.is_empty());
    for wrong in [
        json!({}),
        json!({"prompt": []}),
        json!({"prompt": [1, "a"]}),
        json!({"prompt": {"a": 1}}),
        json!({"prompt": [-1]}),
    ] {
        let refused = server.post("/v1/completions", &wrong).await;
        assert_eq!(refused.status, 400);
        assert_eq!(refused.json().await["error"]["param"], "prompt");
    }
}

#[tokio::test]
async fn failures_have_a_status_and_are_recorded() {
    let unavailable = BackendError::Unavailable {
        message: "later".to_owned(),
        retry_after: Some(std::time::Duration::from_secs(3)),
    };
    let failures = [
        (BackendError::TooLong { tokens: 9, limit: 5 }, 400, "context_length_exceeded"),
        (unavailable, 503, "model_unavailable"),
        (BackendError::Broken("a secret of ours".to_owned()), 500, "internal_error"),
    ];
    for (error, status, code) in failures {
        let in_the_middle = Ok(vec![Say::Token("a".to_owned()), Say::Fail(error.clone())]);
        let server = TestServer::new(Scripted::new(vec![Err(error), in_the_middle])).await;
        for place in ["at the beginning", "in the middle"] {
            let answer = server.post("/v1/chat/completions", &chat(json!({}))).await;
            assert_eq!(answer.status, status, "{place}");
            if status == 503 {
                assert_eq!(answer.header("retry-after"), Some("3"));
            }
            let answer = answer.json().await;
            assert_eq!(answer["error"]["code"], code, "{place}");
            assert!(!answer.to_string().contains("secret"));
        }
        let turns = server.turns().await;
        // The second request repeats the first, which has no answer.
        let states: Vec<&str> = turns[0].requests.iter().map(|request| request.state.as_str()).collect();
        assert_eq!((turns.len(), states), (1, vec!["failed", "failed"]));
    }
}

#[tokio::test]
async fn models_and_health() {
    let server = TestServer::new(Scripted::new(vec![Ok(said(&["a"]))])).await;
    let models = server.get("/v1/models").await.json().await;
    assert_eq!(models["object"], "list");
    assert_eq!(
        models["data"][0],
        json!({"id": "policy", "object": "model", "created": 0, "owned_by": "clawrl", "policy_version": 7, "max_model_len": 64})
    );
    assert_eq!(server.get("/v1/models/other").await.json().await["id"], "other");
    let unknown = server.get("/v1/models/gpt").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json().await["error"]["code"], "model_not_found");
    let unknown = server.post("/v1/chat/completions", &chat(json!({"model": "gpt"}))).await;
    assert_eq!(unknown.status, 404);
    assert_eq!(
        unknown.json().await["error"]["message"],
        "there is no model `gpt`; there is `policy`, `other`"
    );
    server.post("/v1/chat/completions", &chat(json!({"model": "other"}))).await.json().await;
    assert_eq!(server.get("/healthz").await.json().await, json!({"status": "ok"}));
    assert_eq!(server.get("/readyz").await.json().await, json!({"status": "ready"}));
    let metrics = server.get("/metrics").await.text().await;
    for line in [
        "gateway_answers_count 1",
        "gateway_sampled_tokens_count 1",
        "gateway_refused_count 2",
        "gateway_running_count 0",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}\n{metrics}");
    }
}
