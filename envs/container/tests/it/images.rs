//! Images that are missing, and images that are built.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{Boundary, ImageSource, ImageSpec, Retry};
use clawrl_sandbox::{SandboxBackend, WorkspaceStart};

use crate::engine::{sh, text, waiting, with_backend};
use crate::image;

fn of(source: ImageSource) -> clawrl_sandbox::SandboxSpec {
    clawrl_sandbox::SandboxSpec { image: Some(ImageSpec { source, workdir: None, user: None }), ..waiting() }
}

#[test]
fn missing_image_error_says_how_to_get_it() {
    with_backend(|backend, _| async move {
        // An unreachable registry: nothing listens on that port.
        let name = "127.0.0.1:1/nobody/nothing:1";
        let fault = backend.start(of(ImageSource::Name(name.to_owned()))).await.err().unwrap();
        assert_eq!(
            (fault.boundary, fault.code.as_str(), fault.retry),
            (Boundary::Provider, "image-missing", Retry::Never)
        );
        for part in [name, "docker pull", "docker load", "docker import"] {
            assert!(fault.message.contains(part), "{fault}");
        }
        let rootfs = backend.start(of(ImageSource::Rootfs("/nowhere".into()))).await.err().unwrap();
        assert_eq!(rootfs.code, "image-unsupported");
    });
}

#[test]
fn image_is_built_once_per_folder_content() {
    with_backend(|backend, socket| async move {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "Dockerfile",
            &format!("FROM {}\nWORKDIR /built\nCOPY . .\nUSER agent\nRUN echo run > /tmp/ran\n", image::NAME),
        );
        write("data", "one\n");
        write("secret", "not for the image");
        write(".dockerignore", "secret\n");
        let source = ImageSource::Build {
            context: folder.path().to_owned(),
            dockerfile: "Dockerfile".to_owned(),
            timeout: Duration::from_secs(60),
        };
        let both = Arc::new(backend.clone());
        let (first, second) = tokio::join!(both.start(of(source.clone())), both.start(of(source.clone())));
        let (first, second) = (first.unwrap(), second.unwrap());
        let look = "pwd; ls; cat data /tmp/ran; id -un";
        let expected = "/built\nDockerfile\ndata\none\nrun\nagent\n";
        assert_eq!(text(&sh(first.sandbox.as_ref(), look).await), expected);
        assert_eq!(text(&sh(second.sandbox.as_ref(), look).await), expected);
        assert_eq!(built(&socket).await, 1);
        // Another run has another backend, and finds the built image.
        write("secret", "changed, and still not seen");
        let again = another(&socket).await;
        drop(again.start(of(source.clone())).await.unwrap());
        assert_eq!(built(&socket).await, 1);
        assert_eq!(again.shutdown().await, Vec::<String>::new());

        write("data", "two\n");
        let again = another(&socket).await;
        let third = again.start(of(source.clone())).await.unwrap();
        assert_eq!(text(&sh(third.sandbox.as_ref(), "cat data").await), "two\n");
        drop(third);

        write("Dockerfile", &format!("FROM {}\nRUN echo said; exit 3\n", image::NAME));
        let last = another(&socket).await;
        let fault = last.start(of(source)).await.err().unwrap();
        assert_eq!((fault.code.as_str(), fault.retry), ("build-failed", Retry::Never));
        assert!(fault.message.contains("said") && fault.message.contains('3'), "{fault}");
        assert_eq!(last.shutdown().await, Vec::<String>::new());
        assert_eq!(again.shutdown().await, Vec::<String>::new());
        drop((first, second));
    });
}

/// A folder with these files, to build from.
fn built_from(files: &[(&str, &str)]) -> (tempfile::TempDir, ImageSource) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let context = folder.path().to_owned();
    let timeout = Duration::from_secs(60);
    (folder, ImageSource::Build { context, dockerfile: "Dockerfile".to_owned(), timeout })
}

#[test]
fn dockerfile_patterns_override_folder_patterns() {
    with_backend(|backend, _| async move {
        let dockerfile = format!("FROM {}\nWORKDIR /built\nCOPY . .\n", image::NAME);
        let common = (".dockerignore", "common\nDockerfile*\n");
        let files = [("Dockerfile", dockerfile.as_str()), common, ("common", ""), ("own", "")];
        let look = async |source: ImageSource| {
            let started = backend.start(of(source)).await.unwrap();
            text(&sh(started.sandbox.as_ref(), "ls -A").await)
        };
        let (_folder, source) = built_from(&files);
        assert_eq!(look(source).await, ".dockerignore\nown\n");
        let with_own = |text| [&files[..], &[("Dockerfile.dockerignore", text)]].concat();
        let (_folder, source) = built_from(&with_own("own\n"));
        assert_eq!(look(source).await, "Dockerfile\nDockerfile.dockerignore\ncommon\n");
        let (_folder, source) = built_from(&with_own("own\nDockerfile\n"));
        assert_eq!(look(source).await, "Dockerfile.dockerignore\ncommon\n");
    });
}

/// C5.
#[test]
fn root_and_volume_workspaces_are_refused() {
    with_backend(|backend, _| async move {
        let refused = async |lines: &str, code: &str, part: &str| {
            let (_folder, source) =
                built_from(&[("Dockerfile", &format!("FROM {}\n{lines}\n", image::NAME))]);
            let fault = backend.start(of(source.clone())).await.err().unwrap();
            let found = (fault.boundary, fault.code.as_str(), fault.retry);
            assert_eq!(found, (Boundary::Provider, code, Retry::Never), "{fault}");
            assert!(fault.message.contains(part) && fault.message.contains("Dockerfile"), "{fault}");
            // The fault's advice.
            let image = ImageSpec { source, workdir: Some("/work".to_owned()), user: None };
            let started =
                backend.start(clawrl_sandbox::SandboxSpec { image: Some(image), ..waiting() }).await.unwrap();
            assert_eq!(text(&sh(started.sandbox.as_ref(), "pwd").await), "/work\n");
        };
        refused("WORKDIR /", "image-workdir", "`workdir: /app`").await;
        refused("VOLUME /app", "image-volume", "VOLUME /app").await;
        refused("VOLUME [\"/data\", \"/app/data/\"]", "image-volume", "/app/data").await;
        refused("VOLUME /srv\nWORKDIR /srv/app", "image-volume", "VOLUME /srv").await;
        // A verifier apart begins wherever its image says.
        let (_folder, source) = built_from(&[("Dockerfile", &format!("FROM {}\nWORKDIR /\n", image::NAME))]);
        let spec = clawrl_sandbox::SandboxSpec { workspace: WorkspaceStart::Unseen, ..of(source) };
        let started = backend.start(spec).await.unwrap();
        assert_eq!(text(&sh(started.sandbox.as_ref(), "pwd").await), "/\n");
    });
}

#[test]
fn folders_of_the_host_are_seen_and_cannot_be_written() {
    with_backend(|backend, _| async move {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join("a"), "seen\n").unwrap();
        let showing = |path: &std::path::Path| clawrl_sandbox::SandboxSpec {
            read_only: vec![path.to_owned()],
            ..waiting()
        };
        let started = backend.start(showing(folder.path())).await.unwrap();
        let place = folder.path().display();
        let script = format!("cat {place}/a; echo x 2>/dev/null >{place}/a || echo refused");
        assert_eq!(text(&sh(started.sandbox.as_ref(), &script).await), "seen\nrefused\n");
        drop(started);
        let fault = backend.start(showing(&folder.path().join("none"))).await.err().unwrap();
        assert_eq!((fault.code.as_str(), fault.retry), ("read-only-missing", Retry::Never), "{fault}");
    });
}

/// A backend of another run, on a spawner of its own.
async fn another(socket: &str) -> clawrl_container::ContainerBackend {
    let spawner = clawrl_sandbox::spawner::Spawner::start().unwrap();
    let client = clawrl_sandbox::spawner::SpawnerClient::attach(spawner).unwrap();
    crate::engine::backend(socket, client, "another").await
}

async fn built(socket: &str) -> usize {
    let docker = bollard::Docker::connect_with_unix(socket, 60, bollard::API_DEFAULT_VERSION).unwrap();
    let docker = docker.negotiate_version().await.unwrap();
    let images = docker.list_images(None::<bollard::query_parameters::ListImagesOptions>).await.unwrap();
    images.iter().filter(|image| image.repo_tags.iter().any(|tag| tag.starts_with("clawrl-build:"))).count()
}
