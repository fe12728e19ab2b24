//! A client of a server's API for interactive use: one request, and its response as it arrives.
//!
//! The client does not retry and does not interpret a status: the caller decides.
//!
//! I1. The key is sent in one header and is never part of an error. I2. The number of bytes read is limited. I3. Every wait
//! ends after [`SILENCE`] without data. A comment in a stream counts as data, since servers send comments to queued
//! clients.
//!
//! Errors: [`ApiError`]. Cancellation: dropping a future, or an unfinished response, closes the connection.

use std::collections::VecDeque;
use std::time::Duration;

use clawrl_core::{RemoteTimeouts, read_json};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, Request};
use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use crate::client::HttpClient;
use crate::endpoint::Endpoint;
use crate::event_json::EventJson;
use crate::exchange::{ContentKind, Pieces, beginning, content_kind, garbled_events};
use crate::policy::RemoteError;
use crate::retry_after::retry_after;
use crate::secret::{Secret, redacted};
use crate::server_text::{message_in, server_text};
use crate::silence::Silence;
use crate::sse::{Event, SseReader};
use crate::status::{is_error, url_wrong};
use crate::trouble::Trouble;

/// Timeout for connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// Timeout without data, as chat clients have it.
const SILENCE: Duration = Duration::from_secs(300);

/// Timeout for a whole response.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

/// Data of the event that ends a stream.
const DONE: &str = "[DONE]";

/// A server, and the key for it.
#[derive(Debug)]
pub struct ApiClient {
    client: HttpClient,
    endpoint: Endpoint,
    key: Option<Secret>,
}

/// Why the response is missing or broke off.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApiError {
    /// The server answers with a status other than 200.
    #[error("the server answers {status}: {message}")]
    Refused {
        /// The status.
        status: u16,
        /// `error.code` of its body.
        code: Option<String>,
        /// The server's message: one line, without the key; the name of the status if there is none.
        message: String,
        /// The requested delay before the next request.
        retry_after: Option<Duration>,
    },
    /// The server sent an error in the middle of its response.
    #[error("{0}")]
    Ended(String),
    /// No readable response arrived.
    #[error("{message}")]
    Trouble {
        /// Code, as in a run's fault: `server-unreachable`, `stream-cut`, `url-wrong`.
        code: &'static str,
        /// Description of the problem.
        message: String,
    },
}

/// A response that has begun.
#[derive(Debug)]
pub enum ApiAnswer {
    /// A stream of events.
    Events(Box<ApiEvents>),
    /// A complete document.
    Whole(Value),
}

/// An event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum ApiEvent {
    /// JSON.
    Chunk(Value),
    /// `[DONE]`.
    Done,
}

/// The events of a stream.
#[derive(Debug)]
pub struct ApiEvents {
    pieces: Pieces,
    reader: SseReader,
    json: EventJson,
    read: VecDeque<Event>,
    has_ended: bool,
    key: Option<Secret>,
}

impl ApiClient {
    /// Creates a client; sends no request.
    ///
    /// # Errors
    /// If the base URL is invalid, or the system's certificates cannot be read.
    pub fn new(base_url: &str, key: Option<Secret>) -> Result<Self, RemoteError> {
        let endpoint =
            Endpoint::new(base_url).ok_or(RemoteError::Settings("the base URL of the server is none"))?;
        let client = HttpClient::new(base_url, CONNECT).map_err(RemoteError::Certificates)?;
        Ok(Self { client, endpoint, key })
    }

    /// Gets a document.
    ///
    /// # Errors
    /// [`ApiError`], also if the document is not JSON.
    pub async fn get(&self, route: &str) -> Result<Value, ApiError> {
        match self.send(Method::GET, route, HeaderMap::new(), Bytes::new()).await? {
            ApiAnswer::Whole(value) => Ok(value),
            ApiAnswer::Events(_) => Err(self.unknown(route, "text/event-stream")),
        }
    }

    /// Posts a document with additional headers. Invalid headers are left out.
    ///
    /// # Errors
    /// [`ApiError`].
    pub async fn post(
        &self,
        route: &str,
        headers: &[(&'static str, &str)],
        body: &Value,
    ) -> Result<ApiAnswer, ApiError> {
        let mut more = HeaderMap::new();
        more.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in headers {
            if let Ok(value) = HeaderValue::from_str(value) {
                more.insert(HeaderName::from_static(name), value);
            }
        }
        self.send(Method::POST, route, more, Bytes::from(body.to_string())).await
    }

    async fn send(
        &self,
        method: Method,
        route: &str,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Result<ApiAnswer, ApiError> {
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("clawrl/", env!("CARGO_PKG_VERSION"))));
        if let Some(key) = &self.key {
            headers.insert(AUTHORIZATION, key.header("Bearer "));
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.endpoint.route(route);
        *request.headers_mut() = headers;
        let now = Instant::now();
        let patience = RemoteTimeouts { connect: CONNECT, first_byte: SILENCE, stall: SILENCE };
        let silence = Silence::new(patience, now + LONGEST, now);
        let Ok(sent) = timeout_at(silence.end(), self.client.send(request)).await else {
            return Err(told(&silence.trouble(Instant::now()), self.key.as_ref()));
        };
        let response = sent.map_err(|trouble| told(&trouble, self.key.as_ref()))?;
        let status = response.status();
        if status.as_u16() != 200 {
            let retry_after = retry_after(response.headers(), Timestamp::now());
            let body = beginning(response.into_body(), silence.end()).await;
            let code = serde_json::from_str::<Value>(&body)
                .ok()
                .and_then(|body| Some(redacted(self.key.as_ref(), body.pointer("/error/code")?.as_str()?)));
            let words = server_text(&body, self.key.as_ref());
            let usual = || status.canonical_reason().unwrap_or("without a word").to_owned();
            let message = if words.is_empty() { usual() } else { words };
            return Err(ApiError::Refused { status: status.as_u16(), code, message, retry_after });
        }
        let kind = content_kind(response.headers());
        let mut pieces = Pieces::new(response.into_body(), silence);
        match kind {
            ContentKind::Events => Ok(ApiAnswer::Events(Box::new(ApiEvents {
                pieces,
                reader: SseReader::default(),
                json: EventJson::default(),
                read: VecDeque::new(),
                has_ended: false,
                key: self.key.clone(),
            }))),
            ContentKind::Json => {
                let text = pieces.text().await.map_err(|trouble| told(&trouble, self.key.as_ref()))?;
                let no_json = |_| self.unknown(route, "what is no JSON");
                read_json(&text).map(ApiAnswer::Whole).map_err(no_json)
            }
            ContentKind::Other(kind) => Err(self.unknown(route, &kind)),
        }
    }

    fn unknown(&self, route: &str, kind: &str) -> ApiError {
        let trouble = url_wrong(&self.endpoint.url(route), &format!("it answers with {kind}"));
        told(&trouble, self.key.as_ref())
    }
}

impl ApiEvents {
    /// The next event; `None` at the end of the stream, with or without `[DONE]`.
    ///
    /// # Errors
    /// [`ApiError::Ended`] for an event that is an error; [`ApiError::Trouble`].
    pub async fn next(&mut self) -> Result<Option<ApiEvent>, ApiError> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return self.event(&event).map(Some);
            }
            if self.has_ended {
                return Ok(None);
            }
            let read = self.read().await;
            read.map_err(|trouble| told(&trouble, self.key.as_ref()))?;
        }
    }

    /// Reads the rest of the response, if it has arrived, so that the connection can be reused.
    pub async fn drain(mut self) {
        self.pieces.drain().await;
    }

    async fn read(&mut self) -> Result<(), Trouble> {
        let mut events = Vec::new();
        match self.pieces.next().await? {
            Some(bytes) => self.reader.push(&bytes, &mut events).map_err(garbled_events)?,
            None => {
                self.has_ended = true;
                self.reader.finish(&mut events).map_err(garbled_events)?;
            }
        }
        if !events.is_empty() {
            self.pieces.silence.said(Instant::now());
        }
        self.read.extend(events);
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<ApiEvent, ApiError> {
        if event.data.trim() == DONE {
            return Ok(ApiEvent::Done);
        }
        if event.is_error() {
            return Err(ApiError::Ended(server_text(&event.data, self.key.as_ref())));
        }
        let Ok(value) = self.json.read(&event.data) else {
            // The last event of a broken stream is incomplete.
            let trouble = if self.has_ended {
                Trouble::later("stream-cut", "the server's answer breaks off within an event")
            } else {
                Trouble::garbled("the server streams what is no JSON")
            };
            return Err(told(&trouble, self.key.as_ref()));
        };
        if is_error(&value) {
            let words = message_in(&value).unwrap_or_else(|| "an error without words".to_owned());
            return Err(ApiError::Ended(server_text(&words, self.key.as_ref())));
        }
        Ok(ApiEvent::Chunk(value))
    }
}

/// I1.
fn told(trouble: &Trouble, key: Option<&Secret>) -> ApiError {
    ApiError::Trouble { code: trouble.code, message: redacted(key, &trouble.message) }
}
