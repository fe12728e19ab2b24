//! Responses that succeed, at once or after retries.

use clawrl_core::{
    ActionFormat, FinishReason, Message, Prices, RemoteDialect, Role, TokenSource, ToolCall, UsageSource,
};
use serde_json::{Value, json};

use crate::stage::{KEY, Turn, ask, policy, settings};
use crate::stub::{Answer, Stub};

#[tokio::test]
async fn a_request_says_what_the_settings_say() {
    let stub = Stub::start(|_| Answer::said("ls")).await;
    let mut settings = settings(&stub);
    settings.sampling.temperature_milli = Some(700);
    settings.sampling.seed = true;
    settings.sampling.stop = vec!["\n\n".to_owned()];
    settings.headers.insert("x-team".to_owned(), "red".to_owned());
    settings.body.insert("top_k".to_owned(), json!(20));
    let action = ask(&policy(settings)).await.unwrap();
    assert_eq!((action.text.as_str(), action.finish), ("ls", FinishReason::Stop));
    let asked = &stub.asked()[0];
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(asked.headers["x-team"], "red");
    for (field, expected) in [
        ("model", json!("m")),
        ("temperature", json!(0.7)),
        ("max_tokens", json!(4096)),
        ("stop", json!(["\n\n"])),
        ("top_k", json!(20)),
        ("stream", json!(true)),
        ("stream_options", json!({"include_usage": true})),
    ] {
        assert_eq!(asked.body[field], expected, "{field}");
    }
    assert!(asked.body["seed"].is_u64() && asked.body.get("tools").is_none());
    let roles: Vec<&Value> =
        asked.body["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["system", "user"]);
    let system = asked.body["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("the word submit"), "{system}");
}

#[tokio::test]
async fn tool_calls_come_in_pieces_and_go_back_whole() {
    let call = |index: u64, rest: Value| {
        let mut call = json!({"index": index});
        call.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    };
    let stub = Stub::start(move |_| {
        Answer::events(&[
            call(0, json!({"id": "a", "type": "function", "function": {"name": "run", "arguments": ""}})),
            call(0, json!({"function": {"arguments": "{\"comm"}})),
            call(0, json!({"function": {"arguments": "and\": \"ls\"}"}})),
            call(1, json!({"id": "b", "function": {"name": "submit", "arguments": "{}"}})),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}),
        ])
    })
    .await;
    let policy = policy(settings(&stub));
    let first = Turn { format: ActionFormat::ToolCalls, ..Turn::default() };
    let action = first.ask(&policy).await.unwrap();
    let id = |id: &str, call: ToolCall| ToolCall { id: id.to_owned(), ..call };
    let calls = [
        id("a", ToolCall::new("run", json!({"command": "ls"}))),
        id("b", ToolCall::new("submit", json!({}))),
    ];
    assert_eq!(action.tool_calls, calls);
    assert_eq!(action.usage.unwrap().notes, ["usage-missing"]);
    let asked = &stub.asked()[0].body;
    assert_eq!(asked["tools"][0]["function"]["name"], "run");
    assert_eq!(asked["messages"].as_array().unwrap().len(), 1, "tools explain themselves");

    let mut reply = Message::text(Role::Assistant, "");
    reply.parts.clear();
    reply.tool_calls = calls.to_vec();
    let mut answer = Message::text(Role::Tool, "a b");
    answer.tool_call_id = Some("a".to_owned());
    let conversation = [Message::text(Role::User, "Do it."), reply, answer];
    let second = Turn { format: ActionFormat::ToolCalls, conversation: &conversation, ..Turn::default() };
    second.ask(&policy).await.unwrap();
    let messages = &stub.asked()[1].body["messages"];
    let sent = &messages[1]["tool_calls"][0];
    assert_eq!((&sent["id"], &sent["function"]["arguments"]), (&json!("a"), &json!("{\"command\":\"ls\"}")));
    assert_eq!(messages[2], json!({"role": "tool", "tool_call_id": "a", "content": "a b"}));
}

#[tokio::test]
async fn characters_may_be_cut_anywhere() {
    let text = json!({"choices": [{"index": 0, "delta": {"content": "größe 🦀"}, "finish_reason": "stop"}]});
    let bytes = format!("data: {text}\r\n\r\ndata: [DONE]\r\n\r\n").into_bytes();
    let stub = Stub::start(move |_| Answer::pieces(&bytes.chunks(1).collect::<Vec<_>>())).await;
    assert_eq!(ask(&policy(settings(&stub))).await.unwrap().text, "größe 🦀");
}

#[tokio::test]
async fn exact_tokens_where_they_are_whole() {
    let piece = |text: &str, id: u32, logprob: f64| {
        let content = json!([{"token": text, "logprob": logprob}]);
        json!({"choices": [{"index": 0, "delta": {"content": text}, "token_ids": [id], "logprobs": {"content": content}}]})
    };
    let stub = Stub::start(move |asked| {
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]});
        let tokens = if asked.number == 0 { 2 } else { 3 };
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": tokens}});
        Answer::events(&[piece("l", 7, -0.5), piece("s", 8, -0.25), end, usage])
    })
    .await;
    let mut settings = settings(&stub);
    settings.exact_tokens = Some(TokenSource::Vllm);
    let policy = policy(settings);
    let action = ask(&policy).await.unwrap();
    let tokens = action.tokens.unwrap();
    assert_eq!((tokens.ids, tokens.logprobs), (vec![7, 8], vec![-0.5, -0.25]));
    assert_eq!(action.finish, FinishReason::Length);
    assert_eq!(action.usage.unwrap().source, UsageSource::Reported);
    let asked = &stub.asked()[0].body;
    assert_eq!((&asked["logprobs"], &asked["return_token_ids"]), (&json!(true), &json!(true)));
    // The server counts one more than it gave: these are not all.
    let action = ask(&policy).await.unwrap();
    let usage = action.usage.unwrap();
    assert_eq!((action.tokens, usage.source, usage.output_tokens), (None, UsageSource::Reported, 3));
    assert_eq!(usage.notes, ["tokens-missing"]);
}

#[tokio::test]
async fn usage_is_priced_and_lies_are_noted() {
    let stub = Stub::start(|asked| {
        let usage = match asked.number {
            0 => json!({"prompt_tokens": 60, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 40}}),
            1 => json!({"prompt_tokens": 60, "completion_tokens": 5_000_000}),
            2 => json!({"prompt_tokens": -60, "completion_tokens": 2}),
            3 => json!({"prompt_tokens": 60, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 61}}),
            _ => json!(null),
        };
        Answer::events(&[
            json!({"choices": [{"index": 0, "delta": {"content": "ls -l"}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": usage}),
        ])
    })
    .await;
    let mut settings = settings(&stub);
    settings.prices = Some(Prices { input: 1_000_000, cached_input: 500_000, output: 4_000_000 });
    let policy = policy(settings);
    let honest = ask(&policy).await.unwrap().usage.unwrap();
    assert_eq!((honest.source, honest.cost_nano_usd), (UsageSource::Reported, Some(20_000 + 20_000 + 8_000)));
    for note in ["usage-impossible", "usage-impossible", "usage-impossible", "usage-missing"] {
        let usage = ask(&policy).await.unwrap().usage.unwrap();
        assert_eq!(
            (usage.source, usage.notes.as_slice()),
            (UsageSource::Estimated, [note.to_owned()].as_slice())
        );
        assert_eq!(usage.output_tokens, 2, "five bytes");
        let bytes = stub.asked()[0].body.to_string().len() as u64;
        assert_eq!(usage.input_tokens, bytes.div_ceil(4));
    }
}

#[tokio::test]
async fn a_whole_answer_is_as_good() {
    let stub = Stub::start(|_| {
        let message = json!({"role": "assistant", "content": "submit"});
        let usage = json!({"prompt_tokens": 60, "completion_tokens": 1});
        Answer::json(
            "200 OK",
            &json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}),
        )
    })
    .await;
    let mut settings = settings(&stub);
    settings.stream = false;
    let action = ask(&policy(settings)).await.unwrap();
    assert_eq!((action.text.as_str(), action.usage.unwrap().source), ("submit", UsageSource::Reported));
    assert!(stub.asked()[0].body.get("stream_options").is_none());
}

#[tokio::test]
async fn the_key_is_struck_out_of_replies() {
    let stub = Stub::start(|_| Answer::said(&format!("echo {KEY}"))).await;
    let action = ask(&policy(settings(&stub))).await.unwrap();
    assert_eq!(action.text, "echo [key]");
    assert_eq!(action.usage.unwrap().notes, ["key-struck-out"]);
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    let stub = Stub::start(|_| Answer::said("ls")).await;
    let policy = clawrl_remote::RemotePolicy::new(settings(&stub), None).unwrap();
    ask(&policy).await.unwrap();
    assert!(!stub.asked()[0].headers.contains_key("authorization"));
    assert_eq!(settings(&stub).dialect, RemoteDialect::Openai);
}
