//! Connections to origins, each to exactly the addresses that were looked at.
//!
//! D1. A name is looked up once for a connection, and what was judged is what is connected to: nobody can answer a second
//! question differently. D2. A name of which one address may not be reached is not reached at all.
//!
//! Cancellation: dropping the future ends the attempt to connect.

use std::net::SocketAddr;
use std::time::Duration;

use clawrl_core::{is_localhost, is_public};
use tokio::net::TcpStream;
use url::Host;

use crate::site::Origin;

/// A host that has not answered by then is not there.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DialError {
    /// It leads where nothing may lead.
    RefusedOrigins(String),
    /// Nobody is there.
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
            let unknown = |error| DialError::Unreachable(format!("{name} is not known: {error}"));
            let found = tokio::net::lookup_host((name.as_str(), origin.port)).await.map_err(unknown)?;
            judged(name, found.collect())?
        }
    };
    let mut last = DialError::Unreachable(format!("{origin} has no address"));
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                // It is no matter where this cannot be set.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = DialError::Unreachable(format!("no connection to {origin}: {error}")),
        }
    }
    Err(last)
}

/// The addresses of a name, if all of them may be reached by it: public ones, and this machine by the name it has for
/// itself.
fn judged(name: &str, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, DialError> {
    let is_reached =
        |address: &SocketAddr| is_public(address.ip()) || (is_localhost(name) && address.ip().is_loopback());
    match addresses.iter().find(|address| !is_reached(address)) {
        Some(address) => {
            let reason = format!("{name} leads to {}, which is no public address", address.ip());
            Err(DialError::RefusedOrigins(reason))
        }
        None => Ok(addresses),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, addresses: &[&str], expected: bool) {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        assert_eq!(judged(name, addresses.clone()).is_ok(), expected, "{name} at {addresses:?}");
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
