//! Images: there, fetched, or built; once for all who wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptions;
use clawrl_core::{Boundary, BoxFuture, Fault, ImageSource, ImageSpec, Retry};
use clawrl_sandbox::WorkspaceStart;
use futures_util::future::Shared;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::Semaphore;

use crate::build;
use crate::engine::refused;

/// Fetches and builds at once: each loads the engine, the disk and somebody's registry.
const AT_ONCE: usize = 2;

/// What a container of an image begins with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ImageFacts {
    /// By which the engine finds exactly this one.
    pub(crate) id: String,
    /// `WORKDIR`.
    pub(crate) workdir: Option<String>,
    /// `USER`; nothing stands for root.
    pub(crate) user: String,
    /// `ENV`.
    pub(crate) environment: Vec<(String, String)>,
    /// `VOLUME`: file systems of their own in every container of the image.
    pub(crate) volumes: Vec<String>,
}

impl ImageFacts {
    /// The workspace of a container, an absolute path.
    ///
    /// # Errors
    /// A permanent provider [`Fault`], when the image makes it the whole file system, or a volume a part of it.
    pub(crate) fn workspace(&self, image: &ImageSpec, start: WorkspaceStart) -> Result<String, Fault> {
        let named = |code: &str, what: String, instead: &str| {
            let message = format!("{}: {what}; {instead}", shown(&image.source));
            Fault::permanent(Boundary::Provider, code, message)
        };
        let own = self.workdir.as_deref();
        let asked = image.workdir.as_deref().or(own).unwrap_or("/");
        let parts = folders(asked);
        if parts.is_empty() {
            if start == WorkspaceStart::Unseen {
                return Ok("/".to_owned());
            }
            let whose = match (&image.workdir, own) {
                (Some(_), _) => "`workdir: /` is the whole image",
                (None, Some(_)) => "its WORKDIR is `/`, the whole image",
                (None, None) => "it has no WORKDIR, which stands for `/`, the whole image",
            };
            let what =
                format!("{whose}, and a workspace is a folder of its own: it is judged, copied and emptied");
            let instead = "say `workdir: /app` beside the image's source in the suite, or `WORKDIR /app` in its Dockerfile";
            return Err(named("image-workdir", what, instead));
        }
        let within = |volume: &&String| {
            let volume = folders(volume);
            let len = volume.len().min(parts.len());
            volume[..len] == parts[..len]
        };
        if let Some(volume) = self.volumes.iter().find(within) {
            let what = format!(
                "the workspace `{asked}` and `VOLUME {volume}` overlap, and a volume is no part of the container's own \
                 files: what is in it is neither judged nor brought to a verifier"
            );
            let instead = "say another `workdir:` beside the image's source in the suite, or take the VOLUME out of its Dockerfile";
            return Err(named("image-volume", what, instead));
        }
        Ok(format!("/{}", parts.join("/")))
    }
}

/// For people.
fn shown(source: &ImageSource) -> String {
    match source {
        ImageSource::Name(name) => format!("image `{name}`"),
        ImageSource::Build { context, dockerfile, .. } => {
            format!("the image of {}", context.join(dockerfile).display())
        }
        other => format!("the image of {other:?}"),
    }
}

/// The folders of a path from the root on, as a path is read without looking at the files.
fn folders(path: &str) -> Vec<&str> {
    let mut folders = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(folders.pop()),
            name => folders.push(name),
        }
    }
    folders
}

type Answer = Result<Arc<ImageFacts>, Fault>;

/// The images that were asked for.
#[derive(Debug)]
pub(crate) struct Images {
    docker: Docker,
    known: Mutex<HashMap<ImageSource, Wanted>>,
    places: Arc<Semaphore>,
}

/// An image on its way or there.
#[derive(Debug, Clone)]
struct Wanted {
    answer: Shared<BoxFuture<'static, Answer>>,
    /// Ended with the images.
    task: tokio::task::AbortHandle,
}

impl Images {
    pub(crate) fn new(docker: Docker) -> Self {
        Self { docker, known: Mutex::default(), places: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// The image, fetched or built if need be. Dropping the future leaves it on its way, for whoever asks next.
    pub(crate) async fn ready(&self, source: &ImageSource) -> Answer {
        let wanted = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(source.clone()).or_insert_with(|| self.begin(source.clone())).clone()
        };
        let answer = wanted.answer.await;
        if answer.as_ref().is_err_and(|fault| fault.retry == Retry::Sound) {
            // The next one who asks tries again; what cannot be had is told at once.
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.get(source).is_some_and(|now| now.task.id() == wanted.task.id()) {
                known.remove(source);
            }
        }
        answer
    }

    fn begin(&self, source: ImageSource) -> Wanted {
        let (docker, places) = (self.docker.clone(), Arc::clone(&self.places));
        let task = tokio::spawn(async move { make_ready(&docker, &places, &source).await.map(Arc::new) });
        let handle = task.abort_handle();
        let answer: BoxFuture<'static, Answer> = Box::pin(async move {
            let lost = |error| {
                Fault::permanent(Boundary::Harness, "panic", format!("getting an image ready: {error}"))
            };
            task.await.map_err(lost)?
        });
        Wanted { answer: answer.shared(), task: handle }
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        let known = self.known.get_mut().unwrap_or_else(PoisonError::into_inner);
        known.values().for_each(|wanted| wanted.task.abort());
    }
}

async fn make_ready(docker: &Docker, places: &Semaphore, source: &ImageSource) -> Result<ImageFacts, Fault> {
    let closed = |_| Fault::permanent(Boundary::Provider, "shut-down", "the container backend was shut down");
    match source {
        ImageSource::Name(name) => {
            if let Some(facts) = look(docker, name).await? {
                return Ok(facts);
            }
            let _place = places.acquire().await.map_err(closed)?;
            fetch(docker, name).await?;
            let gone = || missing(name, "it was fetched, and is not there");
            look(docker, name).await?.ok_or_else(gone)
        }
        ImageSource::Build { context, dockerfile, timeout } => {
            let _place = places.acquire().await.map_err(closed)?;
            let built = tokio::time::timeout(*timeout, build::build(docker, context, dockerfile)).await;
            let late = |_| {
                let message = format!(
                    "the build of {} took longer than {} s; raise `build_timeout_secs`",
                    context.display(),
                    timeout.as_secs()
                );
                Fault::permanent(Boundary::Provider, "build-timeout", message)
            };
            let name = built.map_err(late)??;
            look(docker, &name).await?.ok_or_else(|| missing(&name, "it was built, and is not there"))
        }
        ImageSource::Rootfs(folder) => {
            let message = format!(
                "`image: {{ rootfs: {} }}` is for `sandbox: bubblewrap`; `tar -C FOLDER -c . | docker import - NAME` makes an \
                 image of it, for `image: {{ name: NAME, workdir: /app }}`",
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

/// What the engine has of this name.
pub(crate) async fn look(docker: &Docker, name: &str) -> Result<Option<ImageFacts>, Fault> {
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
                    format!("image `{name}` cannot be fetched now: {why}"),
                )
            } else {
                missing(name, &why)
            });
        }
    }
    Ok(())
}

/// A registry that is there and busy, or slow.
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
        "image `{name}` is not here and cannot be fetched: {why}; `docker pull {name}` where its registry can be reached, \
         `docker load` of a saved one, or `docker import` of a root file system brings it"
    );
    Fault::permanent(Boundary::Provider, "image-missing", message)
}

/// Name and tag. An engine that is asked for a name alone would fetch every tag there is.
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

    fn workspace(
        (own, volumes): (Option<&str>, &[&str]),
        asked: Option<&str>,
        start: WorkspaceStart,
    ) -> Result<String, Fault> {
        let facts = ImageFacts {
            id: String::new(),
            workdir: own.map(str::to_owned),
            user: String::new(),
            environment: Vec::new(),
            volumes: volumes.iter().map(|&volume| volume.to_owned()).collect(),
        };
        let source = ImageSource::Name("x:1".to_owned());
        facts.workspace(&ImageSpec { source, workdir: asked.map(str::to_owned), user: None }, start)
    }

    #[test]
    fn a_workspace_is_a_folder_of_its_own() {
        let check = |own: Option<&str>, asked: Option<&str>, expected: Result<&str, &str>| {
            for start in [WorkspaceStart::Image, WorkspaceStart::Empty] {
                match (workspace((own, &[]), asked, start), expected) {
                    (Ok(folder), Ok(expected)) => assert_eq!(folder, expected, "{own:?} {asked:?}"),
                    (Err(fault), Err(part)) => {
                        assert_eq!((fault.code.as_str(), fault.retry), ("image-workdir", Retry::Never));
                        for part in [part, "image `x:1`", "`workdir: /app`", "`WORKDIR /app`"] {
                            assert!(fault.message.contains(part), "{fault}");
                        }
                    }
                    (found, _) => panic!("{own:?} {asked:?}: {found:?}"),
                }
            }
        };
        check(Some("/app"), None, Ok("/app"));
        check(Some("/app//x/"), None, Ok("/app/x"));
        check(None, Some("/work"), Ok("/work"));
        check(Some("/"), Some("/work"), Ok("/work"));
        check(None, None, Err("it has no WORKDIR"));
        check(Some("/"), None, Err("its WORKDIR is `/`"));
        check(Some("/app/.."), None, Err("its WORKDIR is `/`"));
        check(Some("/app"), Some("/"), Err("`workdir: /`"));
        // A verifier apart only begins there.
        assert_eq!(workspace((None, &["/data"]), None, WorkspaceStart::Unseen).unwrap(), "/");
    }

    #[test]
    fn a_volume_stays_out_of_the_workspace() {
        let check = |volume: &str, refused: bool| {
            for start in [WorkspaceStart::Image, WorkspaceStart::Empty, WorkspaceStart::Unseen] {
                let found = workspace((Some("/srv/app"), &["/other", volume]), None, start);
                assert_eq!(found.is_err(), refused, "{volume}: {found:?}");
                let Err(fault) = found else { continue };
                assert_eq!((fault.code.as_str(), fault.retry), ("image-volume", Retry::Never));
                for part in ["image `x:1`", "`/srv/app`", volume, "`workdir:`"] {
                    assert!(fault.message.contains(part), "{fault}");
                }
            }
        };
        check("/srv/app", true);
        check("/srv/app/", true);
        check("/srv/app/data/x", true);
        // All of the workspace lies in it.
        check("/srv", true);
        check("/srv/application", false);
        check("/data", false);
    }

    #[test]
    fn one_tag_is_asked_for() {
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
    fn what_may_pass_is_told_from_what_is_missing() {
        let check = |why: &str, expected| assert_eq!(may_pass(why), expected, "{why}");
        check("toomanyrequests: You have reached your pull rate limit.", true);
        check("net/http: TLS handshake timeout", true);
        check("pull access denied for x, repository does not exist", false);
        check("dial tcp: lookup registry on 127.0.0.53:53: no such host", false);
    }
}
