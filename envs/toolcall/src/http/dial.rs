//! Connections, each to exactly the address that was looked at.
//!
//! D1. A name is looked up once for a connection, and what was judged is what is connected to: nobody can answer a second
//! question differently. D2. A name of which one address may not be reached is not reached at all.
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

/// A host that has not answered by then is not there.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Makes connections within a reach.
#[derive(Debug, Clone)]
pub(crate) struct Dialer {
    destinations: Arc<Destinations>,
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DialError {
    /// It leads where nothing may lead.
    Refused(String),
    /// Nobody is there.
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
    let unknown = |error| DialError::Unreachable(format!("{host} is not known: {error}"));
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await.map_err(unknown)?.collect();
    let is_localhost = is_localhost(host);
    if let Some(address) = addresses.iter().find(|address| !destinations.allows(address.ip(), is_localhost)) {
        let reason =
            format!("{host} leads to {}, which is no public address, and is not allowed", address.ip());
        return Err(DialError::Refused(reason));
    }
    let mut last = DialError::Unreachable(format!("{host} has no address"));
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Requests are small and waited for; it is no matter where this cannot be set.
                let _ = stream.set_nodelay(true);
                return Ok(TokioIo::new(stream));
            }
            Err(error) => last = DialError::Unreachable(format!("no connection to {host}:{port}: {error}")),
        }
    }
    Err(last)
}
