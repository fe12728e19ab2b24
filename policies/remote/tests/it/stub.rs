//! A server that answers as a test says, byte by byte if need be. On loopback, and gone with its value.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// The first byte of a connection with TLS.
const TLS_HANDSHAKE: u8 = 22;

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// From 0, in the order of arrival.
    pub(crate) number: usize,
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Value,
}

/// Actions on the connection, in order.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Send(Vec<u8>),
    /// Nothing more is sent; the connection stays.
    Stall,
    /// This is sent again and again, after such a pause, until the other side goes.
    Repeat(Vec<u8>, Duration),
    /// The connection is closed.
    Cut,
    /// Until as many requests have come to this.
    Meet(Arc<Barrier>),
    /// Nothing more is sent; a permit is added once the other side has gone.
    Left(Arc<Semaphore>),
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer(pub(crate) Vec<Step>);

impl Answer {
    /// An answer of known length.
    pub(crate) fn whole(status: &str, headers: &str, body: &str) -> Self {
        let text = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len());
        Self(vec![Step::Send(text.into_bytes())])
    }

    pub(crate) fn json(status: &str, body: &Value) -> Self {
        Self::whole(status, "Content-Type: application/json\r\n", &body.to_string())
    }

    /// A stream with these bytes as its pieces, ended in order.
    pub(crate) fn pieces(pieces: &[&[u8]]) -> Self {
        let mut answer = Self::begun(pieces);
        answer.0.push(Step::Send(b"0\r\n\r\n".to_vec()));
        answer
    }

    /// A stream that has not ended.
    pub(crate) fn begun(pieces: &[&[u8]]) -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut steps = vec![Step::Send(head.as_bytes().to_vec())];
        steps.extend(pieces.iter().map(|piece| Step::Send(chunk(piece))));
        Self(steps)
    }

    /// A document that has not begun.
    pub(crate) fn document() -> Self {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
        Self(vec![Step::Send(head.as_bytes().to_vec())])
    }

    /// A stream of events, each in a piece of its own.
    pub(crate) fn events(events: &[Value]) -> Self {
        let pieces: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let done = "data: [DONE]\n\n";
        let pieces: Vec<&[u8]> = pieces.iter().map(String::as_str).chain([done]).map(str::as_bytes).collect();
        Self::pieces(&pieces)
    }

    /// A reply of this text, as a stream.
    pub(crate) fn said(text: &str) -> Self {
        let usage = json!({"prompt_tokens": 50, "completion_tokens": text.len().div_ceil(4).max(1)});
        Self::events(&[
            json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]}),
            json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": usage}),
        ])
    }

    /// A list of models.
    pub(crate) fn models(names: &[&str]) -> Self {
        let data: Vec<Value> = names.iter().map(|name| json!({"id": name, "object": "model"})).collect();
        Self::json("200 OK", &json!({"object": "list", "data": data}))
    }

    pub(crate) fn then(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }

    pub(crate) fn after(mut self, step: Step) -> Self {
        self.0.insert(0, step);
        self
    }
}

/// A piece of a body without known length.
pub(crate) fn chunk(piece: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()
}

type Handler = dyn Fn(&Asked) -> Answer + Send + Sync;

#[derive(Default)]
struct Seen {
    asked: Mutex<Vec<Asked>>,
    live: AtomicUsize,
    peak: AtomicUsize,
}

/// The server.
pub(crate) struct Stub {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    accepting: JoinHandle<()>,
}

impl Stub {
    /// Starts it on a port of its own.
    pub(crate) async fn start(handler: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), handler).await
    }

    /// Starts it on this port, which another may have used just now.
    pub(crate) async fn start_at(
        address: SocketAddr,
        handler: impl Fn(&Asked) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(4_096).unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let handler: Arc<Handler> = Arc::new(handler);
        let shared = Arc::clone(&seen);
        let accepting = tokio::spawn(async move {
            // The connections end with this task.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&shared), Arc::clone(&handler)));
            }
        });
        Self { address, seen, accepting }
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.seen.asked.lock().unwrap().clone()
    }

    /// Maximum number of concurrent requests.
    pub(crate) fn peak(&self) -> usize {
        self.seen.peak.load(Ordering::SeqCst)
    }

    /// Ends it; every connection is cut.
    pub(crate) async fn die(self) -> SocketAddr {
        let address = self.address;
        let accepting = &self.accepting;
        accepting.abort();
        while !accepting.is_finished() {
            tokio::task::yield_now().await;
        }
        address
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Seen>, handler: Arc<Handler>) {
    let mut buffer = Vec::new();
    while let Some(asked) = read_request(&mut stream, &mut buffer, &seen).await {
        let live = seen.live.fetch_add(1, Ordering::SeqCst) + 1;
        seen.peak.fetch_max(live, Ordering::SeqCst);
        // The last of it may be the end of a request for the other side, which then begins another.
        let mut steps = handler(&asked).0;
        let last = steps.pop();
        let went_on = answer(&mut stream, steps).await;
        seen.live.fetch_sub(1, Ordering::SeqCst);
        if !(went_on && answer(&mut stream, last.into_iter().collect()).await) {
            return;
        }
    }
}

/// Whether the connection may be used again.
async fn answer(stream: &mut TcpStream, steps: Vec<Step>) -> bool {
    for step in steps {
        match step {
            Step::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return false;
                }
            }
            Step::Stall => {
                // Until the other side goes.
                let mut rest = [0; 64];
                while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
                return false;
            }
            Step::Repeat(bytes, pause) => loop {
                if stream.write_all(&bytes).await.is_err() {
                    return false;
                }
                sleep(pause).await; // timer: a server that keeps a connection alive does so in intervals
            },
            Step::Cut => return false,
            Step::Left(left) => {
                let mut rest = [0; 64];
                while stream.read(&mut rest).await.is_ok_and(|read| read > 0) {}
                left.add_permits(1);
                return false;
            }
            Step::Meet(barrier) => {
                barrier.wait().await;
            }
        }
    }
    true
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>, seen: &Seen) -> Option<Asked> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
        if buffer[0] == TLS_HANDSHAKE {
            // As servers without TLS do.
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.ok()?;
            return None;
        }
    };
    let head = String::from_utf8(buffer[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let path = lines.next().unwrap().split(' ').nth(1).unwrap().to_owned();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    while buffer.len() < head_end + length {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = serde_json::from_slice(&buffer[head_end..head_end + length]).unwrap_or_default();
    buffer.drain(..head_end + length);
    let mut all = seen.asked.lock().unwrap();
    let asked = Asked { number: all.len(), path, headers, body };
    all.push(asked.clone());
    Some(asked)
}
