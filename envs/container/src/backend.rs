//! The [`SandboxBackend`] of containers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bollard::Docker;
use clawrl_core::{Boundary, BoxFuture, Determinism, Fault, RunId, SandboxLimits};
use clawrl_sandbox::spawner::SpawnerClient;
use clawrl_sandbox::{
    Enclosure, Keeper, LiveCount, SandboxBackend, SandboxSpec, StartedSandbox, announce, enter, owner_name,
};
use tokio::sync::Semaphore;

use crate::container::{Container, ContainerPlan, MARK, remove};
use crate::image::Images;
use crate::sweep::owned_by;
use crate::{EngineReport, capabilities, labels};

/// Containers that are made or removed at once. Engines do most of either one after another; more only wait there, where
/// nobody can give up on them.
const REQUESTS_AT_ONCE: usize = 6;

/// Where tasks of others expect to find and to leave things.
const COMMONS: &[&str] = &["/logs/agent", "/logs/verifier", "/logs/artifacts", "/solution"];

/// How long `shutdown` waits for what it ended.
const END_LIMIT: Duration = Duration::from_secs(90);

/// How often it looks whether containers are gone.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What the backend is made of.
#[derive(Debug, Clone)]
pub struct ContainerConfig {
    /// From [`crate::probe_engine`].
    pub engine: EngineReport,
    /// Label of everything created.
    pub run: RunId,
    /// Held fixed in every container.
    pub determinism: Determinism,
}

/// Sandboxes that are containers.
#[derive(Debug, Clone)]
pub struct ContainerBackend {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) docker: Docker,
    spawner: SpawnerClient,
    config: ContainerConfig,
    images: Images,
    /// Sandboxes: until their last process has ended.
    sandboxes: Arc<LiveCount>,
    /// Containers: until the engine has removed them.
    pub(crate) containers: Arc<LiveCount>,
    pub(crate) requests: Semaphore,
    /// Closed by `shutdown`.
    starts: Semaphore,
    next: AtomicU64,
}

impl ContainerBackend {
    /// A backend on a spawner and an engine. Call inside a runtime.
    ///
    /// # Errors
    /// A provider [`Fault`] when the engine's socket is gone.
    pub fn new(spawner: SpawnerClient, config: ContainerConfig) -> Result<Self, Fault> {
        let docker = config.engine.client()?;
        let shared = Shared {
            images: Images::new(docker.clone()),
            docker,
            spawner,
            config,
            sandboxes: Arc::default(),
            containers: Arc::default(),
            requests: Semaphore::new(REQUESTS_AT_ONCE),
            starts: Semaphore::new(Semaphore::MAX_PERMITS),
            next: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    async fn start_now(shared: Arc<Shared>, spec: SandboxSpec) -> Result<StartedSandbox, Fault> {
        let ended =
            |_| Fault::permanent(Boundary::Provider, "shut-down", "the container backend was shut down");
        let _open = shared.starts.acquire().await.map_err(ended)?;
        let image = spec.image.as_ref().ok_or_else(|| {
            let message =
                "`sandbox: container` needs an image: say `image: NAME`, or `image: { build: FOLDER }`";
            Fault::permanent(Boundary::Provider, "no-image", message)
        })?;
        // The engine is on this machine; its own words for this name no way out.
        if let Some(folder) = spec.read_only.iter().find(|folder| !folder.is_dir()) {
            let message = format!(
                "`read_only`: there is no folder {} on this machine: install what it is to hold, or correct the path",
                folder.display()
            );
            return Err(Fault::permanent(Boundary::Provider, "read-only-missing", message));
        }
        let facts = shared.images.ready(&image.source).await?;
        let workdir = facts.workspace(image, spec.workspace)?;
        let place = shared.requests.acquire().await.map_err(ended)?;
        let live = shared.sandboxes.begin();
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}/{number}", owner_name(&shared.config.run));
        let plan = ContainerPlan {
            image: &facts,
            workdir: &workdir,
            limits: spec.limits,
            network: spec.network,
            read_only: &spec.read_only,
            labels: labels::of(&shared.config.run),
            mark: &mark,
        };
        let (container, pid) = Container::start(&shared, &plan).await?;
        drop(place);
        let enclosure = Enclosure {
            pid,
            mark: (MARK.to_owned(), mark.clone()),
            user: image.user.clone().unwrap_or_else(|| facts.user.clone()),
            workdir,
            commons: COMMONS,
            environment: facts.environment.clone(),
            capabilities: capabilities::bits(),
            keeper: Arc::new(container) as Keeper,
            live,
        };
        enter(shared.spawner.clone(), &shared.config.determinism, &spec, enclosure).await
    }

    /// Has what is left of this run's containers removed. What was found, in words: nothing is left when that is nothing.
    async fn remove_all(shared: &Shared) -> Vec<String> {
        let found = match owned_by(&shared.docker, &owner_name(&shared.config.run)).await {
            Ok(found) => found,
            Err(error) => return vec![format!("the engine does not say which containers are left: {error}")],
        };
        let mut left = Vec::new();
        for id in found {
            // One that somebody else is removing is looked for again, too.
            left.push(match remove(&shared.docker, &id).await {
                Ok(()) => format!("container {id} was removed, and is still there"),
                Err(error) => format!("container {id} cannot be removed: {error}"),
            });
        }
        left
    }
}

impl SandboxBackend for ContainerBackend {
    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<StartedSandbox, Fault>> {
        // In a task of its own: a caller that is dropped half-way must not lose a container that is on its way.
        let task = tokio::spawn(Self::start_now(Arc::clone(&self.shared), spec));
        Box::pin(async move {
            task.await.unwrap_or_else(|error| {
                Err(Fault::permanent(Boundary::Harness, "panic", format!("starting a container: {error}")))
            })
        })
    }

    fn announcement(&self, _: &SandboxLimits) -> String {
        announce()
    }

    fn live(&self) -> u32 {
        self.shared.sandboxes.live()
    }

    fn peak(&self) -> u32 {
        self.shared.sandboxes.peak()
    }

    fn shutdown(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            let shared = &self.shared;
            shared.starts.close();
            let deadline = tokio::time::Instant::now() + END_LIMIT;
            loop {
                // Whoever still holds a sandbox loses it. One on its way is found in a later round.
                let left = Self::remove_all(shared).await;
                let undead = shared.sandboxes.all_ended(Duration::from_millis(500)).await;
                if left.is_empty() && undead == 0 {
                    return Vec::new();
                }
                if tokio::time::Instant::now() >= deadline {
                    let undead = (undead > 0).then(|| format!("{undead} containers have not ended"));
                    return left.into_iter().chain(undead).collect();
                }
                // timer: the engine tells nobody that a container which somebody else removes is gone.
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        })
    }
}
