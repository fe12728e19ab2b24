//! Streamable HTTP for the SDK, over our own client.
//!
//! E1. A failed request is reported to its caller only; so are interrupted event streams.
//! E2. A session that the server has forgotten is detected: the SDK would wait for ever.
//! E3. Memory is bounded by [`ANSWER_BYTES`] per response.
//!
//! The optional stream for unsolicited server messages is not opened: tools are listed at every reset, and nothing else
//! is expected.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use tokio::sync::Notify;

use super::message_repair::repair;
use super::pending_requests::PendingRequests;
use crate::http::{HttpClient, SendError, USER_AGENT as OUR_NAME, root_cause};

/// Maximum bytes of one response, all of its events together.
const ANSWER_BYTES: usize = 16 << 20;

/// Maximum bytes read of an error response.
const ERROR_BYTES: usize = 4 << 10;

const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// The HTTP transport of a connection.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    client: HttpClient,
    trouble: Arc<ConnectionErrors>,
}

#[derive(Debug, Default)]
pub(super) struct ConnectionErrors {
    first: Mutex<Option<String>>,
    /// The error of the last failed request.
    latest: Mutex<Option<String>>,
    came: Notify,
}

impl ConnectionErrors {
    fn note(&self, reason: impl Into<String>) -> String {
        let reason = reason.into();
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.clone());
        self.came.notify_waiters();
        reason
    }

    /// Stores the reason for the caller of the failed request; all others continue.
    fn keep(&self, reason: String) -> String {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).replace(reason.clone());
        reason
    }

    /// Why a request may have failed.
    pub(super) fn words(&self) -> Option<String> {
        self.known().or_else(|| self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// The session's error, if any.
    pub(super) fn known(&self) -> Option<String> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for an error of the session.
    pub(super) async fn comes(&self) -> String {
        loop {
            // Created before the check, so that an error in between is noticed.
            let came = self.came.notified();
            if let Some(reason) = self.known() {
                return reason;
            }
            came.await;
        }
    }
}

impl Endpoint {
    pub(super) fn new(client: HttpClient) -> (Self, Arc<ConnectionErrors>) {
        let trouble = Arc::new(ConnectionErrors::default());
        (Self { client, trouble: Arc::clone(&trouble) }, trouble)
    }

    async fn send(
        &self,
        method: Method,
        uri: &str,
        body: Vec<u8>,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response<Incoming>, StreamableHttpError<io::Error>> {
        let invalid = |reason: String| StreamableHttpError::Client(io::Error::other(reason));
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() =
            uri.parse().map_err(|error| invalid(format!("{uri} cannot be asked: {error}")))?;
        let own = request.headers_mut();
        own.insert(USER_AGENT, HeaderValue::from_static(OUR_NAME));
        own.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        own.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        own.extend(headers);
        if let Some(session) = session.map(HeaderValue::from_str) {
            let session =
                session.map_err(|_| invalid("the server's session id cannot be a header".to_owned()))?;
            own.insert(HeaderName::from_static(SESSION), session);
        }
        self.client.send(request).await.map_err(|error| match error {
            SendError::Refused(reason) | SendError::Failed(reason) => invalid(reason),
        })
    }

    async fn whole(
        &self,
        mut body: Incoming,
        most: usize,
    ) -> Result<Vec<u8>, StreamableHttpError<io::Error>> {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                let reason = format!("the answer ended early: {}", root_cause(&error));
                StreamableHttpError::Client(io::Error::other(reason))
            })?;
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
            if bytes.len() > most {
                return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: most });
            }
        }
        Ok(bytes)
    }

    /// The events of a response.
    fn events(&self, body: Incoming, waiting: Vec<i64>) -> BoxStream<'static, Result<Sse, SseError>> {
        let trouble = Arc::clone(&self.trouble);
        let pieces = stream::unfold((body, 0usize), move |(mut body, read)| {
            let trouble = Arc::clone(&trouble);
            async move {
                let failed = |reason: String| Err(io::Error::other(trouble.keep(reason)));
                loop {
                    return match body.frame().await?.map(hyper::body::Frame::into_data) {
                        Err(error) => Some((
                            failed(format!("the answer ended early: {}", root_cause(&error))),
                            (body, read),
                        )),
                        Ok(Ok(bytes)) if read + bytes.len() > ANSWER_BYTES => Some((
                            failed(format!("an answer has more than {} MiB", ANSWER_BYTES >> 20)),
                            (body, read),
                        )),
                        Ok(Ok(bytes)) => {
                            let read = read + bytes.len();
                            Some((Ok(bytes), (body, read)))
                        }
                        // Trailers.
                        Ok(Err(_)) => continue,
                    };
                }
            }
        });
        let events = SseStream::from_bytes_stream(pieces.boxed());
        let repaired = move |event: Result<Sse, SseError>| match event {
            Ok(event) => {
                stream::iter(repaired_events(event, &waiting).into_iter().map(Ok).collect::<Vec<_>>())
            }
            Err(error) => stream::iter(vec![Err(error)]),
        };
        events.flat_map(repaired).boxed()
    }
}

/// One event per message that the repair produces.
fn repaired_events(event: Sse, waiting: &[i64]) -> Vec<Sse> {
    let messages = event.data.as_ref().and_then(|data| repair(data.as_bytes(), waiting));
    let Some(messages) = messages else { return vec![event] };
    let of = |message: Vec<u8>| Sse {
        data: Some(String::from_utf8_lossy(&message).into_owned()),
        ..event.clone()
    };
    messages.into_iter().map(of).collect()
}

/// The response to a request among the messages of a body, repaired if necessary.
fn answer_in(body: Vec<u8>, waiting: &[i64]) -> Vec<u8> {
    let Some(messages) = repair(&body, waiting) else { return body };
    let is_answer = |message: &&Vec<u8>| {
        let message: serde_json::Value = serde_json::from_slice(message).unwrap_or_default();
        message["id"].as_i64().is_some_and(|id| waiting.contains(&id))
    };
    messages.iter().find(is_answer).or(messages.first()).cloned().unwrap_or(body)
}

impl StreamableHttpClient for Endpoint {
    type Error = io::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<io::Error>> {
        let body = serde_json::to_vec(&message)?;
        let waiting: Vec<i64> = PendingRequests::id_of(&message).into_iter().collect();
        let awaits_nothing = !matches!(message, ClientJsonRpcMessage::Request(_));
        let response = self.send(Method::POST, &uri, body, session_id.as_deref(), headers).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT)
            || awaits_nothing && status.is_success()
        {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let session =
            response.headers().get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let media =
            kind.as_deref().and_then(|kind| kind.split(';').next()).unwrap_or_default().trim().to_owned();
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            self.trouble.note("the server has forgotten the session");
            return Err(StreamableHttpError::SessionExpired);
        }
        if status.is_success() && media.eq_ignore_ascii_case(EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response.into_body(), waiting), session));
        }
        let most = if status.is_success() { ANSWER_BYTES } else { ERROR_BYTES };
        let body = match self.whole(response.into_body(), most).await {
            // For an error, the beginning would have been enough.
            Err(StreamableHttpError::ResponseBodyTooLarge { .. }) if !status.is_success() => Vec::new(),
            body => body?,
        };
        let body = answer_in(body, &waiting);
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            Err(_) if status.is_success() => {
                let reason =
                    format!("an answer of type {} is not a message", kind.as_deref().unwrap_or("(none)"));
                Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(reason)))
            }
            Err(_) => {
                let text = String::from_utf8_lossy(&body);
                let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
                let reason = format!("status {}: {line}", status.as_u16());
                Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(reason)))
            }
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<io::Error>> {
        self.send(Method::DELETE, &uri, Vec::new(), Some(&session_id), headers).await.map(drop)
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<io::Error>> {
        Err(StreamableHttpError::ServerDoesNotSupportSse)
    }
}
