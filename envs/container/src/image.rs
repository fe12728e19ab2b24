//! Images: present, pulled, or built; once for all waiting callers.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptions;
use clawrl_core::{Boundary, BoxFuture, Fault, ImageSource, Retry};
use futures_util::future::Shared;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::build;
use crate::engine::refused;
use crate::image_facts::ImageFacts;
use crate::image_gc::{ImageGc, Pin};

/// Fault code for an image that was removed. The next caller gets it anew.
pub(crate) const IMAGE_GONE: &str = "image-gone";

/// Fault code for an image that cannot be obtained.
pub(crate) const IMAGE_MISSING: &str = "image-missing";

/// Concurrent pulls and builds: each loads the engine, the disk and a registry.
const AT_ONCE: usize = 2;

/// How often an image is obtained again after another process removed it.
pub(crate) const MAKINGS: u32 = 5;

type Answer = Result<Arc<ImageFacts>, Fault>;

#[derive(Debug)]
pub(crate) struct Images {
    known: Mutex<HashMap<ImageSource, ImageEntry>>,
    making: Arc<ImagePreparation>,
}

#[derive(Debug)]
struct ImagePreparation {
    docker: Docker,
    places: Semaphore,
    gc: Option<Arc<ImageGc>>,
}

/// An image that is present or being obtained.
#[derive(Debug, Clone)]
struct ImageEntry {
    answer: Shared<BoxFuture<'static, Answer>>,
    /// Ended with the images.
    task: tokio::task::AbortHandle,
}

/// An image that is present, and stays while this value is held.
#[derive(Debug)]
pub(crate) struct ReadyImage {
    pub(crate) facts: Arc<ImageFacts>,
    _pin: Option<Pin>,
}

impl Images {
    pub(crate) fn new(docker: Docker, gc: Option<Arc<ImageGc>>) -> Self {
        let making = ImagePreparation { docker, places: Semaphore::new(AT_ONCE), gc };
        Self { known: Mutex::default(), making: Arc::new(making) }
    }

    /// The image, pulled or built if necessary. Dropping the future does not stop that, for the next caller.
    pub(crate) async fn ready(&self, source: &ImageSource) -> Result<ReadyImage, Fault> {
        let (entry, pin) = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let pinned = self.making.gc.as_ref().map(|gc| gc.pin(source));
            if pinned.as_ref().is_some_and(|(_, gone)| *gone) {
                known.remove(source);
            }
            let entry = known.entry(source.clone()).or_insert_with(|| self.begin(source.clone())).clone();
            (entry, pinned.map(|(pin, _)| pin))
        };
        let answer = entry.answer.await;
        if answer.as_ref().is_err_and(|fault| fault.retry == Retry::Sound) {
            // The next caller tries again; a permanent failure is returned at once.
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.get(source).is_some_and(|now| now.task.id() == entry.task.id()) {
                known.remove(source);
            }
        }
        answer.map(|facts| ReadyImage { facts, _pin: pin })
    }

    /// Whether the image was requested from this engine and is present or being obtained. `None`: unknown.
    pub(crate) fn is_requested(&self, source: &ImageSource) -> Option<bool> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if self.making.gc.as_ref().is_some_and(|gc| gc.is_gone(source)) {
            return Some(false);
        }
        Some(known.get(source)?.answer.peek().is_none_or(Result::is_ok))
    }

    /// Starts to obtain it, unless that has happened, for the next caller.
    pub(crate) fn request(&self, source: &ImageSource) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(source.clone()).or_insert_with(|| self.begin(source.clone()));
    }

    /// The engine no longer has it. The next caller gets it anew, unless another one already has.
    pub(crate) fn forget(&self, source: &ImageSource, facts: &Arc<ImageFacts>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_that = |now: &ImageEntry| match now.answer.peek() {
            Some(Ok(now)) => Arc::ptr_eq(now, facts),
            _ => false,
        };
        if known.get(source).is_some_and(is_that) {
            known.remove(source);
        }
    }

    fn begin(&self, source: ImageSource) -> ImageEntry {
        let making = Arc::clone(&self.making);
        // The caller may have gone away.
        let pin = making.gc.as_ref().map(|gc| gc.pin(&source).0);
        let task = tokio::spawn(async move {
            let facts = making.make_ready(&source).await;
            drop(pin);
            facts.map(Arc::new)
        });
        let handle = task.abort_handle();
        let answer: BoxFuture<'static, Answer> = Box::pin(async move {
            let lost = |error| {
                Fault::permanent(Boundary::Harness, "panic", format!("failed to obtain an image: {error}"))
            };
            task.await.map_err(lost)?
        });
        ImageEntry { answer: answer.shared(), task: handle }
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        let known = self.known.get_mut().unwrap_or_else(PoisonError::into_inner);
        known.values().for_each(|entry| entry.task.abort());
    }
}

impl ImagePreparation {
    async fn make_ready(&self, source: &ImageSource) -> Result<ImageFacts, Fault> {
        match source {
            ImageSource::Name(name) => {
                if let Some(facts) = self.inspect(name).await? {
                    return Ok(facts);
                }
                let _place = self.place().await?;
                self.kept(name, || self.made(name, fetch(&self.docker, name))).await
            }
            ImageSource::Build { context, dockerfile, timeout } => {
                let _place = self.place().await?;
                let late = |_| {
                    let message = format!(
                        "the build of {} took longer than {} s; raise `build_timeout_secs`",
                        context.display(),
                        timeout.as_secs()
                    );
                    Fault::permanent(Boundary::Provider, "build-timeout", message)
                };
                tokio::time::timeout(*timeout, self.built(source, context, dockerfile)).await.map_err(late)?
            }
            ImageSource::Rootfs(folder) => {
                let message = format!(
                    "`image: {{ rootfs: {} }}` is for `sandbox: bubblewrap`; create an image with `tar -C \
                     FOLDER -c . | docker import - NAME`, for `image: {{ name: NAME, workdir: /app }}`",
                    folder.display()
                );
                Err(Fault::permanent(Boundary::Provider, "image-unsupported", message))
            }
            other => {
                let message = format!("containers cannot take their image from {other:?}");
                Err(Fault::permanent(Boundary::Provider, "image-unsupported", message))
            }
        }
    }

    async fn built(
        &self,
        source: &ImageSource,
        context: &Path,
        dockerfile: &str,
    ) -> Result<ImageFacts, Fault> {
        let packed = build::pack_folder(context, dockerfile).await?;
        let name = &packed.name;
        if let Some(gc) = &self.gc {
            gc.name(source, name);
        }
        match self.inspect(name).await? {
            Some(facts) => Ok(facts),
            None => {
                let build = || build::build(&self.docker, &packed, context, dockerfile);
                self.kept(name, || self.made(name, build())).await
            }
        }
    }

    /// Obtains an image until it is found present: another process may remove it as unused before.
    async fn kept<M: Future<Output = Result<(), Fault>>>(
        &self,
        name: &str,
        make: impl Fn() -> M,
    ) -> Result<ImageFacts, Fault> {
        for _ in 0..MAKINGS {
            make().await?;
            if let Some(facts) = self.inspect(name).await? {
                return Ok(facts);
            }
        }
        let message =
            format!("image `{name}` was obtained {MAKINGS} times, and another process removed it each time");
        Err(Fault::transient(Boundary::Provider, IMAGE_GONE, message))
    }

    async fn place(&self) -> Result<SemaphorePermit<'_>, Fault> {
        let closed =
            |_| Fault::permanent(Boundary::Provider, "shut-down", "the container backend was shut down");
        self.places.acquire().await.map_err(closed)
    }

    async fn inspect(&self, name: &str) -> Result<Option<ImageFacts>, Fault> {
        let _undisturbed = match &self.gc {
            Some(gc) => Some(gc.lock_removal().await),
            None => None,
        };
        inspect(&self.docker, name).await
    }

    /// Obtains an image, making room for it before and after.
    async fn made(&self, name: &str, making: impl Future<Output = Result<(), Fault>>) -> Result<(), Fault> {
        let Some(gc) = &self.gc else { return making.await };
        gc.make_room().await;
        making.await?;
        gc.made(name).await;
        gc.make_room().await;
        Ok(())
    }
}

/// The engine's data about the image of this name.
pub(crate) async fn inspect(docker: &Docker, name: &str) -> Result<Option<ImageFacts>, Fault> {
    let image = match docker.inspect_image(name).await {
        Ok(image) => image,
        Err(Error::DockerResponseServerError { status_code: 404, .. }) => return Ok(None),
        Err(error) => return Err(refused(&format!("image `{name}`"), &error)),
    };
    let config = image.config.unwrap_or_default();
    let variables = config.env.unwrap_or_default();
    let pair = |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(Some(ImageFacts {
        id: image.id.unwrap_or_else(|| name.to_owned()),
        workdir: config.working_dir.filter(|folder| folder.starts_with('/')),
        user: config.user.unwrap_or_default(),
        environment: variables.iter().filter_map(pair).collect(),
        volumes: config.volumes.unwrap_or_default(),
    }))
}

async fn fetch(docker: &Docker, name: &str) -> Result<(), Fault> {
    let (image, tag) = reference(name);
    let options = CreateImageOptions { from_image: Some(image), tag, ..CreateImageOptions::default() };
    let mut steps = std::pin::pin!(docker.create_image(Some(options), None, None));
    while let Some(step) = steps.next().await {
        if let Err(error) = step {
            let why = match &error {
                Error::DockerResponseServerError { message, .. } => message.clone(),
                Error::DockerStreamError { error } => error.clone(),
                other => other.to_string(),
            };
            return Err(if may_pass(&why) {
                Fault::transient(
                    Boundary::Provider,
                    "image-fetch",
                    format!("failed to pull image `{name}`: {why}"),
                )
            } else {
                missing(name, &why)
            });
        }
    }
    Ok(())
}

/// The registry is reachable, but busy or slow.
fn may_pass(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    [
        "toomanyrequests",
        "too many requests",
        "timeout",
        "connection reset",
        "unexpected eof",
        "service unavailable",
    ]
    .iter()
    .any(|sign| why.contains(sign))
}

fn missing(name: &str, why: &str) -> Fault {
    let message = format!(
        "image `{name}` is missing and cannot be pulled: {why}; use `docker pull {name}` on a machine that \
         reaches its registry, `docker load` or `docker import`"
    );
    Fault::permanent(Boundary::Provider, IMAGE_MISSING, message)
}

/// Name and tag. For a name alone an engine would pull every tag.
fn reference(name: &str) -> (String, Option<String>) {
    let last = name.rsplit('/').next().unwrap_or(name);
    if name.contains('@') {
        return (name.to_owned(), None);
    }
    match last.rsplit_once(':') {
        Some((_, tag)) => (name[..name.len() - tag.len() - 1].to_owned(), Some(tag.to_owned())),
        None => (name.to_owned(), Some("latest".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_has_exactly_one_tag() {
        let check = |name: &str, image: &str, tag: Option<&str>| {
            assert_eq!(reference(name), (image.to_owned(), tag.map(str::to_owned)), "{name}");
        };
        check("debian", "debian", Some("latest"));
        check("debian:12", "debian", Some("12"));
        check("host:5000/a/b", "host:5000/a/b", Some("latest"));
        check("host:5000/a/b:c", "host:5000/a/b", Some("c"));
        check("a@sha256:ff", "a@sha256:ff", None);
    }

    #[test]
    fn busy_registry_differs_from_missing_image() {
        let check = |why: &str, expected| assert_eq!(may_pass(why), expected, "{why}");
        check("toomanyrequests: You have reached your pull rate limit.", true);
        check("net/http: TLS handshake timeout", true);
        check("pull access denied for x, repository does not exist", false);
        check("dial tcp: lookup registry on 127.0.0.53:53: no such host", false);
    }
}
