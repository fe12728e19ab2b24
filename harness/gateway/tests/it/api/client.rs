//! An HTTP/1.1 client that exposes status, headers, and each piece as it arrives.

use std::collections::VecDeque;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A response.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    stream: BufReader<TcpStream>,
    left: Left,
    /// Events that arrived together with a requested one.
    events: VecDeque<String>,
}

enum Left {
    Length(usize),
    Chunks,
}

/// A request as text, sent unchanged.
pub(super) fn request(
    method: &str,
    path: &str,
    host: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    let mut request = (head + "\r\n").into_bytes();
    request.extend_from_slice(body);
    request
}

/// Sends bytes, and reads up to the body.
pub(super) async fn send(address: SocketAddr, request: &[u8]) -> Response {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses early may have closed the connection; its response counts.
    let _ = stream.write_all(request).await;
    Response::read(stream).await
}

impl Response {
    async fn read(stream: TcpStream) -> Self {
        let mut stream = BufReader::new(stream);
        let status = line(&mut stream).await;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = line(&mut stream).await;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim_start().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let left = length.map_or(Left::Chunks, |(_, length)| Left::Length(length.parse().unwrap()));
        Self { status: status.expect("a status"), headers, stream, left, events: VecDeque::new() }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The next piece of the body; `None` at its end, or if it was cut.
    pub(super) async fn piece(&mut self) -> Option<String> {
        let length = match &mut self.left {
            Left::Length(left) => std::mem::take(left),
            Left::Chunks => usize::from_str_radix(&line(&mut self.stream).await, 16).unwrap_or(0),
        };
        if length == 0 {
            return None;
        }
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await.ok()?;
        if matches!(self.left, Left::Chunks) {
            line(&mut self.stream).await;
        }
        Some(String::from_utf8(bytes).unwrap())
    }

    /// The rest of the body.
    pub(super) async fn text(mut self) -> String {
        let mut text = String::new();
        while let Some(piece) = self.piece().await {
            text += &piece;
        }
        text
    }

    pub(super) async fn json(self) -> Value {
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The next event of a stream: its JSON, or its text; comments are skipped.
    pub(super) async fn event(&mut self) -> Option<Value> {
        loop {
            while self.events.is_empty() {
                // Several events may arrive together, but none in halves.
                let piece = self.piece().await?;
                let events = piece.strip_suffix("\n\n").unwrap().split("\n\n");
                self.events.extend(events.map(str::to_owned));
            }
            let event = self.events.pop_front()?;
            if let Some(data) = event.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap_or_else(|_| data.into()));
            }
            assert_eq!(event, ": keepalive");
        }
    }

    /// All events up to the end.
    pub(super) async fn events(mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.event().await {
            events.push(event);
        }
        events
    }
}

async fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    // A cut connection reads as an empty line.
    let _ = stream.read_line(&mut line).await;
    line.trim_end().to_owned()
}
