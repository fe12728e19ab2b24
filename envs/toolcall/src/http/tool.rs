//! The tool `http`: this process makes requests to permitted URLs.
//!
//! H1. Every request, redirects included, is to a URL that starts with a permitted one, at a public address or a listed
//! one.
//! H2. Memory is bounded: [`TEXT_BYTES`] of a response are kept, the rest is counted.
//! H3. An unreachable host is a fault and never a result, so it is never scored: the suite chooses the hosts, not the
//! agent. A response that takes too long is a result, as with every tool.
//!
//! Cancellation: dropping the future closes the connection.

use std::sync::Arc;

use clawrl_core::{AllowedUrl, Boundary, Fault, ToolKind, requested_url};
use http::header::{CONTENT_TYPE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use url::Url;

use super::client::{self, HttpClients, SendError, root_cause};
use super::destinations::Destinations;
use super::http_request::HttpRequest;
use crate::result::{CallResult, CallTimeout, Outcome};
use crate::secret::Secrets;

/// Maximum bytes of a response that are kept.
const TEXT_BYTES: usize = 1 << 20;

/// Maximum bytes of a response that are counted; more are not read.
const COUNTED_BYTES: u64 = 64 << 20;

const MAX_REDIRECTS: usize = 5;

/// A tool that makes requests.
#[derive(Debug)]
pub(crate) struct HttpTool {
    clients: Arc<HttpClients>,
    allowed: Vec<AllowedUrl>,
    destinations: Destinations,
    methods: Vec<String>,
    headers: HeaderMap,
    allow_headers: Vec<String>,
}

enum Answer {
    Redirected(Url, StatusCode),
    Whole(CallResult),
}

impl HttpTool {
    /// A tool of this kind; `None` for other kinds.
    ///
    /// # Errors
    /// A permanent provider [`Fault`]: a secret that is not set, or settings that a checked suite cannot contain.
    pub(crate) fn new(
        name: &str,
        kind: &ToolKind,
        secrets: &Secrets,
        clients: &Arc<HttpClients>,
    ) -> Result<Option<Self>, Fault> {
        let ToolKind::Http { allow, methods, headers, allow_headers } = kind else { return Ok(None) };
        let invalid = |reason: String| {
            Fault::permanent(Boundary::Provider, "tool-invalid", format!("the tool `{name}`: {reason}"))
        };
        let allowed: Vec<AllowedUrl> =
            allow.iter().map(|text| AllowedUrl::parse(text)).collect::<Result<_, _>>().map_err(invalid)?;
        let mut sent = header_map(&format!("tools: {name}: http"), headers, secrets)?;
        sent.entry(USER_AGENT).or_insert(HeaderValue::from_static(client::USER_AGENT));
        Ok(Some(Self {
            clients: Arc::clone(clients),
            destinations: Destinations::of(&allowed),
            allowed,
            methods: methods.clone(),
            headers: sent,
            allow_headers: allow_headers.clone(),
        }))
    }

    pub(super) fn allows(&self, url: &Url) -> bool {
        self.allowed.iter().any(|allowed| allowed.allows(url))
    }

    pub(super) fn beginnings(&self) -> String {
        self.allowed.iter().map(AllowedUrl::as_str).collect::<Vec<_>>().join(" or ")
    }

    pub(super) fn methods(&self) -> &[String] {
        &self.methods
    }

    pub(super) fn default_method(&self) -> &str {
        self.methods.first().map_or("GET", String::as_str)
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(super) fn may_set(&self, lower: &str) -> bool {
        self.allow_headers.iter().any(|name| name == lower)
    }

    /// Makes the request, and those that it is redirected to.
    ///
    /// # Errors
    /// A [`Fault`] when the host does not answer (H3).
    pub(crate) async fn call(
        &self,
        mut http_request: HttpRequest,
        allowance: CallTimeout,
    ) -> Result<CallResult, Fault> {
        let asked = async {
            for _ in 0..=MAX_REDIRECTS {
                match self.once(&http_request).await? {
                    Err(refused) => return Ok(CallResult::failed(refused)),
                    Ok(Answer::Whole(result)) => return Ok(result),
                    Ok(Answer::Redirected(url, status)) => {
                        if !self.allows(&url) {
                            let reason =
                                format!("{} sends on to {url}, which is not allowed", http_request.url);
                            return Ok(CallResult::failed(reason));
                        }
                        http_request = sent_on(http_request, url, status);
                    }
                }
            }
            Ok(CallResult::failed(format_args!("sent on more than {MAX_REDIRECTS} times")))
        };
        match tokio::time::timeout_at(allowance.until.into(), asked).await {
            Ok(result) => result,
            Err(_) => {
                let text = format!("error: no answer, ended {}", allowance.when());
                Ok(CallResult { outcome: Outcome::TimedOut, ..CallResult::done(text) })
            }
        }
    }

    /// Makes one request; the inner error says why it is not permitted.
    async fn once(&self, http_request: &HttpRequest) -> Result<Result<Answer, String>, Fault> {
        let client = self.clients.get(http_request.url.scheme(), &self.destinations).map_err(|error| {
            let message = format!("failed to read this machine's certificates: {error}");
            Fault::permanent(Boundary::Env, "http-certificates", message)
        })?;
        let mut request = Request::new(Full::new(http_request.body.clone()));
        *request.method_mut() = http_request.method.clone();
        *request.headers_mut() = http_request.headers.clone();
        *request.uri_mut() = match http_request.url.as_str().parse() {
            Ok(uri) => uri,
            Err(error) => return Ok(Err(format!("{} cannot be asked: {error}", http_request.url))),
        };
        match client.send(request).await {
            Ok(response) => self.read(http_request, response).await.map(Ok),
            Err(SendError::Refused(reason)) => Ok(Err(reason)),
            Err(SendError::Failed(reason)) => Err(unanswered(&http_request.url, &reason)),
        }
    }

    async fn read(&self, http_request: &HttpRequest, response: Response<Incoming>) -> Result<Answer, Fault> {
        let status = response.status();
        if matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
            && let Some(to) = response.headers().get(LOCATION).and_then(|value| value.to_str().ok())
            && let Ok(url) = http_request.url.join(to)
            // Parsed again: a server may send a URL that a call could not contain.
            && let Ok(mut url) = requested_url(url.as_str())
        {
            url.set_fragment(None);
            return Ok(Answer::Redirected(url, status));
        }
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (kept, left_out) =
            body(response.into_body()).await.map_err(|reason| unanswered(&http_request.url, &reason))?;
        Ok(Answer::Whole(response_text(status, kind.as_deref(), &kept, left_out)))
    }
}

/// Headers of a suite, with secrets filled in.
///
/// # Errors
/// A permanent provider [`Fault`]
pub(crate) fn header_map(
    place: &str,
    headers: &std::collections::BTreeMap<String, clawrl_core::TextSource>,
    secrets: &Secrets,
) -> Result<HeaderMap, Fault> {
    let mut map = HeaderMap::new();
    for (name, source) in headers {
        let place = format!("{place}: headers: {name}");
        let text = secrets.text(&place, source)?;
        let invalid = || {
            Fault::permanent(Boundary::Provider, "header-invalid", format!("{place}: invalid header value"))
        };
        let mut value = HeaderValue::from_str(text.trim()).map_err(|_| invalid())?;
        value.set_sensitive(source.variable().is_some());
        map.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?, value);
    }
    Ok(map)
}

fn unanswered(url: &Url, reason: &str) -> Fault {
    let host = url.host_str().unwrap_or_default();
    let message = format!("the `http` tool got no answer from {host}: {reason}");
    Fault::transient(Boundary::Env, "http-unanswered", message)
}

/// As browsers do: only 307 and 308 keep the method and the body.
fn sent_on(mut http_request: HttpRequest, url: Url, status: StatusCode) -> HttpRequest {
    if !matches!(status.as_u16(), 307 | 308) {
        http_request.body = Bytes::new();
        if http_request.method != Method::HEAD {
            http_request.method = Method::GET;
        }
    }
    http_request.url = url;
    http_request
}

/// The kept part of a body, and the number of bytes left out; `None` if there are more than are counted.
async fn body(mut body: Incoming) -> Result<(Vec<u8>, Option<u64>), String> {
    let (mut kept, mut left_out) = (Vec::new(), 0u64);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| format!("the answer ended early: {}", root_cause(&error)))?;
        let Ok(bytes) = frame.into_data() else { continue };
        let fits = bytes.len().min(TEXT_BYTES - kept.len());
        kept.extend_from_slice(&bytes[..fits]);
        left_out += (bytes.len() - fits) as u64;
        if left_out > COUNTED_BYTES {
            return Ok((kept, None));
        }
    }
    Ok((kept, Some(left_out)))
}

fn response_text(status: StatusCode, kind: Option<&str>, body: &[u8], left_out: Option<u64>) -> CallResult {
    let mut text = format!("[status {}]\n", status.as_u16());
    if let Some(kind) = kind {
        text.push_str(&format!("{kind}\n"));
    }
    // A character cut in two does not make a text binary.
    let is_text = match std::str::from_utf8(body) {
        Ok(text) => !text.contains('\0'),
        Err(error) => {
            left_out != Some(0) && error.error_len().is_none()
                || kind.is_some_and(|kind| kind.starts_with("text/"))
        }
    };
    if is_text {
        text.push_str(&String::from_utf8_lossy(body));
    } else {
        text.push_str(&format!("[{} bytes that are not text]", body.len()));
    }
    let cuts = if left_out == Some(0) { Vec::new() } else { vec![text.len()] };
    match left_out {
        Some(0) => {}
        Some(count) => text.push_str(&format!("\n[... {count} bytes left out ...]")),
        None => text.push_str(&format!("\n[... more than {COUNTED_BYTES} bytes left out ...]")),
    }
    CallResult { cuts, ..CallResult::done(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_text_has_status_type_and_body() {
        let check = |kind: Option<&str>, body: &[u8], left_out: Option<u64>, expected: &str| {
            let result = response_text(StatusCode::OK, kind, body, left_out);
            assert_eq!(result.text, expected);
            let cut = (left_out != Some(0)).then(|| expected.find("\n[...").unwrap());
            assert_eq!(result.cuts, Vec::from_iter(cut));
        };
        check(Some("text/plain"), b"a\n", Some(0), "[status 200]\ntext/plain\na\n");
        check(None, b"", Some(0), "[status 200]\n");
        check(
            Some("image/png"),
            b"\x89PNG\0",
            Some(0),
            "[status 200]\nimage/png\n[5 bytes that are not text]",
        );
        check(Some("text/html"), b"\xff", Some(0), "[status 200]\ntext/html\n\u{fffd}");
        check(
            None,
            "aé".as_bytes().split_at(2).0,
            Some(1),
            "[status 200]\na\u{fffd}\n[... 1 bytes left out ...]",
        );
        check(None, b"a", None, "[status 200]\na\n[... more than 67108864 bytes left out ...]");
    }
}
