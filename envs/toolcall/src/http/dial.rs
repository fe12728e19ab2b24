//! Connects to addresses that were checked, and to no others.
//!
//! D1. A name is resolved once per connection, and the checked address is the one connected to: a second, different
//! answer of the name server cannot be used.
//! D2. If one address of a name is forbidden, the whole name is.
//!
//! Cancellation: dropping the future ends the attempt to connect.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use clawrl_core::{BoxFuture, is_localhost};
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::destinations::Destinations;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Connects to permitted destinations.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    destinations: Arc<Destinations>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DialError {
    Refused(String),
    Unreachable(String),
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) | Self::Unreachable(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for DialError {}

impl Dialer {
    pub(super) fn new(destinations: Destinations) -> Self {
        Self { destinations: Arc::new(destinations) }
    }
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = DialError;
    type Future = BoxFuture<'static, Result<Self::Response, DialError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let destinations = Arc::clone(&self.destinations);
        Box::pin(async move {
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
            let late = |_| DialError::Unreachable(format!("{host} does not answer"));
            tokio::time::timeout(CONNECT_LIMIT, connect(&destinations, &host, port)).await.map_err(late)?
        })
    }
}

async fn connect(
    destinations: &Destinations,
    host: &str,
    port: u16,
) -> Result<TokioIo<TcpStream>, DialError> {
    let unknown = |error| DialError::Unreachable(format!("failed to resolve {host}: {error}"));
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await.map_err(unknown)?.collect();
    let is_localhost = is_localhost(host);
    if let Some(address) = addresses.iter().find(|address| !destinations.allows(address.ip(), is_localhost)) {
        let reason = format!("{host} resolves to {}, which is neither public nor allowed", address.ip());
        return Err(DialError::Refused(reason));
    }
    let mut last = DialError::Unreachable(format!("{host} does not resolve"));
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Requests are small and wait for their responses; best effort.
                let _ = stream.set_nodelay(true);
                return Ok(TokioIo::new(stream));
            }
            Err(error) => {
                last = DialError::Unreachable(format!("failed to connect to {host}:{port}: {error}"))
            }
        }
    }
    Err(last)
}
