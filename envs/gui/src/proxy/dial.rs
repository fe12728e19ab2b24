//! Connects to origins, and only to addresses that were checked.
//!
//! D1. A name is resolved once per connection, and the checked address is the one connected to: a second, different
//! answer of the name server cannot be used.
//! D2. If one address of a name is forbidden, the whole name is.
//!
//! Cancellation: dropping the future ends the attempt to connect.

use std::net::SocketAddr;
use std::time::Duration;

use clawrl_core::{is_localhost, is_public};
use tokio::net::TcpStream;
use url::Host;

use crate::site::Origin;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DialError {
    Refused(String),
    Unreachable(String),
}

/// Connects to an origin that the task names.
pub(super) async fn dial(origin: &Origin) -> Result<TcpStream, DialError> {
    let late = |_| DialError::Unreachable(format!("{origin} does not answer"));
    tokio::time::timeout(CONNECT_LIMIT, connect(origin)).await.map_err(late)?
}

async fn connect(origin: &Origin) -> Result<TcpStream, DialError> {
    let addresses: Vec<SocketAddr> = match &origin.host {
        Host::Ipv4(address) => vec![(*address, origin.port).into()],
        Host::Ipv6(address) => vec![(*address, origin.port).into()],
        Host::Domain(name) => {
            let unknown = |error| DialError::Unreachable(format!("failed to resolve {name}: {error}"));
            let found = tokio::net::lookup_host((name.as_str(), origin.port)).await.map_err(unknown)?;
            permitted(name, found.collect())?
        }
    };
    let mut last = DialError::Unreachable(format!("{origin} does not resolve"));
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // Best effort.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = DialError::Unreachable(format!("failed to connect to {origin}: {error}")),
        }
    }
    Err(last)
}

/// The addresses of a name, if all of them are permitted: public ones, and this machine by its own name.
fn permitted(name: &str, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, DialError> {
    let is_reached =
        |address: &SocketAddr| is_public(address.ip()) || (is_localhost(name) && address.ip().is_loopback());
    match addresses.iter().find(|address| !is_reached(address)) {
        Some(address) => {
            let reason = format!("{name} resolves to {}, which is not a public address", address.ip());
            Err(DialError::Refused(reason))
        }
        None => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, addresses: &[&str], expected: bool) {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        assert_eq!(permitted(name, addresses.clone()).is_ok(), expected, "{name} at {addresses:?}");
    }

    #[test]
    fn d2_names_lead_to_public_addresses() {
        check("example.org", &["93.184.215.14:80", "[2606:4700::1111]:80"], true);
        check("example.org", &["93.184.215.14:80", "127.0.0.1:80"], false);
        check("example.org", &["169.254.169.254:80"], false);
        check("example.org", &["[::ffff:10.0.0.1]:80"], false);
        check("localhost", &["127.0.0.1:80", "[::1]:80"], true);
        check("localhost", &["10.0.0.1:80"], false);
        check("localhost.example.org", &["127.0.0.1:80"], false);
    }
}
