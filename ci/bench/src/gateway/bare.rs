//! The peer: the policy behind plain hyper. It parses the body as JSON and sends a chunk per word.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::stream::unfold;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::stub::{Answer, MODEL, Stub};

/// The gateway's limit for reading a request's head.
const HEAD_TIME: Duration = Duration::from_secs(30);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A chunk in OpenAI's shape, with the gateway's fields.
#[derive(Debug, Serialize)]
struct Chunk<'a> {
    choices: [Choice<'a>; 1],
    created: u64,
    id: &'a str,
    model: &'static str,
    object: &'static str,
    system_fingerprint: &'static str,
}

#[derive(Debug, Serialize)]
struct Choice<'a> {
    delta: Delta<'a>,
    finish_reason: Option<&'static str>,
    index: u32,
    logprobs: Option<Value>,
}

#[derive(Debug, Default, Serialize)]
struct Delta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
}

/// Fields that all chunks of an answer share.
struct Head {
    id: String,
    created: u64,
}

/// State of a stream.
enum State {
    Opening,
    Words,
    Finish,
    Done,
    End,
}

/// Serves until dropped; dropping ends all connections.
pub(super) async fn serve(listener: TcpListener, stub: Arc<Stub>) -> io::Result<Infallible> {
    let count = Arc::new(AtomicU64::new(0));
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted?.0,
        };
        let _ = stream.set_nodelay(true);
        let (stub, count) = (Arc::clone(&stub), Arc::clone(&count));
        let service = service_fn(move |request| {
            let (stub, count) = (Arc::clone(&stub), Arc::clone(&count));
            async move { Ok::<_, Infallible>(answer(request, &stub, &count).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .serve_connection(TokioIo::new(stream), service);
        connections.spawn(async move {
            // The client notices a broken connection.
            let _ = connection.await;
        });
    }
}

async fn answer(request: Request<Incoming>, stub: &Arc<Stub>, count: &AtomicU64) -> Response<Body> {
    let is_json = match request.into_body().collect().await {
        Ok(body) => serde_json::from_slice::<Value>(&body.to_bytes()).is_ok(),
        Err(_) => false,
    };
    if !is_json {
        let mut response = Response::new(Full::new(Bytes::from_static(b"not JSON")).boxed_unsync());
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return response;
    }
    let created = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let head = Head { id: format!("chatcmpl-{}", 1 + count.fetch_add(1, Ordering::Relaxed)), created };
    let chunks = unfold((State::Opening, stub.answer(), head), |(mut state, mut answer, head)| async move {
        let chunk = next(&mut state, &mut answer, &head).await?;
        Some((Ok::<_, Infallible>(Frame::data(chunk)), (state, answer, head)))
    });
    let mut response = Response::new(StreamBody::new(chunks).boxed_unsync());
    let kind = HeaderValue::from_static("text/event-stream; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The next event of a stream.
async fn next(state: &mut State, answer: &mut Answer, head: &Head) -> Option<Bytes> {
    if matches!(state, State::Words) {
        if let Some(word) = answer.next().await {
            return Some(event(head, Delta { content: Some(word.text), role: None }, None));
        }
        *state = State::Finish;
    }
    match state {
        State::Opening => {
            *state = State::Words;
            Some(event(head, Delta { content: Some(""), role: Some("assistant") }, None))
        }
        State::Words | State::Finish => {
            *state = State::Done;
            Some(event(head, Delta::default(), Some("stop")))
        }
        State::Done => {
            *state = State::End;
            Some(Bytes::from_static(b"data: [DONE]\n\n"))
        }
        State::End => None,
    }
}

fn event(head: &Head, delta: Delta<'_>, finish_reason: Option<&'static str>) -> Bytes {
    let chunk = Chunk {
        choices: [Choice { delta, finish_reason, index: 0, logprobs: None }],
        created: head.created,
        id: &head.id,
        model: MODEL,
        object: "chat.completion.chunk",
        system_fingerprint: "v1",
    };
    let mut bytes = Vec::with_capacity(256);
    bytes.extend_from_slice(b"data: ");
    // Serialising strings and numbers cannot fail.
    let _ = serde_json::to_writer(&mut bytes, &chunk);
    bytes.extend_from_slice(b"\n\n");
    Bytes::from(bytes)
}
