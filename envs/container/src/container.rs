//! One container: created, started, and removed when it is no longer needed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigLogConfig, Mount, MountBindOptions, MountType,
};
use bollard::query_parameters::{
    InspectContainerOptions, InspectNetworkOptions, RemoveContainerOptions, StartContainerOptions,
};
use clawrl_core::{Boundary, Fault, NetworkPolicy, SandboxLimits};
use clawrl_sandbox::Live;
use tokio::runtime::Handle;

use crate::capabilities;
use crate::engine::refused;
use crate::engines::Engine;
use crate::image::IMAGE_GONE;
use crate::image_facts::ImageFacts;

/// The environment variable that identifies a container's first process.
pub(crate) const MARK: &str = "CLAWRL_CONTAINER";

/// The first process: it waits, cannot be ended from inside, and ignores SIGCHLD, so that the kernel reaps its orphans.
/// A shell that waits in a loop would end when it cannot fork.
const SLEEPER: [&str; 3] = ["bash", "-c", "trap '' CHLD; exec sleep 2147483647"];

/// Pauses between tries to remove a container.
const REMOVAL_PAUSES: [Duration; 5] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// The engine's default network.
const BRIDGE: &str = "bridge";

#[derive(Debug)]
pub(crate) struct ContainerPlan<'a> {
    pub(crate) image: &'a ImageFacts,
    pub(crate) workdir: &'a str,
    pub(crate) limits: SandboxLimits,
    pub(crate) network: NetworkPolicy,
    /// Host folders that are mounted read-only inside.
    pub(crate) read_only: &'a [PathBuf],
    pub(crate) labels: HashMap<String, String>,
    /// Value of [`MARK`].
    pub(crate) mark: &'a str,
}

/// An existing container. Dropping it removes it in the background; it is counted until it is gone.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) id: String,
    engine: Weak<Engine>,
    runtime: Handle,
    /// Its place in the engine's count.
    live: Option<Live>,
}

impl Container {
    pub(crate) fn new(id: String, engine: Weak<Engine>, live: Option<Live>) -> Self {
        Self { id, engine, runtime: Handle::current(), live }
    }

    /// Creates and starts it; also returns its first process's id. It is counted as soon as it exists.
    pub(crate) async fn start(
        engine: &Arc<Engine>,
        plan: &ContainerPlan<'_>,
        live: &mut Option<Live>,
    ) -> Result<(Self, u32), Fault> {
        let docker = &engine.docker;
        if plan.network == NetworkPolicy::Public {
            must_have_bridge(docker).await?;
        }
        let created = docker.create_container(None, body(plan)).await;
        let id = created.map_err(|error| not_made(plan.image, &error))?.id;
        let container = Self::new(id, Arc::downgrade(engine), live.take());
        if let Err(error) = docker.start_container(&container.id, None::<StartContainerOptions>).await {
            let fault = refused("starting a container", &error);
            let no_bash =
                fault.message.contains("executable file not found") || fault.message.contains("no such file");
            return Err(if no_bash {
                let message = "the image lacks `bash` on its PATH, which terminals and a container's first \
                    process need: install it in the image";
                Fault::permanent(Boundary::Provider, "image-without-bash", message)
            } else {
                fault
            });
        }
        let state = docker.inspect_container(&container.id, None::<InspectContainerOptions>).await;
        let state =
            state.map_err(|error| refused("asking for a container", &error))?.state.unwrap_or_default();
        match state.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0) {
            Some(pid) => Ok((container, pid)),
            None => {
                let why = state.error.filter(|why| !why.is_empty());
                let code = state.exit_code.unwrap_or_default();
                let message = why.unwrap_or_else(|| format!("its first process ended with exit code {code}"));
                Err(Fault::transient(
                    Boundary::Provider,
                    "container-start",
                    format!("a container ended at its start: {message}"),
                ))
            }
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let Some(engine) = self.engine.upgrade() else { return };
        let (id, live) = (std::mem::take(&mut self.id), self.live.take());
        // It is counted until it is gone.
        self.runtime.spawn(async move {
            remove_with_retry(&engine, &id).await;
            drop(live);
        });
    }
}

fn not_made(image: &ImageFacts, error: &Error) -> Fault {
    match error {
        Error::DockerResponseServerError { status_code: 404, message } if message.contains(&image.id) => {
            let message = format!("an image was removed while a container was created from it: {message}");
            Fault::transient(Boundary::Provider, IMAGE_GONE, message)
        }
        other => refused("making a container", other),
    }
}

/// An engine without a bridge would silently give a container no network.
async fn must_have_bridge(docker: &Docker) -> Result<(), Fault> {
    match docker.inspect_network(BRIDGE, None::<InspectNetworkOptions>).await {
        Ok(_) => Ok(()),
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => {
            let message = "`network: public` needs the container engine's bridge, but this engine was started \
                with `--bridge=none`";
            Err(Fault::permanent(Boundary::Provider, "no-bridge", message))
        }
        Err(error) => Err(refused("asking for the engine's bridge", &error)),
    }
}

/// Removes a container. A busy engine may refuse at first, for example because ending a process exceeded its own time
/// limit. Whatever is left in the end is removed at shutdown.
async fn remove_with_retry(engine: &Engine, id: &str) {
    for pause in REMOVAL_PAUSES.map(Some).into_iter().chain([None]) {
        let place = engine.requests.acquire().await;
        let Err(error) = remove(&engine.docker, id).await else { return };
        drop(place);
        let Some(pause) = pause else {
            tracing::warn!(container = id, %error, "failed to remove a container");
            return;
        };
        tracing::debug!(container = id, %error, "failed to remove a container; retrying");
        // timer: an engine that refused has no event for when it would succeed.
        tokio::time::sleep(pause).await;
    }
}

/// Removes a container with its volumes, running or not. A missing container is not an error.
pub(crate) async fn remove(docker: &Docker, id: &str) -> Result<(), Error> {
    let options = RemoveContainerOptions { v: true, force: true, link: false };
    match docker.remove_container(id, Some(options)).await {
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(()),
        // Another process is removing it.
        Err(Error::DockerResponseServerError { status_code: 409, message })
            if message.contains("already in progress") =>
        {
            Ok(())
        }
        other => other,
    }
}

fn body(plan: &ContainerPlan<'_>) -> ContainerCreateBody {
    let limits = plan.limits;
    let memory = i64::from(limits.memory_mib) << 20;
    let kept = capabilities::KEPT.iter().map(|(name, _)| *name).chain([capabilities::FIRST_PROCESS_ONLY]);
    let host = HostConfig {
        network_mode: Some(network(plan.network).to_owned()),
        cap_drop: Some(vec!["ALL".to_owned()]),
        cap_add: Some(kept.map(str::to_owned).collect()),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        memory: Some(memory),
        // No additional swap.
        memory_swap: Some(memory),
        cpu_period: Some(100_000),
        cpu_quota: Some((i64::from(limits.cpu_percent) * 1_000).max(1_000)),
        // The first process does not count as the agent's.
        pids_limit: Some(i64::from(limits.pids) + 1),
        shm_size: Some(i64::from(limits.disk_mib) << 20),
        ipc_mode: Some("private".to_owned()),
        mounts: Some(plan.read_only.iter().map(|folder| read_only(folder)).collect()),
        log_config: Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
        ..HostConfig::default()
    };
    ContainerCreateBody {
        hostname: (plan.network != NetworkPolicy::Host).then(|| "sandbox".to_owned()),
        user: Some("0:0".to_owned()),
        image: Some(plan.image.id.clone()),
        entrypoint: Some(SLEEPER.map(str::to_owned).to_vec()),
        cmd: Some(Vec::new()),
        env: Some(vec![format!("{MARK}={}", plan.mark)]),
        working_dir: Some(plan.workdir.to_owned()),
        // The first process ignores SIGTERM; a stopping engine need not wait for it.
        stop_timeout: Some(0),
        labels: Some(plan.labels.clone()),
        // The image's own health check would run its programs beside the agent.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() }),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    }
}

/// A bind mount at the same path, which the engine must not create if it is missing.
fn read_only(folder: &Path) -> Mount {
    let path = Some(folder.to_string_lossy().into_owned());
    let options = MountBindOptions { create_mountpoint: Some(false), ..MountBindOptions::default() };
    Mount {
        target: path.clone(),
        source: path,
        typ: Some(MountType::BIND),
        read_only: Some(true),
        bind_options: Some(options),
        ..Mount::default()
    }
}

fn network(policy: NetworkPolicy) -> &'static str {
    match policy {
        NetworkPolicy::None => "none",
        NetworkPolicy::Host => "host",
        NetworkPolicy::Public => BRIDGE,
    }
}
