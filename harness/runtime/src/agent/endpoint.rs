//! The HTTP endpoint of agent programs: OpenAI chat completions, and the environment for programs that use HTTP.
//!
//! I1. The endpoint listens on loopback only, and answers only requests with the key of a running attempt. I2. Request sizes and
//! the number of concurrent requests are bounded. I3. The endpoint's tasks end with the endpoint or with the runtime.
//!
//! Cancellation: a request is cancelled when its client disconnects.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawrl_core::{
    ActionFormat, Fault, MemoryBlobs, Observation, Policy, PolicyRequest, Retry, derive_seed, stable_hash,
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use super::completion::{Completion, read};
use super::model::{TEXT_TOOLS, with_calls_read, with_calls_written};
use super::reply::{MODEL, events, name_calls, whole};
use super::session::Session;
use crate::env_server::MAX_LINE_BYTES;

/// Maximum connections: several for each attempt that a machine can run.
const CONNECTIONS: usize = 4_096;

/// Time limit of a request's head.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// Pause after a failed accept: without free descriptors the next accept would fail at once, too.
const PAUSE: Duration = Duration::from_millis(100);

/// The model that answers, and its format of calls.
#[derive(Clone)]
pub(super) struct Model {
    pub(super) policy: Arc<dyn Policy>,
    pub(super) format: ActionFormat,
}

/// The endpoint; listens until dropped.
pub(super) struct Endpoint {
    address: SocketAddr,
    doors: Arc<EndpointTable>,
    accepting: AbortHandle,
}

/// The admitted sessions, by key.
struct EndpointTable {
    model: Option<Model>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

impl Endpoint {
    /// Starts to listen. Call inside a runtime.
    ///
    /// # Errors
    /// No port is free.
    pub(super) async fn open(model: Option<Model>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let doors = Arc::new(EndpointTable { model, sessions: Mutex::default() });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&doors))).abort_handle();
        Ok(Self { address, doors, accepting })
    }

    /// Base URL without a trailing slash.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Admits a key until the returned guard is dropped. The end of the session cancels requests that run then.
    pub(super) fn admit(&self, key: String, session: Arc<Session>) -> Admission {
        self.doors.sessions().insert(key.clone(), session);
        Admission { doors: Arc::clone(&self.doors), key }
    }
}

/// Guard of an admitted key.
pub(super) struct Admission {
    doors: Arc<EndpointTable>,
    key: String,
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.doors.sessions().remove(&self.key);
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, doors: Arc<EndpointTable>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    // Dropped with this task, the set ends all connections (I3).
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = stream else {
            // timer: see PAUSE.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let doors = Arc::clone(&doors);
        connections.spawn(async move {
            let answer = service_fn(|request| {
                let doors = Arc::clone(&doors);
                async move { Ok::<_, io::Error>(doors.answer(request).await) }
            });
            let mut connection = http1::Builder::new();
            connection.timer(TokioTimer::new()).header_read_timeout(HEAD_LIMIT);
            if let Err(error) = connection.serve_connection(TokioIo::new(stream), answer).await {
                tracing::debug!(%error, "a program went away");
            }
            drop(place);
        });
    }
}

impl EndpointTable {
    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        // A map of handles: a panic cannot leave it inconsistent.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let Some(session) = self.session(&request) else {
            let message = "this is no key of an attempt that is under way";
            return error(StatusCode::UNAUTHORIZED, "invalid_api_key", message);
        };
        let path = request.uri().path().trim_end_matches('/').to_owned();
        match (request.method(), path.as_str()) {
            (&Method::GET, "/v1/models") => {
                let model = json!({ "id": MODEL, "object": "model", "created": 0, "owned_by": "clawrl" });
                object(StatusCode::OK, &json!({ "object": "list", "data": [model] }))
            }
            (&Method::POST, "/v1/chat/completions") => match body(request).await {
                Ok(bytes) => self.complete(&session, &bytes).await,
                Err(why) => error(StatusCode::PAYLOAD_TOO_LARGE, "body", &why),
            },
            (&Method::POST, "/env") => match body(request).await {
                Ok(bytes) => object(StatusCode::OK, &session.ask(&bytes).await),
                Err(why) => error(StatusCode::PAYLOAD_TOO_LARGE, "body", &why),
            },
            (_, path @ ("/v1/models" | "/v1/chat/completions" | "/env")) => {
                let message = format!("{} is no method of {path}", request.method());
                error(StatusCode::METHOD_NOT_ALLOWED, "method", &message)
            }
            (_, path) => {
                let message =
                    format!("there is no {path}; there are /v1/chat/completions, /v1/models and /env");
                error(StatusCode::NOT_FOUND, "not_found", &message)
            }
        }
    }

    /// The session of a request's key (I1).
    fn session(&self, request: &Request<Incoming>) -> Option<Arc<Session>> {
        let shown = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
        let key = shown.strip_prefix("Bearer ")?.trim();
        // The hash map is randomly seeded, so the time of a lookup reveals nothing about other keys.
        self.sessions().get(key).map(Arc::clone)
    }

    async fn complete(&self, session: &Session, bytes: &[u8]) -> Response<Full<Bytes>> {
        let Some(model) = &self.model else {
            let message = "the agent file names no `model`, so none is here";
            return error(StatusCode::NOT_FOUND, "no_model", message);
        };
        let asked = match read(bytes) {
            Ok(asked) => asked,
            Err(why) => return error(StatusCode::BAD_REQUEST, "invalid_request", &why),
        };
        if !session.admit() {
            let message = format!("the {} answers of this attempt are used up", session.most_calls);
            return error(StatusCode::FORBIDDEN, "model_calls_used_up", &message);
        }
        match ask(session, model, &asked).await {
            Ok(said) if asked.stream => {
                let mut response = Response::new(Full::new(Bytes::from(events(&asked, &said))));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
                response
            }
            Ok(said) => object(StatusCode::OK, &whole(&asked, &said)),
            Err(fault) => of_fault(&fault),
        }
    }
}

/// Asks the model; cancelled at the end of the attempt.
async fn ask(session: &Session, model: &Model, asked: &Completion) -> Result<clawrl_core::Action, Fault> {
    // The seed depends on the request and not on its time: equal requests have equal answers, other requests draw again.
    let written = serde_json::to_vec(&asked.messages).unwrap_or_default();
    let seed = derive_seed(session.seed, "request", &[stable_hash(&written)]);
    // Requests contain no images.
    let (blobs, nothing) = (MemoryBlobs::new(0), Observation::default());
    let messages = with_calls_written(&asked.messages, model.format, |message| session.recall(message));
    let request = PolicyRequest {
        attempt: session.attempt,
        task: &session.task,
        conversation: &messages,
        observation: &nothing,
        tools: &asked.tools,
        turn: 0,
        seed,
        deadline: Instant::now() + session.task.timeouts.policy,
        cancel: &session.over,
        blobs: &blobs,
    };
    let said = tokio::select! {
        said = tokio::time::timeout(session.task.timeouts.policy, model.policy.act(request)) => said,
        () = session.over.cancelled() => {
            let message = "the attempt is over";
            return Err(Fault::permanent(clawrl_core::Boundary::Policy, "attempt-over", message));
        }
    };
    let late = || {
        Fault::limit(clawrl_core::Boundary::Policy, clawrl_core::Limit::Policy, session.task.timeouts.policy)
    };
    match said.unwrap_or_else(|_| Err(late())) {
        Ok(said) => {
            session.took(said.usage.clone());
            let written = (model.format == TEXT_TOOLS).then(|| said.text.clone());
            let mut said = with_calls_read(said, model.format, &asked.tools);
            name_calls(asked, &mut said);
            if let Some(written) = written {
                session.remember(written, &said);
            }
            Ok(said)
        }
        Err(fault) => {
            session.broke(fault.clone());
            Err(fault)
        }
    }
}

/// # Errors
/// The body is too large or cannot be read.
async fn body(request: Request<Incoming>) -> Result<Bytes, String> {
    let limited = Limited::new(request.into_body(), MAX_LINE_BYTES);
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) => {
            Err(format!("the body cannot be read, or has more than {} MiB: {error}", MAX_LINE_BYTES >> 20))
        }
    }
}

fn object(status: StatusCode, value: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn error(status: StatusCode, code: &str, message: &str) -> Response<Full<Bytes>> {
    let kind =
        if status == StatusCode::UNAUTHORIZED { "authentication_error" } else { "invalid_request_error" };
    object(status, &json!({ "error": { "message": message, "type": kind, "param": null, "code": code } }))
}

/// The model's policy has already retried where that helps, so clients need not.
fn of_fault(fault: &Fault) -> Response<Full<Bytes>> {
    let (status, code) = match (fault.code.as_str(), fault.retry) {
        ("context-too-long", _) => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
        (code, Retry::Never) => (StatusCode::BAD_REQUEST, code),
        (code, Retry::Sound) => (StatusCode::BAD_GATEWAY, code),
    };
    let mut response = error(status, code, &fault.message);
    response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    response
}
