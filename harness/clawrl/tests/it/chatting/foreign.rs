//! A third-party server with fixed answers for each path. Listens on loopback; dropping it ends its thread.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// The server.
pub(super) struct Foreign {
    address: SocketAddr,
    /// Received request lines, such as `POST /v1/feedback`.
    pub(super) asked: Arc<Mutex<Vec<String>>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Foreign {
    /// Starts a server with answers by path; other paths get FastAPI's 404.
    pub(super) fn start(answers: &[(&str, String)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers: HashMap<String, String> =
            answers.iter().map(|(path, answer)| ((*path).to_owned(), answer.clone())).collect();
        let (asked, is_over) = (Arc::new(Mutex::default()), Arc::new(AtomicBool::new(false)));
        let (seen, over) = (Arc::clone(&asked), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept()
                && !over.load(Ordering::SeqCst)
            {
                serve(stream, &answers, &seen);
            }
        });
        Self { address, asked, is_over, thread: Some(thread) }
    }

    pub(super) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Answers one request.
fn serve(stream: TcpStream, answers: &HashMap<String, String>, asked: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let (mut first, mut length) = (String::new(), 0);
    if reader.read_line(&mut first).is_err() {
        return;
    }
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) < 3 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = value.trim().parse().unwrap();
        }
    }
    let _ = reader.read_exact(&mut vec![0; length]);
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    asked.lock().unwrap().push(format!("{method} {path}"));
    let missing = || json_answer("404 Not Found", "", &json!({"detail": "Not Found"}));
    let answer = answers.get(path).cloned().unwrap_or_else(missing);
    let _ = stream.write_all(answer.as_bytes());
}

/// A model list of a third-party server.
pub(super) fn models() -> (&'static str, String) {
    let list = json!({"object": "list", "data": [{"id": "llama", "object": "model", "owned_by": "library"}]});
    ("/v1/models", json_answer("200 OK", "", &list))
}

/// A JSON response.
pub(super) fn json_answer(status: &str, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

/// A stream of these bytes, ended by closing the connection.
pub(super) fn stream(events: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{events}")
}

/// A chunk with this text.
pub(super) fn said(text: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {"content": text}}]}))
}
