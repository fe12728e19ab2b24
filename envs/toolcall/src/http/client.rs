//! The HTTP client of tools.
//!
//! HTTP/1.1 only; redirects are not followed here and proxies not used, so a secret is sent to the named host and
//! nowhere else. TLS trusts the machine's certificates. Compression is not requested.
//!
//! Cancellation: dropping a response closes its connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::destinations::Destinations;
use super::dial::{DialError, Dialer};

/// Idle connections are closed before servers do it: a request on a closing connection is lost.
const IDLE: Duration = Duration::from_secs(4);

/// The User-Agent header.
pub(crate) const USER_AGENT: &str = concat!("clawrl/", env!("CARGO_PKG_VERSION"));

/// A client; clones share its connections.
#[derive(Debug, Clone)]
pub(crate) enum HttpClient {
    /// For `http://`, so that a machine without certificates can use a local server.
    Open(Client<Dialer, Full<Bytes>>),
    /// For `https://`.
    Secure(Client<HttpsConnector<Dialer>, Full<Bytes>>),
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SendError {
    /// The request is not permitted.
    Refused(String),
    /// The server or the network failed.
    Failed(String),
}

impl HttpClient {
    fn new(is_secure: bool, destinations: Destinations) -> Result<Self, std::io::Error> {
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE);
        let dialer = Dialer::new(destinations);
        if !is_secure {
            return Ok(Self::Open(builder.build(dialer)));
        }
        let connector = HttpsConnectorBuilder::new().with_native_roots()?.https_only().enable_http1();
        Ok(Self::Secure(builder.build(connector.wrap_connector(dialer))))
    }

    /// Sends a request; ready with the head of the response.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, SendError> {
        let sent = match self {
            Self::Open(client) => client.request(request).await,
            Self::Secure(client) => client.request(request).await,
        };
        sent.map_err(|error| trouble_of(&error))
    }
}

fn trouble_of(error: &Error) -> SendError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = source {
        match current.downcast_ref::<DialError>() {
            Some(DialError::Refused(reason)) => return SendError::Refused(reason.clone()),
            Some(DialError::Unreachable(reason)) => return SendError::Failed(reason.clone()),
            None => source = current.source(),
        }
    }
    SendError::Failed(root_cause(error))
}

/// The innermost error: the outer ones only name layers.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The clients of a run: reading the machine's certificates takes longer than a request.
#[derive(Debug, Default)]
pub(crate) struct HttpClients {
    made: Mutex<HashMap<(bool, Destinations), HttpClient>>,
}

impl HttpClients {
    /// The client for a scheme and a set of destinations.
    ///
    /// # Errors
    /// The machine's certificates cannot be read.
    pub(crate) fn get(
        self: &Arc<Self>,
        scheme: &str,
        destinations: &Destinations,
    ) -> Result<HttpClient, std::io::Error> {
        let key = (scheme == "https", destinations.clone());
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = made.get(&key) {
            return Ok(client.clone());
        }
        let client = HttpClient::new(key.0, key.1.clone())?;
        made.insert(key, client.clone());
        Ok(client)
    }
}
