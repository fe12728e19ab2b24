//! Container engines over TCP: with TLS, using the certificates of the program `docker`, or without.
//!
//! TCP_NODELAY is set: an engine answers a request of two packets after the second one, which would otherwise wait 40
//! ms for the acknowledgement of the first. Only the named certificate authority is trusted, none of the machine's
//! others.

use std::io;
use std::path::Path;
use std::time::Duration;

use bollard::errors::Error;
use bollard::{BollardRequest, ClientVersion, Docker};
use clawrl_core::error_text;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// Detects a machine that disappeared without closing the connection.
const PROBE: Duration = Duration::from_secs(30);

/// A client for an engine at `HOST:PORT`, with the folder of certificates for TLS.
///
/// # Errors
/// Certificates that cannot be read or do not match each other.
pub(crate) fn client(
    place: &str,
    certificates: Option<&Path>,
    limit_secs: u64,
    version: &ClientVersion,
) -> Result<Docker, Error> {
    let place = &with_port(place, certificates.is_some());
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_LIMIT));
    tcp.set_keepalive(Some(PROBE));
    tcp.enforce_http(false);
    match certificates {
        None => over(tcp, &format!("http://{place}"), limit_secs, version),
        Some(folder) => {
            let config = tls(folder).map_err(|err| Error::IOError { err })?;
            let connector = HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1();
            over(connector.wrap_connector(tcp), &format!("https://{place}"), limit_secs, version)
        }
    }
}

/// Adds the default port if none is named, as the program `docker` does.
fn with_port(place: &str, is_tls: bool) -> String {
    let after_host = place.rfind(']').map_or(place, |end| &place[end..]);
    if after_host.contains(':') {
        return place.to_owned();
    }
    format!("{}:{}", place.trim_end_matches('/'), if is_tls { 2376 } else { 2375 })
}

fn over(
    connector: impl Connect + Clone + Send + Sync + 'static,
    address: &str,
    limit_secs: u64,
    version: &ClientVersion,
) -> Result<Docker, Error> {
    // Each request has its own connection: an engine may close an idle one just when it is used.
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    let transport = move |request: BollardRequest| {
        let asked = client.request(request);
        async move { asked.await.map_err(|error| Error::IOError { err: io::Error::other(error_text(&error)) }) }
    };
    Docker::connect_with_custom_transport(transport, Some(address), limit_secs, version)
}

fn tls(folder: &Path) -> io::Result<ClientConfig> {
    let failed = |name: &str, error: &dyn std::fmt::Display| {
        io::Error::other(format!("{}: {error}", folder.join(name).display()))
    };
    let certificates = |name: &'static str| -> io::Result<Vec<CertificateDer<'static>>> {
        let read = CertificateDer::pem_file_iter(folder.join(name)).and_then(Iterator::collect);
        let found: Vec<_> = read.map_err(|error| failed(name, &error))?;
        if found.is_empty() { Err(failed(name, &"it contains no certificate")) } else { Ok(found) }
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates("ca.pem")? {
        roots.add(authority).map_err(|error| failed("ca.pem", &error))?;
    }
    let own = certificates("cert.pem")?;
    let key =
        PrivateKeyDer::from_pem_file(folder.join("key.pem")).map_err(|error| failed("key.pem", &error))?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(own, key);
    config.map_err(|error| failed("key.pem", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_port_is_added() {
        let check =
            |place: &str, is_tls, expected: &str| assert_eq!(with_port(place, is_tls), expected, "{place}");
        check("host", false, "host:2375");
        check("host", true, "host:2376");
        check("host:1", true, "host:1");
        check("[::1]", true, "[::1]:2376");
        check("[::1]:1", false, "[::1]:1");
    }
}
