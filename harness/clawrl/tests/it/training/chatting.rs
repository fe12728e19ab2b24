//! Chat with a trained policy: by raw requests and by common clients.

use std::path::Path;
use std::sync::Arc;

use clawrl_torch::{
    Chat, Context, ConversationState, Device, Engine, EngineConfig, ModelFiles, ScoreRequest, load_params,
};
use serde_json::{Value, json};

use super::ground::checkpoint;
use super::toolcalls::bells;
use crate::place::Place;
use crate::served::{Served, body_of, client_python};

fn start(place: &Place, model: &Path) -> Served {
    Served::start(place, model.to_str().unwrap(), |_| {})
}

/// Status and JSON body.
fn json_of(served: &Served, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let (status, answer) = served.ask(method, path, body);
    (status, serde_json::from_str(body_of(&answer)).unwrap())
}

fn numbers(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn what_is_recorded_is_what_was_fed_and_sampled() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let served = start(&place, &model);
    let messages = json!([{"role": "system", "content": "Be quick."}, {"role": "user", "content": "Ring the bell, Ada."}]);
    let (status, answer) = json_of(
        &served,
        "POST",
        "/v1/chat/completions",
        &json!({"messages": messages, "seed": 1, "max_tokens": 20}),
    );
    assert_eq!(status, 200);
    let turn = answer["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap().to_owned();
    let (_, turn) = json_of(&served, "GET", &format!("/v1/turns/{turn}"), &Value::Null);
    let request = &turn["requests"][0];
    let (fed, sampled) = (numbers(&request["prompt_ids"]), numbers(&request["answers"][0]["sampled_ids"]));

    let files = ModelFiles::of(&model);
    let chat = Chat::load(&files).unwrap();
    let shown = [
        clawrl_core::Message::text(clawrl_core::Role::System, "Be quick."),
        clawrl_core::Message::text(clawrl_core::Role::User, "Ring the bell, Ada."),
    ];
    let mut state = ConversationState::default();
    let prompt = state.prompt(&chat, Context { messages: &shown, tools: &[] }).unwrap();
    assert_eq!(fed, prompt);
    assert_eq!(request["answers"][0]["text"].as_str().unwrap(), chat.reply_text(&sampled).unwrap());

    let engine =
        Engine::start(EngineConfig::default(), 0, &load_params(&files, Device::Cpu).unwrap()).unwrap();
    let ids: Vec<u32> = fed.iter().chain(&sampled).copied().collect();
    let score = ScoreRequest {
        positions: fed.len()..ids.len(),
        ids: Arc::from(ids),
        temperature: 0.7,
        candidates: Vec::new(),
        top_k: 0,
        adapter: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let truth = runtime.block_on(engine.handle().score(score)).unwrap().logprobs;
    let logprobs: Vec<f32> = serde_json::from_value(request["answers"][0]["logprobs"].clone()).unwrap();
    assert_eq!(logprobs.len(), truth.len());
    for (recorded, truth) in logprobs.iter().zip(&truth) {
        assert!((recorded - truth).abs() < 1e-4, "{logprobs:?} {truth:?}");
    }

    // The record outlives the server, and so does the key.
    served.ends();
    let served = start(&place, &model);
    let (status, sessions) = json_of(&served, "GET", "/v1/sessions", &Value::Null);
    assert_eq!((status, sessions["data"].as_array().unwrap().len()), (200, 1));
}

#[test]
fn what_cannot_be_served_is_refused_before_anything_listens() {
    let place = Place::new();
    let other = place.path().join("other-family");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(
        other.join("config.json"),
        r#"{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}"#,
    )
    .unwrap();
    for (arguments, told) in [
        (vec!["serve", "other-family"], "vllm serve other-family --port 8000\n"),
        (vec!["serve", "other-family"], "clawrl serve openai:other-family --base-url"),
        (vec!["serve", "nowhere"], "there is no file or folder nowhere"),
        (vec!["serve", ".", "--listen", "0.0.0.0:0"], "nothing says by which name"),
        (vec!["serve", ".", "--name", ""], "`--name` is empty"),
        (vec!["serve", "."], "config.json"),
    ] {
        let said = place.clawrl(&arguments).ends(2);
        assert!(said.err.contains(told), "{}", said.err);
    }
}

mod real_clients {
    use super::*;

    /// Python with OpenAI's SDK, where ci/setup.sh has installed it.
    #[test]
    fn openai_s_sdk_holds_a_conversation() {
        let place = bells();
        let served = start(&place, &checkpoint(&place, "bells", 4).join("model"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/clients/openai_sdk.py");
        let output = std::process::Command::new(client_python())
            .args([script, &format!("http://{}/v1", served.address), &served.key])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let turns: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        assert!(turns.len() >= 7 && turns.iter().all(|turn| turn["kind"] == "main"), "{turns:?}");
    }
}
