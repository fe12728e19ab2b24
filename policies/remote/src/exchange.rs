//! One request and its answer.
//!
//! I1. The head of the answer and its first byte come within [`RemotePatience::first_byte`], later pieces within
//! [`RemotePatience::stall`] of each other, or the request is given up. I2. A request that has no answer when its time is
//! almost up is given up while it can still be said why; one that is being answered may use its time to the end.
//! I3. No trouble that leaves this module has the key in it.
//!
//! Cancellation: dropping the future closes the connection.

use std::time::Duration;

use clawrl_core::{RemoteDialect, RemotePatience, RemoteSpec};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, Request, Response, Uri};
use jiff::Timestamp;
use tokio::time::{Instant, timeout, timeout_at};

use crate::anthropic_reply::AnthropicReply;
use crate::client::{HttpClient, root_cause};
use crate::endpoint::Endpoint;
use crate::openai_reply::OpenaiReply;
use crate::reply::{MAX_REPLY_BYTES, Reply};
use crate::retry_after::retry_after;
use crate::secret::{Secret, struck};
use crate::sse::{SseError, SseReader};
use crate::status::{Refusal, trouble_of, url_wrong};
use crate::trouble::{Remedy, Trouble};

/// The version of the messages that is spoken.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Bytes of an error that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Bytes of an answer: a reply, with everything around each of its pieces.
const MAX_ANSWER_BYTES: usize = 16 * MAX_REPLY_BYTES;

/// An answer that was silent for less than this when its time is up is being given.
const BREATH: Duration = Duration::from_secs(2);

/// How long the end of an answer is waited for once its reply is whole.
const END: Duration = Duration::from_millis(50);

/// Longest account of a trouble, in characters.
const LONGEST: usize = 600;

/// A server that can be asked: address, headers with the key, patience.
#[derive(Debug)]
pub(crate) struct Server {
    client: HttpClient,
    endpoint: Endpoint,
    dialect: RemoteDialect,
    model: String,
    headers: HeaderMap,
    patience: RemotePatience,
    key: Option<Secret>,
}

/// When answers are waited for no longer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    /// Shortly before the deadline.
    pub(crate) give_up: Instant,
}

impl Server {
    /// `None` for headers that HTTP does not know.
    pub(crate) fn new(
        settings: &RemoteSpec,
        client: HttpClient,
        endpoint: Endpoint,
        key: Option<Secret>,
    ) -> Option<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("clawrl/", env!("CARGO_PKG_VERSION"))));
        for (name, value) in &settings.headers {
            headers.insert(HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?);
        }
        if settings.dialect == RemoteDialect::Anthropic {
            let version = HeaderName::from_static("anthropic-version");
            headers.entry(version).or_insert(HeaderValue::from_static(ANTHROPIC_VERSION));
        }
        if let Some(key) = &key {
            match settings.dialect {
                RemoteDialect::Openai => headers.insert(AUTHORIZATION, key.header("Bearer ")),
                RemoteDialect::Anthropic => {
                    headers.insert(HeaderName::from_static("x-api-key"), key.header(""))
                }
            };
        }
        Some(Self {
            client,
            endpoint,
            dialect: settings.dialect,
            model: settings.model.clone(),
            headers,
            patience: settings.patience,
            key,
        })
    }

    /// The address of a route, for people.
    pub(crate) fn url(&self, route: &str) -> String {
        self.endpoint.url(route)
    }

    /// The route on which replies are asked for.
    pub(crate) fn reply_route(&self) -> &'static str {
        match self.dialect {
            RemoteDialect::Openai => "chat/completions",
            RemoteDialect::Anthropic => "messages",
        }
    }

    /// Asks for a reply. `reader` is what reads it.
    pub(crate) async fn ask(
        &self,
        body: Bytes,
        mut reader: ReplyReader,
        turn: u32,
        until: Until,
    ) -> Result<Reply, Trouble> {
        let answered = async {
            let route = self.reply_route();
            let silent_at = self.silent_at(until);
            let response = self.send(Method::POST, route, body, silent_at).await?;
            let kind = content_kind(response.headers());
            let mut pieces =
                Pieces { body: response.into_body(), patience: self.patience, silent_at, until, read: 0 };
            match kind {
                ContentKind::Events => read_events(&mut pieces, &mut reader).await?,
                ContentKind::Json => reader.complete(&pieces.text().await?)?,
                ContentKind::Other(kind) => {
                    return Err(url_wrong(&self.url(route), &format!("it answers with {kind}")));
                }
            }
            reader.whole(turn)
        };
        answered.await.map_err(|trouble| self.cleaned(trouble))
    }

    /// Gets a document.
    pub(crate) async fn get(&self, route: &str, until: Until) -> Result<String, Trouble> {
        let answered = async {
            let silent_at = self.silent_at(until);
            let response = self.send(Method::GET, route, Bytes::new(), silent_at).await?;
            let body = response.into_body();
            Pieces { body, patience: self.patience, silent_at, until, read: 0 }.text().await
        };
        answered.await.map_err(|trouble| self.cleaned(trouble))
    }

    fn silent_at(&self, until: Until) -> Instant {
        (Instant::now() + self.patience.first_byte).min(until.give_up)
    }

    /// Sends a request and reads the head of its answer, which says that all is well.
    async fn send(
        &self,
        method: Method,
        route: &str,
        body: Bytes,
        silent_at: Instant,
    ) -> Result<Response<Incoming>, Trouble> {
        let uri: Uri = self.endpoint.route(route);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        let began = Instant::now();
        let Ok(sent) = timeout_at(silent_at, self.client.send(request)).await else {
            return Err(silent(began.elapsed()));
        };
        let response = sent?;
        if response.status().as_u16() == 200 {
            return Ok(response);
        }
        let status = response.status();
        let retry_after = retry_after(response.headers(), Timestamp::now());
        let body = self.beginning(response.into_body(), silent_at).await;
        let url = self.url(route);
        let refusal = Refusal { status, body: &body, url: &url, model: &self.model, retry_after };
        Err(trouble_of(&refusal, self.key.as_ref()))
    }

    /// As much of an error as is there and is bounded.
    async fn beginning(&self, mut body: Incoming, silent_at: Instant) -> String {
        let mut bytes = Vec::new();
        let until = silent_at.max(Instant::now() + Duration::from_millis(100));
        while bytes.len() < MAX_ERROR_BYTES
            && let Ok(Some(Ok(frame))) = timeout_at(until, body.frame()).await
        {
            bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
        bytes.truncate(MAX_ERROR_BYTES);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// I3.
    fn cleaned(&self, trouble: Trouble) -> Trouble {
        let message = struck(self.key.as_ref(), &trouble.message);
        let message = message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
        Trouble { message, ..trouble }
    }
}

fn silent(after: Duration) -> Trouble {
    let message = format!("the server has not answered within {:.1} s", after.as_secs_f64());
    Trouble::later("server-silent", message)
}

enum ContentKind {
    Events,
    Json,
    Other(String),
}

fn content_kind(headers: &HeaderMap) -> ContentKind {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/event-stream" => ContentKind::Events,
        // Without a type it may be anything; what is no JSON is then noticed.
        "" | "application/json" => ContentKind::Json,
        kind if kind.ends_with("+json") => ContentKind::Json,
        _ => ContentKind::Other(kind),
    }
}

/// The body of an answer as it comes (I1, I2).
struct Pieces {
    body: Incoming,
    patience: RemotePatience,
    /// When its first byte is missed.
    silent_at: Instant,
    until: Until,
    read: usize,
}

impl Pieces {
    /// The next bytes; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
        let now = Instant::now();
        let stalled_at = if self.read == 0 {
            self.silent_at
        } else {
            // Whoever goes on until the time is up is slow; whoever is silent by then is gone.
            (now + self.patience.stall).min(self.until.give_up.max(now + BREATH))
        };
        loop {
            let frame = match timeout_at(stalled_at, self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    let message = format!("the connection broke during the answer ({})", root_cause(&error));
                    return Err(Trouble::later("stream-cut", message));
                }
                Ok(None) => return Ok(None),
                Err(_) if self.read == 0 => return Err(silent(now.elapsed())),
                Err(_) => {
                    let message =
                        format!("the answer has stood still for {:.1} s", now.elapsed().as_secs_f64());
                    return Err(Trouble::later("stream-stalled", message));
                }
            };
            // Trailers carry nothing that is needed.
            if let Ok(bytes) = frame.into_data()
                && !bytes.is_empty()
            {
                self.read += bytes.len();
                return if self.read > MAX_ANSWER_BYTES {
                    Err(Trouble::too_large("answer"))
                } else {
                    Ok(Some(bytes))
                };
            }
        }
    }

    /// All of it.
    async fn text(&mut self) -> Result<String, Trouble> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            bytes.extend_from_slice(&piece);
        }
        String::from_utf8(bytes).map_err(|_| Trouble::garbled("the server's answer is not UTF-8"))
    }
}

/// Reads until the reply says that it is done. The end of the answer is then read as well, if it is there: only a
/// connection whose answer was read to its end can be used again.
async fn read_events(pieces: &mut Pieces, reader: &mut ReplyReader) -> Result<(), Trouble> {
    let mut sse = SseReader::default();
    let mut events = Vec::new();
    while let Some(bytes) = pieces.next().await? {
        sse.push(&bytes, &mut events).map_err(garbled_events)?;
        for event in events.drain(..) {
            if reader.event(&event.data)? {
                // Nothing that comes now is part of the reply, so no trouble with it matters.
                let _ = timeout(END, async { while let Ok(Some(_)) = pieces.next().await {} }).await;
                return Ok(());
            }
        }
    }
    // What is left has no end of its own. If it makes no sense, it is half of something.
    let cut = || Trouble::later("stream-cut", "the server's answer breaks off within an event");
    sse.finish(&mut events).map_err(|_| cut())?;
    for event in events {
        reader
            .event(&event.data)
            .map_err(|trouble| if trouble.remedy == Remedy::Once { cut() } else { trouble })?;
    }
    Ok(())
}

fn garbled_events(error: SseError) -> Trouble {
    match error {
        SseError::NotUtf8 => Trouble::garbled("the server streams bytes that are not UTF-8"),
        SseError::TooLarge => Trouble::too_large("event"),
    }
}

/// Reads answers of one dialect.
#[derive(Debug)]
pub(crate) enum ReplyReader {
    Openai(OpenaiReply),
    Anthropic(AnthropicReply),
}

impl ReplyReader {
    pub(crate) fn new(settings: &RemoteSpec) -> Self {
        match settings.dialect {
            RemoteDialect::Openai => Self::Openai(OpenaiReply::new(settings.exact_tokens)),
            RemoteDialect::Anthropic => Self::Anthropic(AnthropicReply::default()),
        }
    }

    fn event(&mut self, data: &str) -> Result<bool, Trouble> {
        match self {
            Self::Openai(reply) => reply.event(data),
            Self::Anthropic(reply) => reply.event(data),
        }
    }

    fn complete(&mut self, text: &str) -> Result<(), Trouble> {
        match self {
            Self::Openai(reply) => reply.complete(text),
            Self::Anthropic(reply) => reply.complete(text),
        }
    }

    fn whole(self, turn: u32) -> Result<Reply, Trouble> {
        match self {
            Self::Openai(reply) => reply.whole(turn),
            Self::Anthropic(reply) => reply.whole(turn),
        }
    }
}
