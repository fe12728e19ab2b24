//! The HTTP client of a policy.
//!
//! Only HTTP/1.1: each request has its own connection, so thousands run at once regardless of a server's limit of streams
//! per connection. Closing the connection cancels a reply, which every server notices. Redirects are not followed and
//! proxies not used, so the key goes only to the named host. TLS uses the system's trusted certificates.
//!
//! Cancellation: dropping a response closes its connection.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::trouble::Trouble;

/// Idle connections are closed before the server closes them: uvicorn waits five seconds, and a request that meets a closing
/// connection is lost.
const IDLE: Duration = Duration::from_secs(4);

/// Interval of TCP keep-alives, which detect a vanished peer before the stall timeout.
const PROBE: Duration = Duration::from_secs(30);

/// Shared by all requests; clones share the connections.
#[derive(Debug, Clone)]
pub(crate) enum HttpClient {
    /// For `http://`, so that a machine without certificates can use a local server.
    Open(Client<HttpConnector, Full<Bytes>>),
    /// For `https://`.
    Secure(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

impl HttpClient {
    /// Creates a client for a base URL, with `connect` as the timeout for connecting.
    ///
    /// # Errors
    /// If the system's certificates cannot be read.
    pub(crate) fn new(base_url: &str, connect: Duration) -> Result<Self, std::io::Error> {
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(connect));
        tcp.set_keepalive(Some(PROBE));
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        if base_url.starts_with("http://") {
            return Ok(Self::Open(builder.build(tcp)));
        }
        let connector = HttpsConnectorBuilder::new().with_native_roots()?.https_only().enable_http1();
        Ok(Self::Secure(builder.build(connector.wrap_connector(tcp))))
    }

    /// Sends a request and returns after the head of the response.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Trouble> {
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let sent = match self {
            Self::Open(client) => client.request(request).await,
            Self::Secure(client) => client.request(request).await,
        };
        sent.map_err(|error| trouble_of(&error, &host))
    }
}

fn trouble_of(error: &Error, host: &str) -> Trouble {
    let cause = root_cause(error);
    if cause.contains("certificate") || cause.contains("TLS") || cause.contains("InvalidContentType") {
        let help =
            "the certificate has to be one that this machine trusts; a server without TLS is `http://`";
        return Trouble::permanent(
            "tls-refused",
            format!("no secure connection to {host} ({cause}); {help}"),
        );
    }
    if error.is_connect() {
        let help = "check that the server runs, and host and port of the base URL";
        return Trouble::later("server-unreachable", format!("no connection to {host} ({cause}); {help}"));
    }
    Trouble::later("stream-cut", format!("{host} closed the connection before it answered ({cause})"))
}

/// The innermost error: the outer ones only name the layer.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
