//! Sandboxes on unpacked images: visible and writable files, and hostile images.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_core::{Fault, ImageSource, ImageSpec, NetworkPolicy};
use clawrl_sandbox::{
    BubblewrapBackend, Exclusions, PutFile, SafeDir, SandboxBackend, SandboxFolder, SandboxSpec,
    StartedSandbox, TransferRequest, TreeBounds, WorkspaceStart,
};
use clawrl_testkit::unpack_image;
use rustix::fs::{CWD, FileType, Mode};

use crate::support::{as_normal_user_too, running, sh, text, waiting, with_backend};

/// An unpacked image in a folder that goes with it.
struct Unpacked {
    _folder: tempfile::TempDir,
    root: PathBuf,
}

impl Unpacked {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let root = folder.path().join("image");
        fs::create_dir(&root).unwrap();
        unpack_image(&root, &["touch"]).unwrap();
        Self { _folder: folder, root }
    }

    fn file(&self, path: &str, content: &str) -> &Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    fn link(&self, path: &str, target: impl AsRef<Path>) -> &Self {
        symlink(target, self.root.join(path)).unwrap();
        self
    }

    fn without(&self, path: &str) -> &Self {
        let path = self.root.join(path);
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap()
        } else {
            fs::remove_file(path).unwrap()
        }
        self
    }

    fn spec(&self, workdir: &str) -> SandboxSpec {
        let workdir = Some(workdir.to_owned());
        let image = ImageSpec { source: ImageSource::Rootfs(self.root.clone()), workdir, user: None };
        SandboxSpec { image: Some(image), ..waiting("image") }
    }
}

async fn start(backend: &BubblewrapBackend, spec: SandboxSpec) -> StartedSandbox {
    backend.start(spec).await.unwrap_or_else(|fault| panic!("{fault}"))
}

async fn said(started: &StartedSandbox, script: &str) -> String {
    text(&sh(started.sandbox.as_ref(), script).await)
}

async fn refused(backend: &BubblewrapBackend, spec: SandboxSpec) -> Fault {
    backend.start(spec).await.err().unwrap()
}

/// Runs `test` with an image, as root and as a normal user.
fn with_image<F: Future<Output = ()>>(name: &str, test: impl FnOnce(BubblewrapBackend, Unpacked) -> F) {
    as_normal_user_too(&format!("image::{name}"), || {
        let image = Unpacked::new();
        with_backend(name, |backend| test(backend, image));
    });
}

#[test]
fn image_is_visible_and_never_changed() {
    with_image("image_is_visible_and_never_changed", |backend, image| async move {
        image.file("app/data.txt", "from the image\n").file("app/deep/x", "x\n").link("app/to", "deep/x");
        let started = start(&backend, image.spec("/app")).await;
        let look = "pwd; cat data.txt to /etc/os-release; id -un; echo $HOME; ls /";
        let expected = "/app\nfrom the image\nx\nNAME=unpacked\nagent\n/home/agent\n\
                        app\nbin\ndev\netc\nhome\nlib\nlib64\nlogs\nopt\nproc\nroot\nsbin\ntmp\nusr\nvar\n";
        assert_eq!(said(&started, look).await, expected);
        let write = "for f in data.txt new /tmp/f $HOME/f /logs/f /dev/shm/f; do echo w > $f || echo no $f; done; \
                     cat data.txt; for f in /usr/f /etc/f /f /etc/passwd /usr/bin/cat; do echo w 2>/dev/null > $f \
                     && echo wrote $f; done; ls -A /home/agent";
        let found = said(&started, write).await;
        let lines: Vec<&str> = found
            .lines()
            .filter(|line| !line.contains("Read-only file system") && !line.contains("ermission denied"))
            .collect();
        assert_eq!(lines, ["w", "f"], "{found}");
        // The account of the image that had the agent's number made room for it.
        assert_eq!(said(&started, "cat /etc/passwd").await.matches("1000:1000").count(), 1);
        let workspace = started.sandbox.workspace().await.unwrap().unwrap();
        started.sandbox.kill().await.unwrap();
        assert_eq!(workspace.read_file("new", 10).unwrap(), b"w\n");
        assert_eq!(fs::read_to_string(image.root.join("app/data.txt")).unwrap(), "from the image\n");
        assert!(!image.root.join("app/new").exists() && !image.root.join("logs").exists());
    });
}

#[test]
fn a_workspace_that_the_image_lacks_is_made() {
    with_image("a_workspace_that_the_image_lacks_is_made", |backend, image| async move {
        image.file("usr/local/share/there", "there\n");
        for workdir in ["/work", "/data/deep/er", "/usr/src/app", "/usr/local/share/app", "/opt/app", "/opt"]
        {
            let started = start(&backend, image.spec(workdir)).await;
            let found = said(&started, "pwd; ls -A; touch f && echo made; cat /usr/local/share/there").await;
            assert_eq!(found, format!("{workdir}\nmade\nthere\n"));
            started.sandbox.kill().await.unwrap();
            if workdir != "/opt" {
                assert!(!image.root.join(&workdir[1..]).exists(), "{workdir}");
            }
        }
    });
}

#[test]
fn workspace_link_is_resolved_inside_image() {
    with_image("workspace_link_is_resolved_inside_image", |backend, image| async move {
        image.file("srv/app/f", "inside\n").link("app", "/srv/app").link("again", "app/../app");
        for workdir in ["/app", "/again"] {
            let started = start(&backend, image.spec(workdir)).await;
            assert_eq!(
                said(&started, "pwd; cat f; cat /app/f").await,
                "/srv/app\ninside\ninside\n",
                "{workdir}"
            );
        }
    });
}

#[test]
fn links_never_lead_to_the_host() {
    with_image("links_never_lead_to_the_host", |backend, image| async move {
        let host = tempfile::tempdir().unwrap();
        fs::set_permissions(host.path(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(host.path().join("secret"), "secret\n").unwrap();
        let up = PathBuf::from("../../../../../../../..").join(host.path().strip_prefix("/").unwrap());
        image.without("etc/passwd").without("etc/group").without("tmp").without("root");
        image.link("etc/passwd", host.path().join("secret")).link("etc/group", up.join("secret"));
        image
            .link("home", host.path())
            .link("tmp", "/oldroot/tmp")
            .link("logs", "/oldroot/tmp")
            .link("tests", host.path());
        image.link("out", host.path()).link("up", &up).link("root", "/oldroot/etc");
        image
            .file("app/f", "f\n")
            .link("app/absolute", host.path().join("secret"))
            .link("app/relative", up.join("secret"));
        for workdir in ["/app", "/out", "/up", "/out/sub"] {
            let spec = SandboxSpec {
                folders: vec![SandboxFolder { path: "/tests".to_owned(), files: Some(Vec::new()) }],
                ..image.spec(workdir)
            };
            let started = start(&backend, spec).await;
            let script = "pwd; cat absolute relative /etc/passwd /etc/group; touch made /tmp/made /logs/made; \
                          ls -A . /home /home/agent /tmp /logs /tests /out /up; cat /out/secret /up/secret";
            let found = said(&started, script).await;
            assert!(!found.lines().any(|line| line == "secret"), "{workdir}: {found}");
            assert!(found.starts_with(&format!("{workdir}\n")) && found.contains("agent:x:1000"), "{found}");
            started.sandbox.kill().await.unwrap();
        }
        let left: Vec<_> =
            fs::read_dir(host.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["secret"], "nothing was made on the host");
    });
}

#[test]
fn workspaces_over_the_system_are_refused_by_name() {
    with_image("workspaces_over_the_system_are_refused_by_name", |backend, image| async move {
        image.link("sneaky", "/usr/bin").link("up", "..").link("loop", "loop").file("file", "");
        for (workdir, why) in [
            ("/sneaky", "/usr/bin, after resolving links,"),
            ("/up", "/, after resolving links,"),
            ("/bin", "/usr/bin, after resolving links,"),
            ("/etc", "holds what programs need to run"),
            ("/tmp/x", "lies in /tmp"),
            ("/loop", "ymbolic link"),
        ] {
            let fault = refused(&backend, image.spec(workdir)).await;
            assert_eq!(fault.code, "image-workdir", "{fault}");
            assert!(fault.message.contains(workdir) && fault.message.contains(why), "{fault}");
        }
    });
}

#[test]
fn fifos_and_sockets_in_image_are_refused() {
    with_image("fifos_and_sockets_in_image_are_refused", |backend, image| async move {
        let fifo = image.root.join("var/pipe");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        let fault = refused(&backend, image.spec("/app")).await;
        assert_eq!(fault.code, "image-unfit");
        assert!(fault.message.contains("/var/pipe is a FIFO"), "{fault}");
        fs::remove_file(&fifo).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(&fifo).unwrap();
        let fault = refused(&backend, image.spec("/app")).await;
        assert!(fault.message.contains("/var/pipe is a socket"), "{fault}");
        drop(socket);
        // In a folder that no sandbox takes from an image, they do no harm.
        fs::remove_file(&fifo).unwrap();
        let fifo = image.root.join("tmp/pipe");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
        assert_eq!(said(&start(&backend, image.spec("/app")).await, "ls -A /tmp").await, "");
    });
}

#[test]
fn image_devices_are_unusable() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let image = &Unpacked::new();
    image.file("app/f", "");
    let device = |path: &str| {
        let null = rustix::fs::makedev(1, 3);
        rustix::fs::mknodat(
            CWD,
            image.root.join(path),
            FileType::CharacterDevice,
            Mode::from_raw_mode(0o666),
            null,
        )
        .unwrap();
    };
    device("var/null");
    device("zero");
    with_backend("devices", |backend| async move {
        let started = start(&backend, image.spec("/app")).await;
        let found =
            said(&started, "cat /var/null 2>/dev/null || echo dead; ls /zero 2>/dev/null || echo none").await;
        assert!(found.ends_with("dead\nnone\n"), "{found}");
        device("app/null");
        let fault = refused(&backend, image.spec("/app")).await;
        assert_eq!(fault.code, "image-workdir");
        assert!(fault.message.contains("/app/null is a character device"), "{fault}");
    });
}

#[test]
fn missing_parts_of_image_are_named() {
    with_image("missing_parts_of_image_are_named", |backend, image| async move {
        let shell = |image: &Unpacked| {
            let mut spec = image.spec("/app");
            spec.main.program = "bash".to_owned();
            spec
        };
        image.without("usr/bin/bash");
        let fault = refused(&backend, shell(&image)).await;
        assert_eq!(fault.code, "image-lacks-program");
        assert!(fault.message.contains("lacks the program bash in /usr/local/bin:/usr/bin"), "{fault}");
        // A link that is valid on the host only does not count as a shell.
        image.link("usr/bin/bash", "/proc/self/exe");
        assert_eq!(refused(&backend, shell(&image)).await.code, "image-lacks-program");
        image.without("usr/bin/sh");
        let fault = refused(&backend, image.spec("/app")).await;
        assert!(fault.message.contains("/bin/sh"), "{fault}");
        let missing = SandboxSpec {
            image: Some(ImageSpec {
                source: ImageSource::Rootfs(image.root.join("nowhere")),
                workdir: None,
                user: None,
            }),
            ..waiting("missing")
        };
        assert_eq!(refused(&backend, missing).await.code, "image-missing");
    });
}

#[test]
fn closed_image_error_names_the_folder() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let image = Unpacked::new();
    fs::set_permissions(&image.root, fs::Permissions::from_mode(0o700)).unwrap();
    with_backend("closed", |backend| async move {
        let fault = refused(&backend, image.spec("/app")).await;
        assert_eq!(fault.code, "image-closed");
        assert!(fault.message.contains("chmod o+rx"), "{fault}");
    });
}

#[test]
fn a_workspace_that_does_not_fit_names_its_limit() {
    with_image("a_workspace_that_does_not_fit_names_its_limit", |backend, image| async move {
        image.file("app/large", &"x".repeat(5 << 20));
        let fault = refused(&backend, image.spec("/app")).await;
        assert_eq!(fault.code, "image-workdir");
        assert!(fault.message.contains("raise `disk_mib`"), "{fault}");
        // Its content does not matter to a workspace that starts empty.
        let spec = SandboxSpec { workspace: WorkspaceStart::Empty, ..image.spec("/app") };
        assert_eq!(said(&start(&backend, spec).await, "ls -A").await, "");
    });
}

#[test]
fn engine_only_settings_are_refused() {
    with_backend("engine", |backend| async move {
        let image = |source, user: Option<&str>| {
            let image = ImageSpec { source, workdir: None, user: user.map(str::to_owned) };
            SandboxSpec { image: Some(image), ..running("engine", "true") }
        };
        let rootfs = || ImageSource::Rootfs("/nowhere".into());
        let public = SandboxSpec { network: NetworkPolicy::Public, ..running("engine", "true") };
        for spec in
            [image(ImageSource::Name("debian:12".to_owned()), None), image(rootfs(), Some("root")), public]
        {
            let fault = refused(&backend, spec).await;
            assert_eq!(fault.code, "needs-container", "{fault}");
            assert!(fault.message.contains("needs `sandbox: container`"), "{fault}");
        }
    });
}

#[test]
fn folders_are_visible_and_files_copied() {
    with_image("folders_are_visible_and_files_copied", |backend, image| async move {
        image.file("srv/out/f", "old\n").file("srv/out/stays", "stays\n");
        let put = |path: &str, content: &[u8]| PutFile {
            path: path.to_owned(),
            mode: 0o700,
            content: content.into(),
        };
        let spec = SandboxSpec {
            folders: vec![
                SandboxFolder {
                    path: "/tests".to_owned(),
                    files: Some(vec![put("run.sh", b"#!/bin/sh\necho run\n"), put("in/bytes", b"\xff\0")]),
                },
                SandboxFolder { path: "/extra".to_owned(), files: None },
            ],
            ..image.spec("/app")
        };
        let started = start(&backend, spec).await;
        let sandbox = started.sandbox.as_ref();
        let script = "/tests/run.sh; for f in /tests/run.sh /tests/new; do echo 2>/dev/null > $f && echo wrote; done; \
                      rm -rf /tests/in 2>/dev/null; ls /tests; mkdir -p out/sub; echo kept > out/f; echo left > out/f.o; \
                      echo 7 > /extra/n; ln -s /etc/passwd /logs/link; echo t > /tmp/t";
        assert_eq!(
            said(&started, script)
                .await
                .lines()
                .filter(|line| !line.contains("ead-only"))
                .collect::<Vec<_>>(),
            ["run", "in", "run.sh"]
        );
        sandbox.halt().await.unwrap();
        assert_eq!(sandbox.read("/extra/n".to_owned(), 10).await.unwrap().unwrap(), b"7\n");
        assert_eq!(sandbox.read("/logs/none".to_owned(), 10).await.unwrap(), None);
        assert!(
            sandbox.read("/logs/link".to_owned(), 10).await.unwrap_err().message.contains("symbolic link")
        );
        assert_eq!(sandbox.read("/etc/passwd".to_owned(), 10).await.unwrap_err().code, "not-kept");
        let folder = tempfile::tempdir().unwrap();
        let outside = Arc::new(SafeDir::open(folder.path()).unwrap());
        let carry = |inside: &str, name: &str| TransferRequest {
            inside: inside.to_owned(),
            outside: Arc::clone(&outside),
            name: name.to_owned(),
            exclude: Exclusions::new(["*.o"]),
            bounds: TreeBounds::default(),
        };
        sandbox.copy_out(carry("/app/out", "a")).await.unwrap();
        sandbox.copy_out(carry("/tmp/t", "b")).await.unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("a/f")).unwrap(), "kept\n");
        assert!(folder.path().join("a/sub").is_dir() && !folder.path().join("a/f.o").exists());
        assert!(sandbox.copy_out(carry("/app/nothing", "c")).await.is_err());
        // Content of another image at the destination is replaced.
        let other = start(&backend, image.spec("/srv")).await;
        other.sandbox.copy_in(carry("/srv/out", "a")).await.unwrap();
        other.sandbox.copy_in(carry("/home/agent/deep/t", "b")).await.unwrap();
        let found = said(&other, "cat out/f out/stays ~/deep/t; echo more >> out/f && echo own").await;
        assert_eq!(found, "kept\nstays\nt\nown\n");
    });
}

#[test]
fn staged_files_go_with_their_sandbox() {
    let mine = |when: &str| {
        let prefix = format!("-{}-", std::process::id());
        let names = fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().file_name());
        let own: Vec<_> = names
            .filter_map(|name| name.into_string().ok())
            .filter(|name| name.starts_with("clawrl-test-staged") && name.contains(&prefix))
            .collect();
        (when.to_owned(), own.len())
    };
    with_backend("staged", |backend| async move {
        let file = PutFile { path: "f".to_owned(), mode: 0o644, content: b"f".as_slice().into() };
        let folders = vec![SandboxFolder { path: "/tests".to_owned(), files: Some(vec![file]) }];
        let started = start(&backend, SandboxSpec { folders, ..waiting("staged") }).await;
        assert_eq!(said(&started, "cat /tests/f").await, "f");
        assert_eq!(mine("while it lives"), ("while it lives".to_owned(), 1));
        drop(started);
        assert_eq!(mine("after"), ("after".to_owned(), 0));
    });
}
