//! A server with our sampler behind completions that echo their prompt. Listens on loopback; dropping it ends it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use clawrl_torch::{Chat, Device, Engine, EngineConfig, EngineHandle, ModelFiles, ScoreRequest, load_params};
use serde_json::{Value, json};

/// Misbehaviour of the server.
#[derive(Debug, Clone, Default)]
pub(super) struct Habit {
    /// Number of requests after which connections stay open without answers.
    pub(super) silent_after: Option<usize>,
    /// Number of requests after which connections are cut.
    pub(super) cuts_after: Option<usize>,
    /// Number of requests after which log-probabilities are invalid.
    pub(super) babbles_after: Option<usize>,
    /// A token with another text than in our tokenizer.
    pub(super) other_token: Option<(u32, &'static str)>,
    /// Whether the server omits the echo of prompts.
    pub(super) is_mute: bool,
}

struct Shared {
    habit: Habit,
    engine: EngineHandle,
    texts: Vec<String>,
    asked: AtomicUsize,
    /// Received prompts and their counts.
    prompts: Mutex<BTreeMap<Vec<u32>, usize>>,
    dead: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
    address: SocketAddr,
}

/// The server.
pub(super) struct TeacherServer {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
    _engine: Engine,
}

impl TeacherServer {
    /// Serves the model of this folder.
    pub(super) fn start(model: &Path, habit: Habit) -> Self {
        Self::start_at(SocketAddr::from(([127, 0, 0, 1], 0)), model, habit)
    }

    /// Serves the model at an earlier server's address.
    pub(super) fn start_at(address: SocketAddr, model: &Path, habit: Habit) -> Self {
        let files = ModelFiles::of(model);
        let params = load_params(&files, Device::Cpu).unwrap();
        let chat = Chat::load(&files).unwrap();
        let ids = 0..u32::try_from(chat.tokenizer().vocab_size()).unwrap();
        let mut texts: Vec<String> =
            ids.map(|id| chat.tokenizer().token_text(id).unwrap_or_default()).collect();
        if let Some((id, text)) = habit.other_token {
            texts[id as usize] = text.to_owned();
        }
        let engine = Engine::start(EngineConfig::default(), 0, &params).unwrap();
        let listener = TcpListener::bind(address).unwrap();
        let shared = Arc::new(Shared {
            habit,
            engine: engine.handle(),
            texts,
            asked: AtomicUsize::new(0),
            prompts: Mutex::default(),
            dead: AtomicBool::new(false),
            connections: Mutex::default(),
            address: listener.local_addr().unwrap(),
        });
        let serving = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || {
            let mut threads = Vec::new();
            while let Ok((stream, _)) = listener.accept()
                && !serving.dead.load(Ordering::SeqCst)
            {
                serving.connections.lock().unwrap().push(stream.try_clone().unwrap());
                let shared = Arc::clone(&serving);
                threads.push(std::thread::spawn(move || serve(stream, &shared)));
            }
            let connections = serving.connections.lock().unwrap();
            connections.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
            drop(connections);
            threads.into_iter().for_each(|thread| drop(thread.join()));
        });
        Self { shared, accepting: Some(accepting), _engine: engine }
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// A policy file for the server, with additional lines.
    pub(super) fn policy_file(&self, more: &str) -> String {
        let address = self.shared.address;
        format!("format: 1\nmodel: wise\nbase_url: http://{address}/v1\nkey_env: none\n{more}")
    }

    /// Requests so far.
    pub(super) fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Tokens of each prompt received.
    pub(super) fn prompts(&self) -> Vec<Vec<u32>> {
        self.shared.prompts.lock().unwrap().keys().cloned().collect()
    }
}

impl Drop for TeacherServer {
    fn drop(&mut self) {
        self.shared.dead.store(true, Ordering::SeqCst);
        // This connection wakes the accepting thread.
        let _ = TcpStream::connect(self.shared.address);
        self.accepting.take().map(JoinHandle::join);
    }
}

fn serve(stream: TcpStream, shared: &Shared) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((path, body)) = read_request(&mut reader) {
        let number = shared.asked.fetch_add(1, Ordering::SeqCst);
        let is_past = |limit: Option<usize>| limit.is_some_and(|limit| number >= limit);
        if is_past(shared.habit.cuts_after) {
            break;
        }
        if is_past(shared.habit.silent_after) {
            // Waits until the client disconnects.
            let _ = reader.read(&mut [0; 1]);
            break;
        }
        let (status, answer) = match path.as_str() {
            "/v1/completions" => ("200 OK", completion(&body, shared, is_past(shared.habit.babbles_after))),
            _ => ("404 Not Found", json!({"detail": "Not Found"})),
        };
        let text = answer.to_string();
        let length = text.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        );
        if stream.write_all((head + &text).as_bytes()).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

/// The prompt and one new token with log-probabilities.
fn completion(body: &Value, shared: &Shared, babbles: bool) -> Value {
    let wanted = [
        ("model", json!("wise")),
        ("echo", json!(true)),
        ("temperature", json!(1.0)),
        ("max_tokens", json!(1)),
    ];
    wanted.iter().for_each(|(key, value)| assert_eq!(&body[key], value, "{body}"));
    assert!(body["logprobs"].as_u64().unwrap() >= 1, "{body}");
    let ids: Vec<u32> = serde_json::from_value(body["prompt"].clone()).unwrap();
    *shared.prompts.lock().unwrap().entry(ids.clone()).or_default() += 1;
    if shared.habit.is_mute {
        return json!({"choices": [{"index": 0, "text": "", "logprobs": null, "finish_reason": "length"}]});
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let request = ScoreRequest {
        positions: 1..ids.len(),
        ids: Arc::from(ids.as_slice()),
        temperature: 1.0,
        candidates: Vec::new(),
        top_k: 0,
        adapter: None,
    };
    let logprobs = match ids.len() {
        1 => Vec::new(),
        _ => runtime.block_on(shared.engine.score(request)).unwrap().logprobs,
    };
    let mut said = vec![Value::Null];
    said.extend(logprobs.iter().map(|logprob| if babbles { json!("likely") } else { json!(logprob) }));
    said.push(json!(-0.5));
    let mut tokens: Vec<&str> = ids.iter().map(|&id| shared.texts[id as usize].as_str()).collect();
    tokens.push("new");
    json!({"choices": [{
        "index": 0,
        "text": tokens.concat(),
        "logprobs": {"tokens": tokens, "token_logprobs": said},
        "finish_reason": "length",
    }]})
}

/// Path and body.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, serde_json::from_slice(&body).unwrap_or_default()))
}
