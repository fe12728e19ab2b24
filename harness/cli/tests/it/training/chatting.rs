//! Chat with a policy that a training left: by hand, and by the clients that people use.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use clawrl_torch::{
    Chat, Context, ConversationState, Device, Engine, EngineConfig, ModelFiles, ScoreRequest, load_params,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::ground::checkpoint;
use super::toolcalls::bells;
use crate::place::{Live, Place};

/// A server that was started as a person does; it ends with this.
struct Served {
    live: Option<Live>,
    base_url: String,
    key: String,
}

impl Served {
    fn start(place: &Place, model: &Path) -> Self {
        let mut live = place.start(&["serve", model.to_str().unwrap(), "--listen", "127.0.0.1:0"]);
        live.hears("serves the model");
        let (base_url, _) = live.heard().trim_start().split_once(" serves").unwrap();
        let base_url = base_url.to_owned();
        let keys = std::fs::read_to_string(place.results().join("chat/keys")).unwrap();
        let key = keys.lines().find_map(|line| line.strip_prefix("me ")).unwrap().to_owned();
        Self { live: Some(live), base_url, key }
    }

    /// Ends it as a service manager does.
    fn ends(mut self) {
        let live = self.live.take().unwrap();
        live.signal(Signal::TERM);
        assert_eq!(live.ended().code, Some(0));
    }

    /// The answer to a request, whole.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let host = self.base_url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let head = format!(
            "{method} /v1{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            self.key,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let mut status = String::new();
        reader.read_line(&mut status).unwrap();
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        let (_, body) = rest.split_once("\r\n\r\n").unwrap();
        (status.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            live.signal(Signal::KILL);
            live.ended();
        }
    }
}

fn numbers(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn what_is_recorded_is_what_was_fed_and_sampled() {
    let place = bells();
    let model = checkpoint(&place, "bells", 4).join("model");
    let served = Served::start(&place, &model);
    let messages = json!([{"role": "system", "content": "Be quick."}, {"role": "user", "content": "Ring the bell, Ada."}]);
    let (status, answer) =
        served.ask("POST", "/chat/completions", &json!({"messages": messages, "seed": 1, "max_tokens": 20}));
    assert_eq!(status, 200);
    let turn = answer["id"].as_str().unwrap().strip_prefix("chatcmpl-").unwrap().to_owned();
    let (_, turn) = served.ask("GET", &format!("/turns/{turn}"), &Value::Null);
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
    let served = Served::start(&place, &model);
    let (status, sessions) = served.ask("GET", "/sessions", &Value::Null);
    assert_eq!((status, sessions["data"].as_array().unwrap().len()), (200, 1));
}

#[test]
fn what_cannot_be_served_is_refused_before_anything_listens() {
    let place = Place::new();
    for (arguments, told) in [
        (vec!["serve", "nowhere"], "there is no folder nowhere"),
        (vec!["serve", ".", "--listen", "0.0.0.0:0"], "nothing says by which name"),
        (vec!["serve", ".", "--name", ""], "`--name` is empty"),
        (vec!["serve", "."], "config.json"),
    ] {
        let said = place.clawrl(&arguments).ends(2);
        assert!(said.err.contains(told), "{}", said.err);
    }
}

/// Python with OpenAI's SDK, where ci/setup.sh has installed it.
#[cfg(feature = "real-clients")]
#[test]
fn openai_s_sdk_holds_a_conversation() {
    let place = bells();
    let served = Served::start(&place, &checkpoint(&place, "bells", 4).join("model"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(std::path::PathBuf::from);
    let cache =
        cache.unwrap_or_else(|| std::path::PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/clients/openai_sdk.py");
    let output = std::process::Command::new(cache.join("clawrl/mcp/venv/bin/python"))
        .args([script, &served.base_url, &served.key])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let turns: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(turns.len() >= 7 && turns.iter().all(|turn| turn["kind"] == "main"), "{turns:?}");
}
