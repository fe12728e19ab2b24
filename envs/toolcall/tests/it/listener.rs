//! A small HTTP server on a port of its own, for tools to ask.

use std::sync::{Arc, Mutex};

use clawrl_core::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// The first line.
    pub(crate) line: String,
    /// The lines of the head after it, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

/// The response as sent over the wire, when it is due. The connection is closed after it.
type Answer = Arc<dyn Fn(Asked) -> BoxFuture<'static, Vec<u8>> + Send + Sync>;

/// A server, until it is dropped.
pub(crate) struct Listener {
    pub(crate) port: u16,
    pub(crate) asked: Arc<Mutex<Vec<Asked>>>,
    task: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listener {
    pub(crate) async fn start(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start_in_time(move |asked| Box::pin(std::future::ready(answer(&asked)))).await
    }

    /// A listener whose responses take time.
    pub(crate) async fn start_in_time(
        answer: impl Fn(Asked) -> BoxFuture<'static, Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let socket = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (seen, answer): (_, Answer) = (Arc::clone(&asked), Arc::new(answer));
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = socket.accept().await {
                connections.spawn(serve(stream, Arc::clone(&seen), Arc::clone(&answer)));
            }
        });
        Self { port, asked, task }
    }

    /// Closes the listener.
    pub(crate) async fn stop(&self) {
        self.task.abort();
        while !self.task.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<Asked>>>, answer: Answer) {
    let mut bytes = Vec::new();
    let asked = loop {
        if let Some(asked) = whole(&bytes) {
            break asked;
        }
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    };
    seen.lock().unwrap().push(asked.clone());
    let answered = answer(asked).await;
    let _ = stream.write_all(&answered).await;
    let _ = stream.shutdown().await;
}

fn whole(bytes: &[u8]) -> Option<Asked> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let (line, head) = head.split_once("\r\n")?;
    let head = head.to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    (body.len() >= length).then(|| Asked { line: line.to_owned(), head, body: body.to_owned() })
}

/// An answer with a body.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
        .into_bytes()
}
