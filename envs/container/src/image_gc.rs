//! Which images stay: a budget for the disk of those that we fetched or built.
//!
//! I1. Removed are images of the ledger alone, and only while the engine knows them by the name that we gave them and by
//! no other. I2. None goes that a container is made of, that somebody waits for or starts a container of, or that a slot of
//! this run still needs. I3. The one that was used least recently goes first. I4. What was removed is looked for again by
//! whoever asks next.
//!
//! It is looked at before something is fetched or built, and afterwards. A budget that cannot be kept, because everything
//! is in use, is told once and stops nobody. Other processes keep to the same ledger; one of them may remove an image that
//! was found here a moment ago: a container of it cannot be made then, and the image is fetched or built again.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::{ListContainersOptions, ListImagesOptions, RemoveImageOptions};
use clawrl_core::{Boundary, Fault, ImageSource};
use tokio::sync::Mutex as AsyncMutex;

use crate::build;
use crate::engine::refused;
use crate::layers;
use crate::ledger::{Ledger, LedgerError, LedgerImage, now};

/// What is kept of images.
#[derive(Debug, Clone)]
pub struct ImageRetention {
    /// The file that says which are ours.
    pub ledger: PathBuf,
    /// Most bytes that they may take. `None`: all stay.
    pub budget: Option<u64>,
    /// How many slots of the run need which.
    pub to_come: HashMap<ImageSource, u32>,
    /// Counts what is removed.
    pub evicted: Arc<EvictedImages>,
}

/// Images that were removed for the budget.
#[derive(Debug, Default)]
pub struct EvictedImages {
    images: AtomicU32,
    bytes: AtomicU64,
}

impl EvictedImages {
    /// How many so far, and how many bytes of layers nothing of ours has any more.
    #[must_use]
    pub fn so_far(&self) -> (u32, u64) {
        (self.images.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// As [`EvictedImages::so_far`], and counts from 0 again.
    #[must_use]
    pub fn take(&self) -> (u32, u64) {
        (self.images.swap(0, Ordering::Relaxed), self.bytes.swap(0, Ordering::Relaxed))
    }

    fn add(&self, bytes: u64) {
        self.images.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// How an image is used by this process.
#[derive(Debug, Default)]
struct ImageUse {
    /// Those who wait for it, or start a container of it.
    pins: u32,
    to_come: u32,
    /// What the engine calls it, as far as that is known.
    name: Option<String>,
    /// When last.
    used: u64,
    /// Removed since somebody last asked for it.
    gone: bool,
}

impl ImageUse {
    fn is_needed(&self) -> bool {
        self.pins > 0 || self.to_come > 0
    }
}

/// What became of an image that was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removal {
    Gone,
    /// Somebody began to need it, or the engine does.
    Kept,
    /// Its name stands for another image now, or for none.
    NotOurs,
}

/// The images of one engine, for one run.
#[derive(Debug)]
pub(crate) struct ImageGc {
    docker: Docker,
    engine: String,
    ledger: PathBuf,
    budget: Option<u64>,
    evicted: Arc<EvictedImages>,
    uses: Mutex<HashMap<ImageSource, ImageUse>>,
    /// Held while images are removed, and while one is looked for: what was found is not removed before its pin is seen.
    removing: AsyncMutex<()>,
    told: AtomicBool,
}

/// Somebody needs an image; dropped, no longer.
#[derive(Debug)]
pub(crate) struct Pin {
    gc: Arc<ImageGc>,
    source: ImageSource,
}

impl Drop for Pin {
    fn drop(&mut self) {
        if let Some(this) = self.gc.uses().get_mut(&self.source) {
            this.pins -= 1;
            this.used = now();
        }
    }
}

impl ImageGc {
    /// Of the engine with this id.
    ///
    /// # Errors
    /// When there is a budget, and what is ours is not known.
    pub(crate) fn new(
        docker: Docker,
        engine: String,
        retention: ImageRetention,
    ) -> Result<Self, LedgerError> {
        let ImageRetention { ledger, budget, to_come, evicted } = retention;
        if budget.is_some() {
            drop(Ledger::hold(&ledger)?);
        }
        let uses = to_come.into_iter().map(|(source, to_come)| {
            let name = name_of(&source);
            (source, ImageUse { to_come, name, ..ImageUse::default() })
        });
        Ok(Self {
            uses: Mutex::new(uses.collect()),
            removing: AsyncMutex::default(),
            told: AtomicBool::new(false),
            docker,
            engine,
            ledger,
            budget,
            evicted,
        })
    }

    /// Keeps an image from being removed. Says as well whether it was since somebody last asked.
    pub(crate) fn pin(self: &Arc<Self>, source: &ImageSource) -> (Pin, bool) {
        let mut uses = self.uses();
        let this = uses
            .entry(source.clone())
            .or_insert_with(|| ImageUse { name: name_of(source), ..ImageUse::default() });
        this.pins += 1;
        this.used = now();
        (Pin { gc: Arc::clone(self), source: source.clone() }, std::mem::take(&mut this.gone))
    }

    /// Whether it was removed since somebody last asked for it.
    pub(crate) fn is_gone(&self, source: &ImageSource) -> bool {
        self.uses().get(source).is_some_and(|this| this.gone)
    }

    /// A slot of the run has its container.
    pub(crate) fn started(&self, source: &ImageSource) {
        if let Some(this) = self.uses().get_mut(source) {
            this.to_come = this.to_come.saturating_sub(1);
        }
    }

    /// What the engine calls, or will call, an image that is pinned.
    pub(crate) fn name(&self, source: &ImageSource, name: &str) {
        if let Some(this) = self.uses().get_mut(source) {
            this.name = Some(name.to_owned());
        }
    }

    /// Held while an image is looked for.
    pub(crate) async fn lock_removal(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.removing.lock().await
    }

    /// An image was fetched or built by us. That it cannot be written down costs its removal some day, and nothing now.
    pub(crate) async fn made(&self, name: &str) {
        let recorded = async {
            let image = self.image(name).await?;
            self.with_ledger(move |ledger| ledger.put(image)).await
        };
        if let Err(fault) = recorded.await {
            tracing::warn!(image = name, %fault, "an image was not put on the list of those that may be removed");
        }
    }

    /// Writes down what was used.
    pub(crate) async fn write_down(&self) {
        if let Err(fault) = self.with_ledger(|_| ()).await {
            tracing::debug!(%fault, "when images were used is not written down");
        }
    }

    /// Removes images until the rest is within the budget. What keeps it from that is told, and stops nobody.
    pub(crate) async fn make_room(&self) {
        let Some(budget) = self.budget else { return };
        match self.try_make_room(budget).await {
            Ok(0) => {}
            Ok(over) if self.told.swap(true, Ordering::Relaxed) => {
                tracing::debug!(over, "the images are over their budget")
            }
            Ok(over) => tracing::warn!(
                "images that were fetched or built for tasks take {} more than their budget of {}, and all of them are in use \
                 or still needed by this run",
                gib(over),
                gib(budget)
            ),
            Err(fault) => tracing::warn!(%fault, "images over the budget were not looked for"),
        }
    }

    /// By how many bytes the budget is exceeded at the end.
    async fn try_make_room(&self, budget: u64) -> Result<u64, Fault> {
        let _alone = self.removing.lock().await;
        let mut ledger = self.hold().await?;
        let own = ledger.images.extract_if(.., |image| image.engine == self.engine).collect::<Vec<_>>();
        let (mut images, changed) = self.still_ours(own).await?;
        let mut over = layers::bytes(&images).saturating_sub(budget);
        if over > 0 {
            let held = self.held().await?;
            images.sort_unstable_by_key(|image| image.used);
            let mut at = 0;
            while over > 0 && at < images.len() {
                let removal = match held.contains(&images[at].id) {
                    true => Removal::Kept,
                    false => self.remove(&images[at]).await?,
                };
                if removal == Removal::Kept {
                    at += 1;
                    continue;
                }
                let before = layers::bytes(&images);
                let image = images.remove(at);
                let freed = before - layers::bytes(&images);
                if removal == Removal::Gone {
                    self.evicted.add(freed);
                    tracing::info!(
                        image = image.name,
                        "removed an image for the budget, {} of layers",
                        gib(freed)
                    );
                }
                over = layers::bytes(&images).saturating_sub(budget);
            }
        } else if !changed {
            return Ok(0);
        }
        ledger.images.append(&mut images);
        blocking(move || ledger.write()).await?;
        Ok(over)
    }

    /// Those that the engine still has as we left them (I1), and whether that is fewer.
    async fn still_ours(&self, images: Vec<LedgerImage>) -> Result<(Vec<LedgerImage>, bool), Fault> {
        let options = ListImagesOptions { all: false, digests: true, ..ListImagesOptions::default() };
        let listed = self.docker.list_images(Some(options)).await;
        let listed = listed.map_err(|error| refused("listing images", &error))?;
        let names: HashMap<&str, usize> =
            listed.iter().map(|image| (image.id.as_str(), image.repo_tags.len())).collect();
        let (own, all) = (&images, images.len());
        let given = |id: &str| own.iter().filter(|image| image.id == id).count();
        let is_ours = |image: &&LedgerImage| {
            // One that was asked for by its digest has no other name.
            let least = usize::from(!image.name.contains('@'));
            names.get(image.id.as_str()).is_some_and(|names| (least..=given(&image.id)).contains(names))
        };
        let ours: Vec<LedgerImage> = images.iter().filter(is_ours).cloned().collect();
        let fewer = ours.len() < all;
        Ok((ours, fewer))
    }

    /// Ids of images that must stay (I2).
    async fn held(&self) -> Result<HashSet<String>, Fault> {
        let options = ListContainersOptions { all: true, ..ListContainersOptions::default() };
        let containers = self.docker.list_containers(Some(options)).await;
        let containers = containers.map_err(|error| refused("listing containers", &error))?;
        let mut held: HashSet<String> = containers.into_iter().filter_map(|one| one.image_id).collect();
        let unnamed = |(source, this): (&ImageSource, &ImageUse)| {
            (this.is_needed() && this.name.is_none()).then(|| source.clone())
        };
        let unnamed: Vec<ImageSource> = self.uses().iter().filter_map(unnamed).collect();
        for source in unnamed {
            let ImageSource::Build { context, dockerfile, .. } = &source else { continue };
            // A folder that cannot be read has no image of ours, and its build will say so.
            if let Ok(packed) = build::pack_folder(context, dockerfile).await {
                self.name(&source, &packed.name);
            }
        }
        let needed = |this: &ImageUse| this.is_needed().then(|| this.name.clone()).flatten();
        let needed: HashSet<String> = self.uses().values().filter_map(needed).collect();
        for name in needed {
            if let Some(image) = crate::image::inspect(&self.docker, &name).await? {
                held.insert(image.id);
            }
        }
        Ok(held)
    }

    async fn remove(&self, image: &LedgerImage) -> Result<Removal, Fault> {
        for this in self.uses().values_mut().filter(|this| this.name.as_ref() == Some(&image.name)) {
            if this.is_needed() {
                return Ok(Removal::Kept);
            }
            this.gone = true;
        }
        match crate::image::inspect(&self.docker, &image.name).await? {
            Some(found) if found.id == image.id => {}
            _ => return Ok(Removal::NotOurs),
        }
        let options = RemoveImageOptions { force: false, noprune: false, platforms: None };
        match self.docker.remove_image(&image.name, Some(options), None).await {
            Ok(_) | Err(Error::DockerResponseServerError { status_code: 404, .. }) => Ok(Removal::Gone),
            Err(Error::DockerResponseServerError { status_code: 409, .. }) => Ok(Removal::Kept),
            Err(error) => Err(refused(&format!("removing image `{}`", image.name), &error)),
        }
    }

    /// What the ledger says of an image that is there.
    async fn image(&self, name: &str) -> Result<LedgerImage, Fault> {
        let failed = |error: Error| refused(&format!("image `{name}`"), &error);
        let facts = self.docker.inspect_image(name).await.map_err(failed)?;
        let history = self.docker.image_history(name).await.map_err(failed)?;
        let sizes = history.iter().rev().filter_map(|step| u64::try_from(step.size).ok());
        let mut sizes: Vec<u64> = sizes.filter(|&size| size > 0).collect();
        // Images may tell less of their history than they have layers.
        let all = facts.size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default();
        let untold = all.saturating_sub(sizes.iter().sum());
        if untold > 0 {
            sizes.push(untold);
        }
        Ok(LedgerImage {
            engine: self.engine.clone(),
            name: name.to_owned(),
            id: facts.id.unwrap_or_default(),
            used: now(),
            layers: facts.root_fs.and_then(|layers| layers.layers).unwrap_or_default(),
            sizes,
        })
    }

    /// Changes the ledger, and writes down with it when images were used.
    async fn with_ledger(&self, change: impl FnOnce(&mut Ledger)) -> Result<(), Fault> {
        let mut ledger = self.hold().await?;
        change(&mut ledger);
        blocking(move || ledger.write()).await
    }

    /// The ledger, with what this process knows of uses.
    async fn hold(&self) -> Result<Ledger, Fault> {
        let path = self.ledger.clone();
        let mut ledger = blocking(move || Ledger::hold(&path)).await?;
        for this in self.uses().values() {
            if let Some(name) = &this.name {
                ledger.touch(&self.engine, name, this.used);
            }
        }
        Ok(ledger)
    }

    fn uses(&self) -> MutexGuard<'_, HashMap<ImageSource, ImageUse>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A built image is named by what it is built from.
fn name_of(source: &ImageSource) -> Option<String> {
    match source {
        ImageSource::Name(name) => Some(name.clone()),
        _ => None,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, Fault> {
    let lost = |error| Fault::permanent(Boundary::Harness, "panic", format!("the list of images: {error}"));
    Ok(tokio::task::spawn_blocking(work).await.map_err(lost)??)
}

/// For people.
fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30))
}
