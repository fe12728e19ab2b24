//! The [`SandboxBackend`] of containers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clawrl_core::{Boundary, BoxFuture, Determinism, Fault, Retry, RunId, SandboxLimits};
use clawrl_sandbox::spawner::SpawnerClient;
use clawrl_sandbox::{
    KeepAlive, Live, LiveCount, RunningContainer, SandboxBackend, SandboxSpec, StartedSandbox, announce,
    enter, owner_name,
};
use tokio::sync::Semaphore;

use crate::container::{Container, ContainerPlan, MARK, remove};
use crate::engine_restart;
use crate::engines::{Engines, Placement};
use crate::image::{IMAGE_GONE, IMAGE_MISSING, MAKINGS};
use crate::image_facts::ImageFacts;
use crate::image_gc::ImageRetention;
use crate::sweep::owned;
use crate::{EngineReport, capabilities, labels};

/// Folders in which imported tasks expect and leave files.
const SHARED_FOLDERS: [&str; 4] = ["/logs/agent", "/logs/verifier", "/logs/artifacts", "/solution"];

/// How long `shutdown` waits for what it ended.
const END_LIMIT: Duration = Duration::from_secs(90);

/// How long it waits for an engine that does not answer, after all programs in containers have ended.
const SILENCE_LIMIT: Duration = Duration::from_secs(10);

/// How often it checks whether containers are gone.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Settings of the backend.
#[derive(Debug, Clone)]
pub struct ContainerConfig {
    /// From [`crate::probe_engines`]: at least one.
    pub engines: Vec<EngineReport>,
    /// Labels everything created.
    pub run: RunId,
    /// Values held fixed in every container.
    pub determinism: Determinism,
    /// Image retention. `None`: all images stay, and no ledger is written.
    pub images: Option<ImageRetention>,
}

/// Sandboxes made of containers.
#[derive(Debug, Clone)]
pub struct ContainerBackend {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    engines: Engines,
    spawner: SpawnerClient,
    run: RunId,
    determinism: Determinism,
    /// Sandboxes, until their last process has ended.
    sandboxes: Arc<LiveCount>,
    /// Closed by `shutdown`.
    starts: Semaphore,
    next: AtomicU64,
}

impl ContainerBackend {
    /// Creates a backend on a spawner and container engines. Call inside a runtime.
    ///
    /// # Errors
    /// A provider [`Fault`] when an engine's socket is gone, or the image budget cannot be kept (`image-ledger`).
    pub fn new(spawner: SpawnerClient, config: ContainerConfig) -> Result<Self, Fault> {
        let ContainerConfig { engines, run, determinism, images } = config;
        let shared = Shared {
            engines: Engines::new(&engines, images.as_ref())?,
            spawner,
            run,
            determinism,
            sandboxes: Arc::default(),
            starts: Semaphore::new(Semaphore::MAX_PERMITS),
            next: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Starts a sandbox; if the container engine restarted meanwhile, retries once it is back.
    async fn start_with_retry(shared: Arc<Shared>, spec: SandboxSpec) -> Result<StartedSandbox, Fault> {
        match Self::start_now(Arc::clone(&shared), spec.clone()).await {
            Err(fault) if fault.retry == Retry::Sound && engine_restart::ended(&shared.engines).await => {
                Self::start_now(shared, spec).await
            }
            started => started,
        }
    }

    async fn start_now(shared: Arc<Shared>, spec: SandboxSpec) -> Result<StartedSandbox, Fault> {
        let ended =
            |_| Fault::permanent(Boundary::Provider, "shut-down", "the container backend was shut down");
        let _open = shared.starts.acquire().await.map_err(ended)?;
        let image = spec.image.as_ref().ok_or_else(|| {
            let message =
                "`sandbox: container` needs an image: set `image: NAME`, or `image: { build: FOLDER }`";
            Fault::permanent(Boundary::Provider, "no-image", message)
        })?;
        let Placement { engine, live: placed, some_silent } = shared.engines.place(&image.source).await?;
        let node = engine.node(&shared.run).await?;
        // If the engine is on this machine: its own message does not say how to fix it.
        if let Some(folder) = spec.read_only.iter().find(|folder| engine.is_here() && !folder.is_dir()) {
            let message = format!(
                "`read_only`: the folder {} does not exist on this machine: create it, or correct the path",
                folder.display()
            );
            return Err(Fault::permanent(Boundary::Provider, "read-only-missing", message));
        }
        let ready = engine.images.ready(&image.source).await.map_err(|fault| match some_silent {
            // The engine that has the image may be the one that does not answer.
            true if fault.code == IMAGE_MISSING => Fault { retry: Retry::Sound, ..fault },
            _ => fault,
        })?;
        let workdir = ready.facts.workspace(image, spec.workspace)?;
        let place = engine.requests.acquire().await.map_err(ended)?;
        let live = shared.sandboxes.begin();
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}/{number}", owner_name(&shared.run));
        let start = async |facts: &ImageFacts, placed: &mut Option<Live>| {
            let plan = ContainerPlan {
                image: facts,
                workdir: &workdir,
                limits: spec.limits,
                network: spec.network,
                read_only: &spec.read_only,
                labels: labels::of(&shared.run),
                mark: &mark,
            };
            Container::start(&engine, &plan, placed).await
        };
        let (mut ready, mut placed) = (ready, Some(placed));
        let mut started = start(&ready.facts, &mut placed).await;
        for _ in 1..MAKINGS {
            if !started.as_ref().is_err_and(|fault| fault.code == IMAGE_GONE) {
                break;
            }
            // Another process removed the image after it was found.
            engine.images.forget(&image.source, &ready.facts);
            ready = engine.images.ready(&image.source).await?;
            started = start(&ready.facts, &mut placed).await;
        }
        let (container, pid) = started?;
        drop(place);
        // From here on the container holds its image.
        let facts = ready.facts;
        shared.engines.started(&image.source);
        let enclosure = RunningContainer {
            pid,
            mark: (MARK.to_owned(), mark.clone()),
            user: image.user.clone().unwrap_or_else(|| facts.user.clone()),
            workdir,
            commons: SHARED_FOLDERS.map(str::to_owned).to_vec(),
            environment: facts.environment.clone(),
            capabilities: capabilities::bits(),
            keep_alive: Arc::new(container) as KeepAlive,
            live,
        };
        match node {
            Some(node) => node.enter(&shared.determinism, spec, enclosure).await,
            None => enter(shared.spawner.clone(), &shared.determinism, &spec, enclosure).await,
        }
    }

    /// Removes what is left of this run's containers.
    async fn remove_all(shared: &Shared) -> Leftovers {
        let mut left = Leftovers::default();
        for engine in shared.engines.iter() {
            let found = match owned(&engine.docker, &shared.run).await {
                Ok(found) => found,
                Err(error) => {
                    let socket = &engine.socket;
                    let what =
                        format!("the container engine at {socket} failed to list its containers: {error}");
                    left.silent.push(what);
                    continue;
                }
            };
            for id in found {
                // Containers that another process is removing are checked again, too.
                left.containers.push(match remove(&engine.docker, &id).await {
                    Ok(()) => format!("container {id} was removed but still exists"),
                    Err(error) => format!("container {id} cannot be removed: {error}"),
                });
            }
        }
        left
    }
}

/// State of all engines after a cleanup, as messages. Empty when nothing is left.
#[derive(Debug, Default)]
struct Leftovers {
    containers: Vec<String>,
    /// Engines that did not answer.
    silent: Vec<String>,
}

impl SandboxBackend for ContainerBackend {
    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<StartedSandbox, Fault>> {
        // Runs in its own task: a caller that is dropped midway must not lose a container that is being created.
        let task = tokio::spawn(Self::start_with_retry(Arc::clone(&self.shared), spec));
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
            let begun = tokio::time::Instant::now();
            loop {
                // Owners of sandboxes lose them. One being created is found in a later round.
                let Leftovers { containers, silent } = Self::remove_all(shared).await;
                let undead = shared.sandboxes.all_ended(Duration::from_millis(500)).await;
                // Nothing runs there any more; a later start removes what an engine has when it is back.
                let limit = if containers.is_empty() && undead == 0 { SILENCE_LIMIT } else { END_LIMIT };
                let over = containers.is_empty() && silent.is_empty() && undead == 0;
                if over || begun.elapsed() >= limit {
                    for gc in shared.engines.iter().filter_map(|engine| engine.gc.as_ref()) {
                        gc.write_down().await;
                    }
                    let undead = (undead > 0).then(|| format!("{undead} containers have not ended"));
                    return containers.into_iter().chain(silent).chain(undead).collect();
                }
                // timer: the engine has no event for a container that another process removes.
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        })
    }
}
