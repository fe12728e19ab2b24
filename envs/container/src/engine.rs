//! The engine: where it listens, what it is, and what its refusals mean.

use bollard::errors::Error;
use bollard::{ClientVersion, Docker};
use clawrl_core::{Boundary, Fault};

/// Where an engine listens unless told otherwise.
pub const DEFAULT_SOCKET: &str = "unix:///var/run/docker.sock";

/// A request that takes longer is given up, in seconds. Builds and fetches send something all the time.
const REQUEST_SECONDS: u64 = 120;

/// The oldest version of the API that we speak; the engine of Docker 20.10 speaks it.
const OLDEST: ClientVersion = ClientVersion { major_version: 1, minor_version: 41 };

/// What was found.
#[derive(Debug, Clone)]
pub struct EngineReport {
    /// Where it listens.
    pub socket: String,
    /// Its own version.
    pub version: String,
    /// What it keeps containers in.
    pub storage: String,
    /// Limits that cannot be set, for the start of a run and for its record.
    pub unavailable: Vec<String>,
    pub(crate) api: (usize, usize),
}

impl EngineReport {
    /// A client. It makes its connections in the runtime that it is used in.
    pub(crate) fn client(&self) -> Result<Docker, Fault> {
        let api = ClientVersion { major_version: self.api.0, minor_version: self.api.1 };
        Docker::connect_with_unix(&self.socket, REQUEST_SECONDS, &api)
            .map_err(|error| no_engine(&self.socket, &error))
    }
}

/// Looks for an engine that containers can be entered of. `socket` is as in `DOCKER_HOST`.
///
/// # Errors
/// A permanent provider [`Fault`] (`engine-missing`, `engine-remote`, `engine-needs-root`, `engine-old`).
pub async fn probe_engine(socket: &str) -> Result<EngineReport, Fault> {
    let refuse = |code, message: String| Err(Fault::permanent(Boundary::Provider, code, message));
    if !socket.starts_with("unix://") {
        let message = format!(
            "containers need a local engine and root: {socket} is somewhere else, and programs are started in containers \
             without the engine; unset DOCKER_HOST, or let it name a unix:// socket of this machine"
        );
        return refuse("engine-remote", message);
    }
    if !rustix::process::geteuid().is_root() {
        let message = "containers need a local engine and root: programs are started in them without the engine, by entering \
                       their namespaces; run `clawrl` as root, or use `sandbox: bubblewrap` with `image: { rootfs: FOLDER }`";
        return refuse("engine-needs-root", message.to_owned());
    }
    let missing = |error: Error| no_engine(socket, &error);
    let docker =
        Docker::connect_with_unix(socket, REQUEST_SECONDS, bollard::API_DEFAULT_VERSION).map_err(missing)?;
    // The client's own version is newer than what engines of distributions speak.
    let docker = docker.negotiate_version().await.map_err(missing)?;
    let spoken = docker.client_version();
    let api = (spoken.major_version, spoken.minor_version);
    if api < (OLDEST.major_version, OLDEST.minor_version) {
        let message = format!(
            "the engine at {socket} speaks API {}.{}; at least {OLDEST} is needed: update it",
            api.0, api.1
        );
        return refuse("engine-old", message);
    }
    let info = docker.info().await.map_err(missing)?;
    let mut unavailable = vec!["disk of a container (the engine sets none for each)".to_owned()];
    let lacking = [
        (info.memory_limit, "memory of a container (the engine cannot limit it here)"),
        (info.pids_limit, "processes of a container (the engine cannot limit them here)"),
        (info.cpu_cfs_quota, "cpu share of a container (the engine cannot limit it here)"),
    ];
    unavailable
        .extend(lacking.iter().filter(|(can, _)| *can == Some(false)).map(|(_, what)| (*what).to_owned()));
    Ok(EngineReport {
        socket: socket.to_owned(),
        version: info.server_version.unwrap_or_else(|| "unknown".to_owned()),
        storage: info.driver.unwrap_or_else(|| "unknown".to_owned()),
        unavailable,
        api,
    })
}

fn no_engine(socket: &str, error: &Error) -> Fault {
    let message = format!(
        "no container engine answers at {socket}: {error}; `apt-get install docker.io` or your system's package brings one, \
         DOCKER_HOST says where another listens"
    );
    Fault::permanent(Boundary::Provider, "engine-missing", message)
}

/// What a failed request means: what the engine refuses it refuses again; a broken connection may come back.
pub(crate) fn refused(what: &str, error: &Error) -> Fault {
    match error {
        Error::DockerResponseServerError { status_code: 400..=404, message } => {
            Fault::permanent(Boundary::Provider, "engine-refuses", format!("{what}: {message}"))
        }
        other => Fault::transient(Boundary::Provider, "engine", format!("{what}: {other}")),
    }
}
