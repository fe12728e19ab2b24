//! Image retention: a disk budget for images that ClawRL pulled or built.
//!
//! I1. Only images in the ledger are removed, and only while the engine knows them under the name that ClawRL gave them
//! and no other.
//! I2. An image stays if a container uses it, a caller waits for it or starts a container of it, or a slot of this run
//! still needs it.
//! I3. The least recently used image is removed first.
//! I4. A removed image is obtained again when needed.
//!
//! The budget is enforced before and after an image is pulled or built. If it cannot be met, because everything is in
//! use, a warning is logged once and nothing stops. Other processes share the ledger; one of them may remove an image
//! that was just found here: then no container can be made of it, and it is pulled or built again.

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

/// Image retention settings.
#[derive(Debug, Clone)]
pub struct ImageRetention {
    /// The ledger's path.
    pub ledger: PathBuf,
    /// Maximum bytes of all images. `None`: all stay.
    pub budget: Option<u64>,
    /// Number of slots of the run that need each image.
    pub to_come: HashMap<ImageSource, u32>,
    /// Counts removed images.
    pub evicted: Arc<EvictedImages>,
}

/// Images removed for the budget.
#[derive(Debug, Default)]
pub struct EvictedImages {
    images: AtomicU32,
    bytes: AtomicU64,
}

impl EvictedImages {
    /// Number of removed images, and bytes of layers that were freed.
    #[must_use]
    pub fn so_far(&self) -> (u32, u64) {
        (self.images.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// As [`EvictedImages::so_far`], and resets both to 0.
    #[must_use]
    pub fn take(&self) -> (u32, u64) {
        (self.images.swap(0, Ordering::Relaxed), self.bytes.swap(0, Ordering::Relaxed))
    }

    fn add(&self, bytes: u64) {
        self.images.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Use of an image by this process.
#[derive(Debug, Default)]
struct ImageUse {
    /// Callers that wait for it, or start a container of it.
    pins: u32,
    to_come: u32,
    /// Its name at the engine, if known.
    name: Option<String>,
    used: u64,
    /// Removed since it was last requested.
    gone: bool,
}

impl ImageUse {
    fn is_needed(&self) -> bool {
        self.pins > 0 || self.to_come > 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removal {
    Gone,
    /// It came into use, here or at the engine.
    Kept,
    /// Its name refers to another image now, or to none.
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
    /// Held while images are removed, and while one is looked up: an image that was found is not removed before it is
    /// pinned.
    removing: AsyncMutex<()>,
    warned: AtomicBool,
}

/// Keeps an image while it is held.
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
    /// For the engine with this id.
    ///
    /// # Errors
    /// When there is a budget, and the ledger cannot be read.
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
            warned: AtomicBool::new(false),
            docker,
            engine,
            ledger,
            budget,
            evicted,
        })
    }

    /// Keeps an image from being removed. Also returns whether it was removed since it was last requested.
    pub(crate) fn pin(self: &Arc<Self>, source: &ImageSource) -> (Pin, bool) {
        let mut uses = self.uses();
        let this = uses
            .entry(source.clone())
            .or_insert_with(|| ImageUse { name: name_of(source), ..ImageUse::default() });
        this.pins += 1;
        this.used = now();
        (Pin { gc: Arc::clone(self), source: source.clone() }, std::mem::take(&mut this.gone))
    }

    /// Whether it was removed since it was last requested.
    pub(crate) fn is_gone(&self, source: &ImageSource) -> bool {
        self.uses().get(source).is_some_and(|this| this.gone)
    }

    /// A slot of the run has its container.
    pub(crate) fn started(&self, source: &ImageSource) {
        if let Some(this) = self.uses().get_mut(source) {
            this.to_come = this.to_come.saturating_sub(1);
        }
    }

    /// Sets the name, at the engine, of a pinned image.
    pub(crate) fn name(&self, source: &ImageSource, name: &str) {
        if let Some(this) = self.uses().get_mut(source) {
            this.name = Some(name.to_owned());
        }
    }

    /// Held while an image is looked up.
    pub(crate) async fn lock_removal(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.removing.lock().await
    }

    /// Records a pulled or built image. If that fails, the image is never removed; nothing else is affected.
    pub(crate) async fn made(&self, name: &str) {
        let recorded = async {
            let image = self.image(name).await?;
            self.with_ledger(move |ledger| ledger.put(image)).await
        };
        if let Err(fault) = recorded.await {
            tracing::warn!(image = name, %fault, "failed to record an image in the ledger; it will never be \
                removed");
        }
    }

    /// Writes the times of use.
    pub(crate) async fn write_down(&self) {
        if let Err(fault) = self.with_ledger(|_| ()).await {
            tracing::debug!(%fault, "failed to write the times of image use");
        }
    }

    /// Removes images until the rest is within the budget. Failures are logged and stop nothing.
    pub(crate) async fn make_room(&self) {
        let Some(budget) = self.budget else { return };
        match self.try_make_room(budget).await {
            Ok(0) => {}
            Ok(over) if self.warned.swap(true, Ordering::Relaxed) => {
                tracing::debug!(over, "the images are over their budget")
            }
            Ok(over) => tracing::warn!(
                "images exceed their budget of {1} by {0}, and all of them are in use or still needed by this run",
                gib(over),
                gib(budget)
            ),
            Err(fault) => tracing::warn!(%fault, "failed to enforce the image budget"),
        }
    }

    /// Returns by how many bytes the budget is still exceeded.
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
                        "removed an image to meet the budget: {} of layers",
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

    /// The images that the engine still has unchanged (I1), and whether some are missing.
    async fn still_ours(&self, images: Vec<LedgerImage>) -> Result<(Vec<LedgerImage>, bool), Fault> {
        let options = ListImagesOptions { all: false, digests: true, ..ListImagesOptions::default() };
        let listed = self.docker.list_images(Some(options)).await;
        let listed = listed.map_err(|error| refused("listing images", &error))?;
        let names: HashMap<&str, usize> =
            listed.iter().map(|image| (image.id.as_str(), image.repo_tags.len())).collect();
        let (own, all) = (&images, images.len());
        let given = |id: &str| own.iter().filter(|image| image.id == id).count();
        let is_ours = |image: &&LedgerImage| {
            // An image requested by digest has no other name.
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
            // An unreadable folder has no image of ours, and its build will report it.
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

    /// The ledger's entry for a present image.
    async fn image(&self, name: &str) -> Result<LedgerImage, Fault> {
        let failed = |error: Error| refused(&format!("image `{name}`"), &error);
        let facts = self.docker.inspect_image(name).await.map_err(failed)?;
        let history = self.docker.image_history(name).await.map_err(failed)?;
        let sizes = history.iter().rev().filter_map(|step| u64::try_from(step.size).ok());
        let mut sizes: Vec<u64> = sizes.filter(|&size| size > 0).collect();
        // The history may have fewer entries than there are layers.
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

    /// Changes the ledger, and updates the times of use.
    async fn with_ledger(&self, change: impl FnOnce(&mut Ledger)) -> Result<(), Fault> {
        let mut ledger = self.hold().await?;
        change(&mut ledger);
        blocking(move || ledger.write()).await
    }

    /// The locked ledger, with this process's times of use.
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

/// A built image is named by its inputs.
fn name_of(source: &ImageSource) -> Option<String> {
    match source {
        ImageSource::Name(name) => Some(name.clone()),
        _ => None,
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, Fault> {
    let lost = |error| Fault::permanent(Boundary::Harness, "panic", format!("the image ledger: {error}"));
    Ok(tokio::task::spawn_blocking(work).await.map_err(lost)??)
}

fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / f64::from(1 << 30))
}
