//! The HTTP client that the attempts of a run share, which also makes connections for other protocols.
//!
//! HTTP/1.1 only. Redirects are not followed and proxies not used: requests go to the named host. TLS trusts the
//! machine's certificates.
//!
//! I1. A request that may have reached the server in part is never sent again.
//!
//! Cancellation: dropping a request closes its connection.

use std::time::Duration;

use clawrl_core::Retry;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{Method, Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::message::shown;
use crate::peer_error::PeerError;
use crate::process::too_large;

const CONNECT: Duration = Duration::from_secs(10);

/// Idle connections are closed before servers do it: uvicorn waits five seconds, and a request on a closing connection
/// is lost.
const IDLE: Duration = Duration::from_secs(4);

/// Detects a peer that disappeared without closing the connection, even if an answer would be awaited for longer.
const PROBE: Duration = Duration::from_secs(30);

/// Clones share the connections.
#[derive(Debug, Clone)]
pub(crate) enum HttpClient {
    /// For `http://`, so that a machine without certificates can use a local server.
    Open(HttpConnector, Client<HttpConnector, Full<Bytes>>),
    /// For `https://`.
    Secure(HttpsConnector<HttpConnector>, Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

/// A connection for any protocol.
pub(crate) type Connection = TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>;

/// The body of a success, or why there is none.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) body: Vec<u8>,
}

impl HttpClient {
    /// A client for servers at this address.
    ///
    /// # Errors
    /// The machine's certificates cannot be read.
    pub(crate) fn new(base_url: &str) -> Result<Self, std::io::Error> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT));
        tcp.set_keepalive(Some(PROBE));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        if base_url.starts_with("http://") {
            return Ok(Self::Open(tcp.clone(), builder.build(tcp)));
        }
        let connector = HttpsConnectorBuilder::new().with_native_roots()?.https_only().enable_http1();
        let connector = connector.wrap_connector(tcp);
        Ok(Self::Secure(connector.clone(), builder.build(connector)))
    }

    /// Connects to the server of an address, as for a request to it.
    pub(crate) async fn dial(&self, url: &str) -> Result<Connection, PeerError> {
        let uri = address(url)?;
        // Neither of them needs to be polled for readiness.
        let stream = match self {
            Self::Open(tcp, _) => {
                let stream = tcp.clone().call(uri).await.map_err(|error| unconnected(&error, url))?;
                MaybeHttpsStream::Http(stream)
            }
            Self::Secure(connector, _) => {
                let dialed = connector.clone().call(uri).await;
                dialed.map_err(|error| unconnected(error.as_ref(), url))?
            }
        };
        Ok(TokioIo::new(stream))
    }

    /// Sends JSON and reads the whole answer, up to `most` bytes.
    pub(crate) async fn post(&self, url: &str, body: String, most: usize) -> Result<Answered, PeerError> {
        self.send(Method::POST, url, body, most).await
    }

    pub(crate) async fn get(&self, url: &str, most: usize) -> Result<Answered, PeerError> {
        self.send(Method::GET, url, String::new(), most).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        body: String,
        most: usize,
    ) -> Result<Answered, PeerError> {
        let uri = address(url)?;
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("clawrl/", env!("CARGO_PKG_VERSION"))));
        let sent = match self {
            Self::Open(_, client) => client.request(request).await,
            Self::Secure(_, client) => client.request(request).await,
        };
        let response = sent.map_err(|error| unsent(&error, url))?;
        let status = response.status();
        let body = whole(response.into_body(), url, most).await?;
        Ok(Answered { status, body })
    }
}

fn address(url: &str) -> Result<Uri, PeerError> {
    url.parse().map_err(|error| {
        PeerError::permanent("server-unreachable", format!("`{url}` is not an address: {error}"))
    })
}

async fn whole(mut body: Incoming, url: &str, most: usize) -> Result<Vec<u8>, PeerError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let message = format!("the answer of {url} ended early ({})", root_cause(&error));
            PeerError::transient("connection-lost", message)
        })?;
        // Trailers carry nothing that is needed.
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > most {
                return Err(too_large(most));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

impl Answered {
    /// The error for a status that is not a success.
    pub(crate) fn refusal(&self, url: &str) -> PeerError {
        let status = self.status;
        let message = format!("{url} answered with HTTP {} and {}", status.as_u16(), shown(&self.body));
        let again = status.is_server_error()
            || status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT;
        let retry = if again { Retry::Sound } else { Retry::Never };
        PeerError::Wrong { code: "http-status", message, retry }
    }
}

fn unsent(error: &Error, url: &str) -> PeerError {
    if error.is_connect() {
        return unconnected(error, url);
    }
    let cause = root_cause(error);
    PeerError::transient(
        "connection-lost",
        format!("the connection for {url} ended before the answer ({cause})"),
    )
}

fn unconnected(error: &(dyn std::error::Error + 'static), url: &str) -> PeerError {
    let cause = root_cause(error);
    let message = format!(
        "failed to connect to {url} ({cause}): check that the server runs, and the host and port of `base_url`"
    );
    PeerError::transient("server-unreachable", message)
}

/// The innermost error: the outer ones only name layers.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
