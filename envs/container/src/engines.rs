//! The container engines of a run, and the choice of the engine for the next container.
//!
//! I1. An engine that has the image, or is obtaining it, is preferred; among equals the one with the fewest containers
//! of this run.
//! I2. An engine that does not answer gets none; it is asked every time, so one that comes back is used again.
//! I3. An image that no engine has is obtained by one engine, however many callers wait for it.
//!
//! With one engine there is no choice, and it is not asked. Errors: a transient provider [`Fault`] (`engine`) when none
//! answers. Cancellation: dropping a placement leaves at most an image that is being obtained.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::Docker;
use clawrl_core::{Boundary, Fault, ImageSource, RunId};
use clawrl_node::Node;
use clawrl_sandbox::{Live, LiveCount};
use futures_util::future::join_all;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use crate::EngineReport;
use crate::build;
use crate::image::{Images, inspect};
use crate::image_gc::{ImageGc, ImageRetention};
use crate::labels;
use crate::node;

/// Containers that an engine creates or removes concurrently. Engines do most of either one after another; more would
/// only queue there, where they cannot be cancelled.
const REQUESTS_AT_ONCE: usize = 6;

/// Time for an engine to answer a ping.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) docker: Docker,
    pub(crate) socket: String,
    pub(crate) images: Images,
    pub(crate) gc: Option<Arc<ImageGc>>,
    /// Containers, from their placement until the engine has removed them.
    containers: Arc<LiveCount>,
    through_node: bool,
    /// Created for the first container, and again when it was lost.
    node: AsyncMutex<Option<Node>>,
    pub(crate) requests: Semaphore,
    /// Whether the engine had an image when asked, before the image was first requested.
    had: Mutex<HashMap<ImageSource, bool>>,
}

#[derive(Debug)]
pub(crate) struct Engines {
    all: Vec<Arc<Engine>>,
    /// Held from the query of the engines until the choice is known (I3).
    placing: AsyncMutex<()>,
    /// Names of images built from folders.
    names: Mutex<HashMap<ImageSource, String>>,
}

impl Engine {
    fn new(engine: &EngineReport, retention: Option<ImageRetention>) -> Result<Self, Fault> {
        let docker = engine.client()?;
        let gc = retention.map(|retention| ImageGc::new(docker.clone(), engine.id.clone(), retention));
        let gc = gc.transpose()?.map(Arc::new);
        Ok(Self {
            images: Images::new(docker.clone(), gc.clone()),
            gc,
            docker,
            socket: engine.socket.clone(),
            containers: Arc::default(),
            through_node: engine.through_node,
            node: AsyncMutex::default(),
            requests: Semaphore::new(REQUESTS_AT_ONCE),
            had: Mutex::default(),
        })
    }

    /// Whether host paths of this machine are valid at the engine.
    pub(crate) fn is_here(&self) -> bool {
        self.socket.starts_with("unix://")
    }

    /// The node that starts programs in its containers. `None`: this process does so itself.
    ///
    /// # Errors
    /// A provider [`Fault`] when a node is needed and cannot be started.
    pub(crate) async fn node(self: &Arc<Self>, run: &RunId) -> Result<Option<Node>, Fault> {
        if !self.through_node {
            return Ok(None);
        }
        let mut node = self.node.lock().await;
        if let Some(node) = node.as_ref().filter(|node| !node.is_gone()) {
            return Ok(Some(node.clone()));
        }
        let started = node::start(self, labels::of(run)).await?;
        Ok(Some(node.insert(started).clone()))
    }

    /// `None`: it does not answer.
    async fn candidate(&self, source: &ImageSource, name: Option<&String>) -> Option<EngineCandidate> {
        let asked = async {
            self.docker.ping().await.ok()?;
            let known = self.images.is_requested(source).or_else(|| self.had().get(source).copied());
            let has = match (known, name) {
                (Some(has), _) => has,
                (None, Some(name)) => {
                    let has = inspect(&self.docker, name).await.ok()?.is_some();
                    self.had().insert(source.clone(), has);
                    has
                }
                (None, None) => false,
            };
            Some(EngineCandidate { has, containers: self.containers.live() })
        };
        tokio::time::timeout(ANSWER_LIMIT, asked).await.ok().flatten()
    }

    fn had(&self) -> std::sync::MutexGuard<'_, HashMap<ImageSource, bool>> {
        self.had.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engines {
    /// # Errors
    /// A provider [`Fault`] when a socket is gone, or a budget for images cannot be kept (`image-ledger`).
    pub(crate) fn new(engines: &[EngineReport], retention: Option<&ImageRetention>) -> Result<Self, Fault> {
        let engines = engines.iter().map(|engine| Engine::new(engine, retention.cloned()).map(Arc::new));
        Ok(Self {
            all: engines.collect::<Result<_, _>>()?,
            placing: AsyncMutex::default(),
            names: Mutex::default(),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Engine>> {
        self.all.iter()
    }

    /// Chooses the engine for a container of this image; the container counts there from now on.
    pub(crate) async fn place(&self, source: &ImageSource) -> Result<Placement, Fault> {
        if let [only] = &self.all[..] {
            let live = only.containers.begin();
            return Ok(Placement { engine: Arc::clone(only), live, some_silent: false });
        }
        let name = self.name(source).await;
        let _chosen = self.placing.lock().await;
        let candidates =
            join_all(self.all.iter().map(|engine| engine.candidate(source, name.as_ref()))).await;
        let Some(chosen) = choice(&candidates) else {
            let sockets: Vec<&str> = self.all.iter().map(|engine| engine.socket.as_str()).collect();
            let message = format!("no container engine answers: {}", sockets.join(", "));
            return Err(Fault::transient(Boundary::Provider, "engine", message));
        };
        let engine = &self.all[chosen];
        engine.images.request(source);
        let some_silent = candidates.iter().any(Option::is_none);
        Ok(Placement { engine: Arc::clone(engine), live: engine.containers.begin(), some_silent })
    }

    /// A slot of the run has its container, at any engine.
    pub(crate) fn started(&self, source: &ImageSource) {
        self.all.iter().filter_map(|engine| engine.gc.as_ref()).for_each(|gc| gc.started(source));
    }

    /// The image's name at engines. A folder is read once; if it cannot be read, its build reports it.
    async fn name(&self, source: &ImageSource) -> Option<String> {
        let (context, dockerfile) = match source {
            ImageSource::Name(name) => return Some(name.clone()),
            ImageSource::Build { context, dockerfile, .. } => (context, dockerfile),
            _ => return None,
        };
        let known = || self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = known().get(source) {
            return Some(name.clone());
        }
        let name = build::pack_folder(context, dockerfile).await.ok()?.name;
        known().insert(source.clone(), name.clone());
        Some(name)
    }
}

#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) engine: Arc<Engine>,
    /// Its place in the engine's count.
    pub(crate) live: Live,
    /// Some engine did not answer: an image that is missing now may be available when it does.
    pub(crate) some_silent: bool,
}

/// Properties of an engine that decide the choice.
#[derive(Debug, Clone, Copy)]
struct EngineCandidate {
    /// It has the image, or is obtaining it.
    has: bool,
    containers: u32,
}

/// I1, I2. The first of equals.
fn choice(candidates: &[Option<EngineCandidate>]) -> Option<usize> {
    let answering = candidates.iter().enumerate().filter_map(|(at, candidate)| Some((at, (*candidate)?)));
    answering.min_by_key(|(_, candidate)| (!candidate.has, candidate.containers)).map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I1, I2.
    #[test]
    fn presence_comes_before_containers() {
        let check = |candidates: &[Option<(bool, u32)>], expected| {
            let candidates: Vec<_> = candidates
                .iter()
                .map(|candidate| candidate.map(|(has, containers)| EngineCandidate { has, containers }))
                .collect();
            assert_eq!(choice(&candidates), expected, "{candidates:?}");
        };
        check(&[Some((false, 0)), Some((true, 9))], Some(1));
        check(&[Some((true, 3)), Some((true, 2)), Some((true, 2))], Some(1));
        check(&[Some((false, 3)), Some((false, 2))], Some(1));
        check(&[None, Some((false, 7))], Some(1));
        check(&[Some((true, 1)), None], Some(0));
        check(&[None, None], None);
    }
}
