//! A private engine with one small image, and a backend on it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clawrl_container::{
    ContainerBackend, ContainerConfig, EngineAccess, EngineReport, ImageRetention, probe_engine,
    probe_engines,
};
use clawrl_core::{Determinism, ImageSource, ImageSpec, NetworkPolicy, RunId, SandboxLimits};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    Announcer, ExecOutput, ExecSpec, Sandbox, SandboxBackend, SandboxCommand, SandboxSpec, StartedSandbox,
    WorkspaceStart,
};
use tempfile::TempDir;

use crate::image;
use crate::tls::Tls;

/// How long an engine may take to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine of this test's own, with the image [`image::NAME`].
pub(crate) struct Engine {
    folder: TempDir,
    daemon: Child,
}

impl Engine {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("clawrl-engine-").tempdir().unwrap();
        let daemon = launch(folder.path());
        let mut engine = Self { folder, daemon };
        engine.answers().await;
        image::import(&engine.socket()).await;
        engine
    }

    pub(crate) fn socket(&self) -> String {
        socket(self.folder.path())
    }

    async fn answers(&mut self) -> EngineReport {
        let until = Instant::now() + PATIENCE;
        loop {
            match probe_engine(&self.socket(), None).await {
                Ok(report) => return report,
                Err(fault) => {
                    let ended = self.daemon.try_wait().unwrap();
                    assert!(ended.is_none() && Instant::now() < until, "{fault}\n{}", self.said());
                }
            }
            // timer: an engine has no event for listening.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends the engine as its administrator would, and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.end();
        self.start_again().await;
    }

    /// After [`Engine::end`].
    pub(crate) async fn start_again(&mut self) {
        self.daemon = launch(self.folder.path());
        self.answers().await;
    }

    pub(crate) fn end(&mut self) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.daemon.id()).unwrap()).unwrap();
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.daemon.wait();
    }

    fn said(&self) -> String {
        let mut text = String::new();
        let _ =
            File::open(self.folder.path().join("log")).and_then(|mut file| file.read_to_string(&mut text));
        text.lines().rev().take(12).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.end();
    }
}

fn socket(folder: &Path) -> String {
    format!("unix://{}/socket", folder.display())
}

/// A daemon that ends with this process, whatever happens to it.
fn launch(folder: &Path) -> Child {
    let at = |name: &str| folder.join(name).display().to_string();
    let log = File::create(folder.join("log")).unwrap();
    Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "dockerd", "--bridge=none", "--iptables=false", "--ip6tables=false"])
        .args([
            "--data-root",
            &at("data"),
            "--exec-root",
            &at("exec"),
            "--pidfile",
            &at("pid"),
            "--host",
            &socket(folder),
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Tests a backend twice: with an engine whose containers are entered from here, and with a remote one.
macro_rules! here_and_elsewhere {
    ($name:ident, $test:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            #[test]
            fn here() {
                crate::engine::with_backend($test);
            }

            #[test]
            fn elsewhere() {
                crate::engine::with_backend_elsewhere($test);
            }
        }
    };
}
pub(crate) use here_and_elsewhere;

/// Runs `test` with a backend on an engine of its own, and checks that nothing is left.
pub(crate) fn with_backend<F: Future<Output = ()>>(test: impl FnOnce(ContainerBackend, String) -> F) {
    with_engine(|engine, client| async move {
        let backend = backend(&engine.socket(), client, "test").await;
        test(backend.clone(), engine.socket()).await;
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
        assert_eq!(backend.live(), 0);
        assert_eq!(containers(&engine.socket()).await, 0);
    });
}

/// The same by a node, as of another machine.
pub(crate) fn with_backend_elsewhere<F: Future<Output = ()>>(
    test: impl FnOnce(ContainerBackend, String) -> F,
) {
    with_engine(|engine, client| async move {
        let tls = Tls::before(&engine.socket()).await;
        let backend = backend_by(&tls.access(), client, "elsewhere", None).await;
        test(backend.clone(), engine.socket()).await;
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
        assert_eq!(backend.live(), 0);
        assert_eq!(all_containers(&engine.socket()).await, Vec::<String>::new());
    });
}

/// Runs `test` with an engine and a spawner.
pub(crate) fn with_engine<F: Future<Output = ()>>(test: impl FnOnce(Engine, SpawnerClient) -> F) {
    // The spawner is looked for beside the test program, as `clawrl` looks for it.
    let spawner = Spawner::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let client = SpawnerClient::attach(spawner).unwrap();
        test(Engine::start().await, client).await;
    });
}

pub(crate) async fn backend(socket: &str, client: SpawnerClient, run: &str) -> ContainerBackend {
    backend_keeping(socket, client, run, None).await
}

pub(crate) async fn backend_keeping(
    socket: &str,
    client: SpawnerClient,
    run: &str,
    images: Option<ImageRetention>,
) -> ContainerBackend {
    backend_by(&EngineAccess::new(socket), client, run, images).await
}

pub(crate) async fn backend_by(
    access: &EngineAccess,
    client: SpawnerClient,
    run: &str,
    images: Option<ImageRetention>,
) -> ContainerBackend {
    let engines = probe_engines(access).await.unwrap();
    let config = ContainerConfig {
        engines,
        run: RunId::new(run).unwrap(),
        determinism: Determinism::default(),
        images,
    };
    ContainerBackend::new(client, config).unwrap()
}

/// How many containers of tasks an engine has, running or not.
pub(crate) async fn containers(socket: &str) -> usize {
    let found = all_containers(socket).await;
    found.iter().filter(|image| !image.starts_with("clawrl-node:")).count()
}

/// Waits until an engine has no more containers than these.
pub(crate) async fn removed_but(kept: usize, socket: &str) {
    let until = Instant::now() + PATIENCE;
    while containers(socket).await > kept {
        assert!(Instant::now() < until, "{:?} are still there", all_containers(socket).await);
        // timer: a backend has no event for removing a container.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The images of all containers that an engine has, running or not.
pub(crate) async fn all_containers(socket: &str) -> Vec<String> {
    let docker = bollard::Docker::connect_with_unix(socket, 60, bollard::API_DEFAULT_VERSION).unwrap();
    let docker = docker.negotiate_version().await.unwrap();
    let options = bollard::query_parameters::ListContainersOptions { all: true, ..Default::default() };
    let found = docker.list_containers(Some(options)).await.unwrap();
    found.into_iter().map(|one| one.image.unwrap_or_default()).collect()
}

/// The image of every test.
pub(crate) fn small() -> ImageSpec {
    ImageSpec { source: ImageSource::Name(image::NAME.to_owned()), workdir: None, user: None }
}

/// A container whose main program only waits.
pub(crate) fn waiting() -> SandboxSpec {
    SandboxSpec {
        label: "test".to_owned(),
        main: SandboxCommand {
            program: "sleep".to_owned(),
            arguments: vec!["1000".to_owned()],
            ..SandboxCommand::default()
        },
        announced_by: Announcer::Wrapper,
        size: (80, 24),
        support_files: Vec::new(),
        limits: SandboxLimits { memory_mib: 64, disk_mib: 8, pids: 48, cpu_percent: 100 },
        network: NetworkPolicy::None,
        image: Some(small()),
        workspace: WorkspaceStart::Image,
        folders: Vec::new(),
        read_only: Vec::new(),
        inner_sandbox: false,
    }
}

pub(crate) async fn start(backend: &ContainerBackend) -> StartedSandbox {
    backend.start(waiting()).await.unwrap()
}

pub(crate) async fn sh(sandbox: &dyn Sandbox, script: &str) -> ExecOutput {
    sh_as(sandbox, None, script, Duration::from_secs(20)).await
}

pub(crate) async fn sh_as(
    sandbox: &dyn Sandbox,
    user: Option<&str>,
    script: &str,
    limit: Duration,
) -> ExecOutput {
    let command = SandboxCommand {
        program: "/bin/bash".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        ..SandboxCommand::default()
    };
    let user = user.map(str::to_owned);
    let spec = ExecSpec {
        command,
        input: Vec::new(),
        output_cap: 64 * 1024,
        deadline: Instant::now() + limit,
        user,
    };
    sandbox.exec(spec).await.unwrap()
}

pub(crate) fn text(output: &ExecOutput) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}
