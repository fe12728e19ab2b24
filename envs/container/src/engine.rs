//! Container engines: addresses, properties, and the meaning of their errors.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use bollard::errors::Error;
use bollard::{ClientVersion, Docker};
use clawrl_core::{Boundary, Fault};

use crate::tcp;

/// Default address.
pub const DEFAULT_SOCKET: &str = "unix:///var/run/docker.sock";

const UNIX: &str = "unix://";
const TCP: &str = "tcp://";

/// Timeout of a request, seconds. Builds and pulls send data continuously.
const REQUEST_SECONDS: u64 = 120;

/// The oldest supported API version, spoken by Docker 20.10.
const MIN_API_VERSION: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };

/// How to connect to container engines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineAccess {
    /// As in `DOCKER_HOST`, or several of these with commas between them: `unix://PATH`, `tcp://HOST:PORT`.
    pub addresses: String,
    /// Folder of `ca.pem`, `cert.pem` and `key.pem` for TCP addresses, as in `DOCKER_CERT_PATH`. `None`: no TLS,
    /// allowed only for addresses of this machine.
    pub certificates: Option<PathBuf>,
}

impl EngineAccess {
    /// For engines that need no certificates.
    #[must_use]
    pub fn new(addresses: impl Into<String>) -> Self {
        Self { addresses: addresses.into(), certificates: None }
    }
}

/// Properties of a container engine.
#[derive(Debug, Clone)]
pub struct EngineReport {
    /// Its address.
    pub socket: String,
    /// Its version.
    pub version: String,
    /// Its storage driver.
    pub storage: String,
    /// Limits that cannot be set, shown at the start of a run and kept in its record.
    pub unavailable: Vec<String>,
    /// Whether a program beside the engine starts the programs in its containers, because this process cannot enter
    /// them.
    pub through_node: bool,
    certificates: Option<PathBuf>,
    api: (usize, usize),
    /// Identifies the engine: its own id, and its storage folder. Engines up to Docker 23 take the id from a file that
    /// all engines of a machine share.
    pub(crate) id: String,
}

impl EngineReport {
    /// A client. It makes its connections in the runtime that it is used in.
    pub(crate) fn client(&self) -> Result<Docker, Fault> {
        let api = ClientVersion { major_version: self.api.0, minor_version: self.api.1 };
        connect(&self.socket, self.certificates.as_deref(), &api)
            .map_err(|error| no_engine(&self.socket, &error))
    }
}

fn connect(address: &str, certificates: Option<&Path>, version: &ClientVersion) -> Result<Docker, Error> {
    match address.strip_prefix(TCP) {
        None => Docker::connect_with_unix(address, REQUEST_SECONDS, version),
        Some(place) => tcp::client(place, certificates, REQUEST_SECONDS, version),
    }
}

/// Probes container engines. One that is named twice is returned once.
///
/// # Errors
/// As [`probe_engine`], for the first one that fails.
pub async fn probe_engines(access: &EngineAccess) -> Result<Vec<EngineReport>, Fault> {
    let mut engines: Vec<EngineReport> = Vec::new();
    for address in access.addresses.split(',').map(str::trim).filter(|address| !address.is_empty()) {
        let engine = probe_engine(address, access.certificates.as_deref()).await?;
        let is_that = |other: &EngineReport| other.socket == engine.socket || other.id == engine.id;
        if !engines.iter().any(is_that) {
            engines.push(engine);
        }
    }
    if engines.is_empty() {
        let message =
            "DOCKER_HOST is empty; set it to a container engine (unix://PATH, tcp://HOST:PORT), or unset it";
        return Err(Fault::permanent(Boundary::Provider, "engine-missing", message));
    }
    Ok(engines)
}

/// Probes a container engine, with the folder of certificates for a TCP address.
///
/// # Errors
/// A permanent provider [`Fault`] (`engine-missing`, `engine-address`, `engine-without-tls`, `engine-old`,
/// `engine-machine`).
pub async fn probe_engine(address: &str, certificates: Option<&Path>) -> Result<EngineReport, Fault> {
    let refuse = |code, message: String| Err(Fault::permanent(Boundary::Provider, code, message));
    let is_local = address.starts_with(UNIX);
    let certificates = certificates.filter(|_| !is_local);
    match address.strip_prefix(TCP) {
        _ if is_local => {}
        None => {
            let message = format!(
                "invalid container engine address {address}; set DOCKER_HOST to unix://PATH or tcp://HOST:PORT"
            );
            return refuse("engine-address", message);
        }
        Some(place) if certificates.is_none() && !is_of_this_machine(place) => {
            let message = format!(
                "{address} is another machine, and access to its container engine means root there: set \
                 DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the folder with ca.pem, cert.pem and key.pem"
            );
            return refuse("engine-without-tls", message);
        }
        Some(_) => {}
    }
    let missing = |error: Error| no_engine(address, &error);
    let docker = connect(address, certificates, bollard::API_DEFAULT_VERSION).map_err(missing)?;
    // The client's own version is newer than what engines of distributions speak.
    let docker = docker.negotiate_version().await.map_err(missing)?;
    let spoken = docker.client_version();
    let api = (spoken.major_version, spoken.minor_version);
    if api < (MIN_API_VERSION.major_version, MIN_API_VERSION.minor_version) {
        let message = format!(
            "the container engine at {address} speaks API {}.{}, but at least {MIN_API_VERSION} is needed: \
             update it",
            api.0, api.1
        );
        return refuse("engine-old", message);
    }
    let info = docker.info().await.map_err(missing)?;
    let through_node = !is_local || !rustix::process::geteuid().is_root();
    let machine = info.architecture.unwrap_or_default();
    if through_node && machine != std::env::consts::ARCH {
        let message = format!(
            "the container engine at {address} runs on another architecture ({machine}, here {}): use an \
             engine of this machine's architecture, or run `clawrl` there",
            std::env::consts::ARCH
        );
        return refuse("engine-machine", message);
    }
    let mut unavailable = vec!["disk of a container (the container engine cannot limit it)".to_owned()];
    let lacking = [
        (info.memory_limit, "memory of a container (the container engine cannot limit it here)"),
        (info.pids_limit, "processes of a container (the container engine cannot limit them here)"),
        (info.cpu_cfs_quota, "cpu share of a container (the container engine cannot limit it here)"),
    ];
    unavailable
        .extend(lacking.iter().filter(|(can, _)| *can == Some(false)).map(|(_, what)| (*what).to_owned()));
    Ok(EngineReport {
        socket: address.to_owned(),
        version: info.server_version.unwrap_or_else(|| "unknown".to_owned()),
        storage: info.driver.unwrap_or_else(|| "unknown".to_owned()),
        unavailable,
        through_node,
        certificates: certificates.map(Path::to_owned),
        api,
        id: format!("{} {}", info.id.unwrap_or_default(), info.docker_root_dir.unwrap_or_default()),
    })
}

/// Whether traffic to `HOST:PORT` stays on this machine, whatever a name server answers.
fn is_of_this_machine(place: &str) -> bool {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn no_engine(socket: &str, error: &Error) -> Fault {
    let advice = if socket.starts_with(UNIX) {
        "run `apt-get install docker.io`, or set DOCKER_HOST to another engine's address"
    } else {
        "if it requires TLS, set DOCKER_TLS_VERIFY=1, and DOCKER_CERT_PATH to the folder with ca.pem, \
         cert.pem and key.pem"
    };
    let message = format!("no container engine answers at {socket}: {error}; {advice}");
    Fault::permanent(Boundary::Provider, "engine-missing", message)
}

/// The fault for a failed request: refusals are permanent; a broken connection may come back.
pub(crate) fn refused(what: &str, error: &Error) -> Fault {
    match error {
        Error::DockerResponseServerError { status_code: 400..=404, message } => {
            Fault::permanent(Boundary::Provider, "engine-refuses", format!("{what}: {message}"))
        }
        other => Fault::transient(Boundary::Provider, "engine", format!("{what}: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_of_this_machine() {
        let check = |place: &str, expected: bool| assert_eq!(is_of_this_machine(place), expected, "{place}");
        check("127.0.0.1:2375", true);
        check("localhost:2375", true);
        check("[::1]:2375", true);
        check("10.0.0.1:2375", false);
        check("localhost.example:2375", false);
        check("127.0.0.1.example", false);
    }
}
