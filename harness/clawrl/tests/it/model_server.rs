//! A server with a scripted model that solves the suite `small`. Listens on loopback; dropping it ends it.
//!
//! Every connection has a thread that ends with it; the end of the server closes all connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// Interval of keep-alive comments.
const PAUSE: Duration = Duration::from_millis(20);

/// Behaviour of a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Manner {
    /// Accepted key; empty: any.
    pub(crate) key: String,
    /// Number of replies after which it dies in the middle of one.
    pub(crate) dies_after: Option<usize>,
    /// If set, replies start with this text and then contain only keep-alive comments until the client disconnects.
    pub(crate) hangs_after: Option<&'static str>,
    /// Whether it returns token ids, one per piece, if requested in vLLM's format.
    pub(crate) tells_tokens: bool,
    /// Context length that its model list reports, tokens.
    pub(crate) reads: Option<u64>,
    /// Whether its judge replies contain no vote.
    pub(crate) babbles: bool,
}

struct Shared {
    manner: Manner,
    replies: AtomicUsize,
    dead: AtomicBool,
    connections: Mutex<Vec<TcpStream>>,
    died: SyncSender<()>,
    address: SocketAddr,
}

/// The server.
pub(crate) struct ModelServer {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
    death: Receiver<()>,
}

impl ModelServer {
    /// Starts on a free port.
    pub(crate) fn start(manner: Manner) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), manner)
    }

    /// Starts on this address.
    pub(crate) fn start_at(address: SocketAddr, manner: Manner) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        // One slot, since the test may not wait for the death.
        let (died, death) = sync_channel(1);
        let shared = Arc::new(Shared {
            manner,
            replies: AtomicUsize::new(0),
            dead: AtomicBool::new(false),
            connections: Mutex::default(),
            died,
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
            // From here on, the port refuses connections.
            drop(listener);
            serving
                .connections
                .lock()
                .unwrap()
                .iter()
                .for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
            threads.into_iter().for_each(|thread| drop(thread.join()));
            let _ = serving.died.try_send(());
        });
        Self { shared, accepting: Some(accepting), death }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.shared.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.shared.address
    }

    pub(crate) fn replies(&self) -> usize {
        self.shared.replies.load(Ordering::SeqCst)
    }

    /// Waits until it has died as configured: the port is closed and every connection is cut.
    pub(crate) fn wait_for_death(&self) {
        self.death.recv().unwrap();
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        kill(&self.shared);
        self.accepting.take().map(JoinHandle::join);
    }
}

/// This connection wakes the accepting thread.
fn kill(shared: &Shared) {
    if !shared.dead.swap(true, Ordering::SeqCst) {
        let _ = TcpStream::connect(shared.address);
    }
}

/// Answers until the connection ends.
fn serve(stream: TcpStream, shared: &Shared) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((path, key, body)) = read_request(&mut reader) {
        let wanted = format!("Bearer {}", shared.manner.key);
        let answer = if !shared.manner.key.is_empty() && key != wanted {
            json_answer("401 Unauthorized", &json!({"error": {"message": format!("what is {key}?")}}))
        } else if path == "/v1/models" {
            json_answer("200 OK", &json!({"data": [{"id": "able", "max_model_len": shared.manner.reads}]}))
        } else if path != "/v1/chat/completions" {
            json_answer("404 Not Found", &json!({"detail": "Not Found"}))
        } else if body["model"] != "able" {
            json_answer("404 Not Found", &json!({"error": {"message": "no such model"}}))
        } else {
            let number = shared.replies.fetch_add(1, Ordering::SeqCst);
            let call = demanded_call(&body).or_else(|| scripted_call(&body));
            let said = match (&call, shared.manner.babbles) {
                (Some(_), _) => String::new(),
                (None, true) => "It depends.".to_owned(),
                (None, false) => reply(&body),
            };
            let tokens = shared.manner.tells_tokens && body["return_token_ids"] == true;
            let events = match call {
                Some((name, arguments)) => call_events(number, name, &arguments),
                None if tokens => exact_events(&said),
                None => events(&said),
            };
            if let Some(beginning) = shared.manner.hangs_after {
                let mut wanted = stream.write_all(format!("{}{beginning}", head()).as_bytes());
                while wanted.is_ok() {
                    std::thread::sleep(PAUSE); // timer: comments come in intervals
                    wanted = stream.write_all(b": ping\n\n");
                }
                return;
            }
            if shared.manner.dies_after.is_some_and(|last| number >= last) {
                let _ = stream.write_all(head().as_bytes());
                let _ = stream.write_all(&events.as_bytes()[..events.len() / 2]);
                return kill(shared);
            }
            format!("{}{events}", head())
        };
        // A stream without length ends with the connection.
        if stream.write_all(answer.as_bytes()).is_err() || path.ends_with("completions") {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn head() -> String {
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n".to_owned()
}

fn json_answer(status: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn events(text: &str) -> String {
    let (start, end) = text.split_at(text.len() / 2);
    let delta = |text: &str| json!({"choices": [{"index": 0, "delta": {"content": text}}]});
    let stop = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 8}});
    let events = [delta(start), delta(end), stop, usage].map(|event| format!("data: {event}\n\n"));
    events.concat() + "data: [DONE]\n\n"
}

/// The events of a tool call.
fn call_events(number: usize, name: &str, arguments: &Value) -> String {
    let function = json!({"name": name, "arguments": arguments.to_string()});
    let call = json!({"index": 0, "id": format!("call-{number}"), "type": "function", "function": function});
    let delta = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
    let stop = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 8}});
    let events = [delta, stop, usage].map(|event| format!("data: {event}\n\n"));
    events.concat() + "data: [DONE]\n\n"
}

/// The call that the request demands, with minimal arguments for the tool's schema.
fn demanded_call(body: &Value) -> Option<(&str, Value)> {
    let tools = body["tools"].as_array()?;
    let function = match &body["tool_choice"] {
        Value::String(choice) if choice == "required" => &tools.first()?["function"],
        choice => {
            let wanted = choice["function"]["name"].as_str()?;
            &tools.iter().find(|tool| tool["function"]["name"] == wanted)?["function"]
        }
    };
    Some((function["name"].as_str()?, least(&function["parameters"])))
}

/// A minimal value for a schema.
fn least(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            required.map(|key| (key.to_owned(), least(&schema["properties"][key]))).collect()
        }
        Some("array") => json!([least(&schema["items"])]),
        Some("string") => json!("text"),
        Some("integer" | "number") => json!(7),
        _ => Value::Null,
    }
}

/// The model's tool call: with a shell, the command and then `done`; otherwise it asks for a price and submits the
/// result.
fn scripted_call(body: &Value) -> Option<(&str, Value)> {
    let tools = body["tools"].as_array()?;
    let has = |name: &str| tools.iter().any(|tool| tool["function"]["name"] == name);
    if has("run") {
        return Some(match command(body) {
            Some(command) => ("run", json!({ "command": command })),
            None => ("submit", json!({})),
        });
    }
    let messages = body["messages"].as_array()?;
    let last = messages.last()?;
    let text = last["content"].as_str()?;
    if last["role"] == "tool" && has("submit") {
        let price = text.split_whitespace().last().unwrap_or_default();
        return Some(("submit", json!({"answer": price})));
    }
    let thing = text.lines().next()?.strip_prefix("What does ")?.strip_suffix(" cost")?;
    has("price").then(|| ("price", json!({"key": thing})))
}

/// The events of a reply with token ids.
fn exact_events(text: &str) -> String {
    let (start, end) = text.split_at(text.len() / 2);
    let token = |id: u32, text: &str| {
        let logprobs = json!({"content": [{"token": text, "logprob": -0.5}]});
        json!({"choices": [{"index": 0, "delta": {"content": text}, "token_ids": [id], "logprobs": logprobs}]})
    };
    let begun =
        json!({"prompt_token_ids": [1, 2, 3], "choices": [{"index": 0, "delta": {"role": "assistant"}}]});
    let stop = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}});
    let events =
        [begun, token(4, start), token(5, end), stop, usage].map(|event| format!("data: {event}\n\n"));
    events.concat() + "data: [DONE]\n\n"
}

/// The command that a task asks for, without the following text.
fn command(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array().unwrap();
    if messages.iter().any(|message| message["role"] == "assistant") {
        return None;
    }
    let task = messages.last().unwrap()["content"].as_str().unwrap();
    let word = task.strip_prefix("Write ").and_then(|rest| rest.split(' ').next()).unwrap_or("nothing");
    Some(format!("echo {word} > out.txt"))
}

/// The model's reply: the command, then `done`. If the prompt mentions code blocks, the reply is a block with text
/// around it, as chat models write it.
fn reply(body: &Value) -> String {
    let format = &body["response_format"];
    if format["type"] == "json_schema" {
        return least(&format["json_schema"]["schema"]).to_string();
    }
    let messages = body["messages"].as_array().unwrap();
    let task = messages.last().unwrap()["content"].as_str().unwrap();
    if task.starts_with("You judge an answer by a rubric.") {
        return vote(body, task);
    }
    if task.starts_with("You judge one reply of an agent") {
        return said_of_a_turn(body, task);
    }
    let action = command(body).unwrap_or_else(|| "submit".to_owned());
    if messages[0]["content"].as_str().unwrap().contains("exactly one block between lines of three backticks")
    {
        return format!("That's what I'd run:\n```bash\n{action}\n```\nIt won't hurt.");
    }
    action
}

/// A judge that finds an answer polite if it contains thanks, and does not vote on one without words.
fn vote(body: &Value, asked: &str) -> String {
    assert_eq!(body["temperature"], 1.0, "{body}");
    let answer = asked.split("\nANSWER ").nth(1).and_then(|rest| rest.split("\nEND ").next()).unwrap();
    let answer = answer.split_once('\n').unwrap().1;
    match answer {
        "..." => "What is there to say?".to_owned(),
        polite if polite.contains("thank") => "It says thanks. \\boxed{1}".to_owned(),
        _ => "No thanks are said. \\boxed{-1}".to_owned(),
    }
}

/// A judge that likes replies of an odd number of bytes and wants the others shorter.
fn said_of_a_turn(body: &Value, asked: &str) -> String {
    assert_eq!(body["temperature"], 1.0, "{body}");
    let reply = asked.split("\nREPLY ").nth(1).and_then(|rest| rest.split("\nEND ").next()).unwrap();
    let (is_good, wants_hint) = (reply.len() % 2 == 1, asked.contains("`HINT:`"));
    match (is_good, wants_hint) {
        (true, false) => "Odd is good. \\boxed{1}".to_owned(),
        (false, false) => "Even is bad. \\boxed{-1}".to_owned(),
        (true, true) => "Nothing to mend. \\boxed{-1}".to_owned(),
        (false, true) => "It was even.\nHINT: Write one letter less.\n\\boxed{1}".to_owned(),
    }
}

/// Path, key and body.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, String, Value)> {
    let mut line = String::new();
    match reader.read_line(&mut line) {
        Ok(0) => return None,
        Ok(_) => {}
        // A TLS handshake is not text; servers without TLS answer like this.
        Err(_) => {
            let _ = reader.get_mut().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            return None;
        }
    }
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => key = value.to_owned(),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?
            }
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, key, serde_json::from_slice(&body).unwrap_or_default()))
}
