//! A budget for images: which go, and which never do.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{ListImagesOptions, RemoveImageOptions, TagImageOptions};
use clawrl_container::{
    ContainerBackend, ContainerConfig, EngineAccess, EvictedImages, ImageRetention, probe_engines,
};
use clawrl_core::{Boundary, Determinism, ImageSource, ImageSpec, Retry, RunId};
use clawrl_sandbox::spawner::SpawnerClient;
use clawrl_sandbox::{SandboxBackend, SandboxSpec};
use futures_util::future::join_all;
use tempfile::TempDir;

use crate::engine::{Engine, backend_keeping, containers, removed_but, sh, text, waiting, with_engine};
use crate::image;
use crate::registry::Registry;

/// Size of the content that distinguishes two images.
const BLOB: usize = 2 << 20;

/// An engine, a ledger, and images to be made.
struct Place {
    engine: Engine,
    client: SpawnerClient,
    docker: Docker,
    folder: TempDir,
    /// Of the image that others are built on.
    base: u64,
    evicted: Arc<EvictedImages>,
}

impl Place {
    async fn new(engine: Engine, client: SpawnerClient) -> Self {
        let docker = Docker::connect_with_unix(&engine.socket(), 60, bollard::API_DEFAULT_VERSION).unwrap();
        let docker = docker.negotiate_version().await.unwrap();
        let base = docker.inspect_image(image::NAME).await.unwrap().size.unwrap();
        let folder = tempfile::tempdir().unwrap();
        Self { engine, client, docker, folder, base: u64::try_from(base).unwrap(), evicted: Arc::default() }
    }

    /// A backend with a budget for the shared content of all images, plus the distinct content of this many.
    async fn backend(&self, images: f64, to_come: &[&ImageSource]) -> ContainerBackend {
        let budget = self.base + (images * BLOB as f64) as u64;
        let keeping = ImageRetention {
            budget: Some(budget),
            to_come: to_come.iter().map(|&source| (source.clone(), 1)).collect(),
            ..self.keeping()
        };
        backend_keeping(&self.engine.socket(), self.client.clone(), "keeping", Some(keeping)).await
    }

    fn keeping(&self) -> ImageRetention {
        ImageRetention {
            ledger: self.folder.path().join("cache/images.json"),
            budget: None,
            to_come: HashMap::new(),
            evicted: Arc::clone(&self.evicted),
        }
    }

    /// A folder to build from.
    fn build(&self, name: &str) -> ImageSource {
        let context = self.folder.path().join(name);
        std::fs::create_dir_all(&context).unwrap();
        let dockerfile = format!("FROM {}\nWORKDIR /app\nRUN mkdir /{name}\nCOPY blob .\n", image::NAME);
        std::fs::write(context.join("Dockerfile"), dockerfile).unwrap();
        std::fs::write(context.join("blob"), blob(name)).unwrap();
        ImageSource::Build { context, dockerfile: "Dockerfile".to_owned(), timeout: Duration::from_secs(60) }
    }

    /// Starts a container, has it removed, and says which image it was made of.
    async fn used(&self, backend: &ContainerBackend, source: &ImageSource) -> String {
        let started = backend.start(of(source)).await.unwrap();
        let id = self.images_of_containers().await.pop().unwrap();
        drop(started);
        removed_but(0, &self.engine.socket()).await;
        id
    }

    async fn images_of_containers(&self) -> Vec<String> {
        let options = bollard::query_parameters::ListContainersOptions { all: true, ..Default::default() };
        let found = self.docker.list_containers(Some(options)).await.unwrap();
        found.into_iter().map(|container| container.image_id.unwrap()).collect()
    }

    /// Ids of all images that have a name, except the base image.
    async fn there(&self) -> BTreeSet<String> {
        let images = self.docker.list_images(None::<ListImagesOptions>).await.unwrap();
        assert!(images.iter().any(|image| image.repo_tags == [image::NAME]), "it was imported, not made");
        let made = images.into_iter().filter(|image| image.repo_tags != [image::NAME]);
        made.map(|image| image.id).collect()
    }

    async fn check_there(&self, expected: &[&String]) {
        assert_eq!(self.there().await, expected.iter().map(|&id| id.clone()).collect());
    }
}

/// Nothing that compresses, and nothing that two have in common.
fn blob(name: &str) -> Vec<u8> {
    name.bytes()
        .cycle()
        .zip(0u32..)
        .map(|(byte, at)| byte.wrapping_mul(31) ^ at.to_le_bytes()[at as usize % 3])
        .take(BLOB)
        .collect()
}

fn of(source: &ImageSource) -> SandboxSpec {
    let source = source.clone();
    SandboxSpec { image: Some(ImageSpec { source, workdir: None, user: None }), ..waiting() }
}

fn with_place<F: Future<Output = ()>>(test: impl FnOnce(Arc<Place>) -> F) {
    with_engine(|engine, client| async move {
        let place = Arc::new(Place::new(engine, client).await);
        test(Arc::clone(&place)).await;
        assert_eq!(containers(&place.engine.socket()).await, 0);
    });
}

#[test]
fn pulled_image_is_removed_by_its_pull_name() {
    with_place(|place| async move {
        let registry = Registry::start().await;
        let backend = place.backend(0.5, &[]).await;
        let mut last = None;
        for (name, word) in [("x/one", "1"), ("x/two", "2")] {
            let mut layer = tokio::task::spawn_blocking(image::pack).await.unwrap();
            // Data after the end of an archive is part of no file, and makes another layer.
            layer.extend(word.as_bytes());
            let source = ImageSource::Name(registry.offer(name, layer));
            let started = backend.start(of(&source)).await.unwrap();
            assert_eq!(text(&sh(started.sandbox.as_ref(), "cat in-image.txt").await), "from the image\n");
            drop(started);
            last = Some(place.used(&backend, &source).await);
        }
        place.check_there(&[&last.unwrap()]).await;
        assert_eq!(place.evicted.so_far().0, 1);
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
    });
}

impl Place {
    /// As [`Place::used`], while a container of another image lives.
    async fn used_beside(&self, backend: &ContainerBackend, source: &ImageSource, other: &String) -> String {
        let started = backend.start(of(source)).await.unwrap();
        let id = self.images_of_containers().await.into_iter().find(|id| id != other).unwrap();
        drop(started);
        removed_but(1, &self.engine.socket()).await;
        id
    }
}

#[test]
fn budget_without_readable_ledger_is_refused() {
    with_place(|place| async move {
        let keeping = ImageRetention { budget: Some(1), ..place.keeping() };
        std::fs::create_dir_all(keeping.ledger.parent().unwrap()).unwrap();
        std::fs::write(&keeping.ledger, "what is this?").unwrap();
        let engines = probe_engines(&EngineAccess::new(place.engine.socket())).await.unwrap();
        let backend = |keeping: ImageRetention| {
            let config = ContainerConfig {
                engines: engines.clone(),
                run: RunId::new("refused").unwrap(),
                determinism: Determinism::default(),
                images: Some(keeping),
            };
            ContainerBackend::new(place.client.clone(), config)
        };
        let fault = backend(keeping).unwrap_err();
        let found = (fault.boundary, fault.code.as_str(), fault.retry);
        assert_eq!(found, (Boundary::Provider, "image-ledger", Retry::Never));
        assert!(fault.message.contains("images.json") && fault.message.contains("delete it"), "{fault}");
        // Without one, nothing depends on it.
        let without = backend(place.keeping()).unwrap();
        place.used(&without, &place.build("a")).await;
        assert_eq!(without.shutdown().await, Vec::<String>::new());
    });
}

mod slow {
    use super::*;

    #[test]
    fn least_recent_image_is_removed_and_refetched() {
        with_place(|place| async move {
            let [a, b, c] = ["a", "b", "c"].map(|name| place.build(name));
            let backend = place.backend(2.5, &[]).await;
            let first = place.used(&backend, &a).await;
            let second = place.used(&backend, &b).await;
            assert_eq!(place.used(&backend, &a).await, first);
            place.check_there(&[&first, &second]).await;
            // I3.
            let third = place.used(&backend, &c).await;
            place.check_there(&[&first, &third]).await;
            let (images, bytes) = place.evicted.so_far();
            assert_eq!(images, 1);
            assert!(
                (BLOB as u64..BLOB as u64 * 5 / 4).contains(&bytes),
                "{bytes} bytes: what it shares with others stays"
            );
            // I4: the same backend knew it.
            let again = place.used(&backend, &b).await;
            place.check_there(&[&third, &again]).await;
            assert_eq!(backend.shutdown().await, Vec::<String>::new());
            // When they were used last is known to later runs, too.
            let later = place.backend(2.5, &[]).await;
            assert_eq!(place.used(&later, &c).await, third);
            let first = place.used(&later, &a).await;
            place.check_there(&[&third, &first]).await;
            assert_eq!(place.evicted.so_far().0, 3);
            assert_eq!(later.shutdown().await, Vec::<String>::new());
        });
    }

    /// I1, I2.
    #[test]
    fn used_needed_and_foreign_images_stay() {
        with_place(|place| async move {
            let [used, needed, tagged, own, last] =
                ["used", "needed", "tagged", "own", "last"].map(|name| place.build(name));
            // Made by a run without a ledger, so its owner is unknown.
            let without =
                backend_keeping(&place.engine.socket(), place.client.clone(), "without", None).await;
            let nobodys = place.used(&without, &own).await;
            assert_eq!(without.shutdown().await, Vec::<String>::new());

            let before = place.backend(100.0, &[]).await;
            let needed_id = place.used(&before, &needed).await;
            let tagged_id = place.used(&before, &tagged).await;
            assert_eq!(before.shutdown().await, Vec::<String>::new());
            let options = TagImageOptions { repo: Some("mine".to_owned()), tag: Some("1".to_owned()) };
            place.docker.tag_image(&tagged_id, Some(options)).await.unwrap();

            let backend = place.backend(0.0, &[&needed, &used, &own]).await;
            let holding = backend.start(of(&used)).await.unwrap();
            let used_id = place.images_of_containers().await.pop().unwrap();
            assert_eq!(place.used_beside(&backend, &own, &used_id).await, nobodys);
            let last_id = place.used_beside(&backend, &last, &used_id).await;
            place.check_there(&[&nobodys, &needed_id, &tagged_id, &used_id, &last_id]).await;
            assert_eq!(place.evicted.so_far(), (0, 0));
            // The slot that needed it has begun, and nothing holds any of them.
            drop(holding);
            assert_eq!(place.used(&backend, &needed).await, needed_id);
            let again = place.used(&backend, &place.build("again")).await;
            place.check_there(&[&nobodys, &tagged_id, &again]).await;
            assert_eq!(place.evicted.so_far().0, 3);
            assert_eq!(backend.shutdown().await, Vec::<String>::new());
        });
    }

    #[test]
    fn removed_image_is_obtained_again() {
        with_place(|place| async move {
            let source = place.build("a");
            let keeping = Some(place.keeping());
            for keeping in [keeping, None] {
                let backend =
                    backend_keeping(&place.engine.socket(), place.client.clone(), "again", keeping).await;
                let id = place.used(&backend, &source).await;
                let options = RemoveImageOptions { force: true, ..RemoveImageOptions::default() };
                place.docker.remove_image(&id, Some(options), None).await.unwrap();
                let both = tokio::join!(backend.start(of(&source)), backend.start(of(&source)));
                drop((both.0.unwrap(), both.1.unwrap()));
                assert_eq!(backend.shutdown().await, Vec::<String>::new());
            }
        });
    }

    #[test]
    fn concurrent_starts_work_with_zero_budget() {
        with_place(|place| async move {
            let sources = ["a", "b", "c", "d"].map(|name| place.build(name));
            let (one, other) = (place.backend(0.0, &[]).await, place.backend(0.0, &[]).await);
            let workers = [(&one, 1), (&other, 1), (&one, 3), (&other, 3)].map(|(backend, stride)| {
                let sources = &sources;
                async move {
                    for at in 0..6 {
                        let started = backend.start(of(&sources[at * stride % sources.len()])).await.unwrap();
                        let said = text(&sh(started.sandbox.as_ref(), "stat -c %s blob").await);
                        assert_eq!(said, format!("{BLOB}\n"));
                    }
                }
            });
            join_all(workers).await;
            assert!(place.evicted.so_far().0 > 0);
            assert_eq!(one.shutdown().await, Vec::<String>::new());
            assert_eq!(other.shutdown().await, Vec::<String>::new());
        });
    }
}
