//! One HTTP request and its response.
//!
//! I1. [`Silence`] limits every wait for the server. I2. A request without a reply shortly before its deadline is given up
//! while the reason can still be reported, regardless of keep-alives; a reply that is arriving may use the time to the end.
//! I3. No error that leaves this module contains the key.
//!
//! Cancellation: dropping the future closes the connection.

use std::time::Duration;

use clawrl_core::{RemoteDialect, RemoteSpec, RemoteTimeouts, utf8_text};
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
use crate::reply::{Heard, MAX_REPLY_BYTES, Reply};
use crate::retry_after::retry_after;
use crate::secret::{Secret, redacted};
use crate::server_text::server_text;
use crate::silence::Silence;
use crate::sse::{Event, SseError, SseReader};
use crate::status::{Refusal, broken_off, trouble_of, url_wrong};
use crate::trouble::{Remedy, Trouble};

/// Version of the Anthropic API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Maximum number of bytes of an error that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Maximum size of a response in bytes: a reply with the JSON around each of its pieces.
const MAX_ANSWER_BYTES: usize = 16 * MAX_REPLY_BYTES;

/// Wait for the end of a response after its reply is complete.
const END: Duration = Duration::from_millis(50);

/// Maximum length of an error message, in characters.
const LONGEST: usize = 600;

/// A server: address, headers with the key, timeouts.
#[derive(Debug)]
pub(crate) struct Server {
    client: HttpClient,
    endpoint: Endpoint,
    dialect: RemoteDialect,
    model: String,
    headers: HeaderMap,
    patience: RemoteTimeouts,
    key: Option<Secret>,
}

/// Time limits of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    /// Shortly before the deadline.
    pub(crate) give_up: Instant,
}

impl Server {
    /// `None` for invalid headers.
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

    /// The route for replies.
    pub(crate) fn reply_route(&self) -> &'static str {
        match self.dialect {
            RemoteDialect::Openai => "chat/completions",
            RemoteDialect::Anthropic => "messages",
        }
    }

    /// Requests a reply, which `reader` parses.
    pub(crate) async fn ask(
        &self,
        body: Bytes,
        mut reader: ReplyReader,
        turn: u32,
        until: Until,
    ) -> Result<Reply, Trouble> {
        let answered = async {
            let route = self.reply_route();
            let silence = self.silence(until);
            let response = self.send(Method::POST, route, body, &silence).await?;
            let kind = content_kind(response.headers());
            let mut pieces = Pieces::new(response.into_body(), silence);
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

    /// Opens a streamed response.
    pub(crate) async fn open(
        &self,
        route: &str,
        body: Bytes,
        until: Until,
    ) -> Result<(ContentKind, Pieces), Trouble> {
        let answered = async {
            let silence = self.silence(until);
            let response = self.send(Method::POST, route, body, &silence).await?;
            let kind = content_kind(response.headers());
            if let ContentKind::Other(kind) = kind {
                return Err(url_wrong(&self.url(route), &format!("it answers with {kind}")));
            }
            Ok((kind, Pieces::new(response.into_body(), silence)))
        };
        answered.await.map_err(|trouble| self.cleaned(trouble))
    }

    /// Gets a document.
    pub(crate) async fn get(&self, route: &str, until: Until) -> Result<String, Trouble> {
        let answered = async {
            let silence = self.silence(until);
            let response = self.send(Method::GET, route, Bytes::new(), &silence).await?;
            Pieces::new(response.into_body(), silence).text().await
        };
        answered.await.map_err(|trouble| self.cleaned(trouble))
    }

    /// Posts a document and reads the whole response.
    pub(crate) async fn post(&self, route: &str, body: Bytes, until: Until) -> Result<String, Trouble> {
        let answered = async {
            let silence = self.silence(until);
            let response = self.send(Method::POST, route, body, &silence).await?;
            let kind = content_kind(response.headers());
            if let ContentKind::Other(kind) = kind {
                return Err(url_wrong(&self.url(route), &format!("it answers with {kind}")));
            }
            Pieces::new(response.into_body(), silence).text().await
        };
        answered.await.map_err(|trouble| self.cleaned(trouble))
    }

    fn silence(&self, until: Until) -> Silence {
        Silence::new(self.patience, until.give_up, Instant::now())
    }

    /// Sends a request and checks the status and head of the response.
    async fn send(
        &self,
        method: Method,
        route: &str,
        body: Bytes,
        silence: &Silence,
    ) -> Result<Response<Incoming>, Trouble> {
        let uri: Uri = self.endpoint.route(route);
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        let Ok(sent) = timeout_at(silence.end(), self.client.send(request)).await else {
            return Err(silence.trouble(Instant::now()));
        };
        let response = sent?;
        if response.status().as_u16() == 200 {
            return Ok(response);
        }
        let status = response.status();
        let retry_after = retry_after(response.headers(), Timestamp::now());
        let body = beginning(response.into_body(), silence.end()).await;
        let url = self.url(route);
        let refusal = Refusal { status, body: &body, url: &url, model: &self.model, retry_after };
        Err(trouble_of(&refusal, self.key.as_ref()))
    }

    /// I3.
    pub(crate) fn cleaned(&self, trouble: Trouble) -> Trouble {
        let message = redacted(self.key.as_ref(), &trouble.message);
        let message = message.chars().map(|c| if c.is_control() { ' ' } else { c }).take(LONGEST).collect();
        let told = trouble.told.map(|told| server_text(&told, self.key.as_ref()));
        Trouble { message, told, ..trouble }
    }
}

/// The beginning of an error's body, as far as it has arrived, up to a limit.
pub(crate) async fn beginning(mut body: Incoming, silent_at: Instant) -> String {
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

/// Kind of a response.
pub(crate) enum ContentKind {
    Events,
    Json,
    Other(String),
}

pub(crate) fn content_kind(headers: &HeaderMap) -> ContentKind {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "text/event-stream" => ContentKind::Events,
        // Without a type the body may be anything; if it is not JSON, parsing fails.
        "" | "application/json" => ContentKind::Json,
        kind if kind.ends_with("+json") => ContentKind::Json,
        _ => ContentKind::Other(kind),
    }
}

/// The body of a response as it arrives (I1, I2).
#[derive(Debug)]
pub(crate) struct Pieces {
    body: Incoming,
    /// Data counts as a keep-alive until its reader finds a part of the reply.
    pub(crate) silence: Silence,
    read: usize,
}

impl Pieces {
    /// Wraps the body of a response.
    pub(crate) fn new(body: Incoming, silence: Silence) -> Self {
        Self { body, silence, read: 0 }
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Trouble> {
        // A body that arrives without a pause never lets the timer fire.
        if self.read > 0 && Instant::now() >= self.silence.end() {
            return Err(self.silence.trouble(Instant::now()));
        }
        loop {
            let frame = match timeout_at(self.silence.end(), self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => {
                    let message = format!("the connection broke during the answer ({})", root_cause(&error));
                    return Err(Trouble::later("stream-cut", message));
                }
                Ok(None) => return Ok(None),
                Err(_) => return Err(self.silence.trouble(Instant::now())),
            };
            // Trailers are not needed.
            if let Ok(bytes) = frame.into_data()
                && !bytes.is_empty()
            {
                self.read += bytes.len();
                self.silence.heard(Instant::now());
                return if self.read > MAX_ANSWER_BYTES {
                    Err(Trouble::too_large("answer"))
                } else {
                    Ok(Some(bytes))
                };
            }
        }
    }

    /// Reads the rest of the response, if it has arrived: a connection can be reused only if its response was read to the end.
    pub(crate) async fn drain(&mut self) {
        // The rest is not part of the reply, so errors do not matter.
        let _ = timeout(END, async { while let Ok(Some(_)) = self.next().await {} }).await;
    }

    /// The whole body. Slow servers keep the connection alive with white space, which JSON allows.
    pub(crate) async fn text(&mut self) -> Result<String, Trouble> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            if !piece.trim_ascii().is_empty() {
                self.silence.said(Instant::now());
            }
            bytes.extend_from_slice(&piece);
        }
        let text = utf8_text(&bytes).map_err(|_| Trouble::garbled("the server's answer is not UTF-8"))?;
        Ok(text.into_owned())
    }
}

/// Reads events until the reply is complete.
async fn read_events(pieces: &mut Pieces, reader: &mut ReplyReader) -> Result<(), Trouble> {
    let mut sse = SseReader::default();
    let mut events = Vec::new();
    while let Some(bytes) = pieces.next().await? {
        sse.push(&bytes, &mut events).map_err(garbled_events)?;
        for event in events.drain(..) {
            match reader.event(&event)? {
                Heard::KeepAlive => {}
                Heard::Part => pieces.silence.said(Instant::now()),
                Heard::End => {
                    pieces.drain().await;
                    return Ok(());
                }
            }
        }
    }
    // The remaining event has no end. If it cannot be parsed, the stream was cut.
    let cut = || Trouble::later("stream-cut", "the server's answer breaks off within an event");
    sse.finish(&mut events).map_err(|_| cut())?;
    for event in events {
        reader
            .event(&event)
            .map_err(|trouble| if trouble.remedy == Remedy::Once { cut() } else { trouble })?;
    }
    Ok(())
}

pub(crate) fn garbled_events(error: SseError) -> Trouble {
    match error {
        SseError::NotUtf8 => Trouble::garbled("the server streams bytes that are not UTF-8"),
        SseError::TooLarge => Trouble::too_large("event"),
    }
}

/// Parses responses of one dialect.
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

    fn event(&mut self, event: &Event) -> Result<Heard, Trouble> {
        match self {
            _ if event.is_error() => Err(broken_off(&event.data)),
            Self::Openai(reply) => reply.event(&event.data),
            Self::Anthropic(reply) => reply.event(&event.data),
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
