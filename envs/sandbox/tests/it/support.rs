//! A backend on a spawner of its own, and short ways to start and to ask sandboxes.

use std::time::{Duration, Instant};

use clawrl_core::{Determinism, RunId, SandboxLimits};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    Announcer, BubblewrapBackend, BubblewrapConfig, CgroupHost, ExecOutput, ExecSpec, Sandbox,
    SandboxBackend, SandboxCommand, SandboxSpec, StartedSandbox, probe_host,
};
use clawrl_testkit::again_as_normal_user;

/// Runs `test` on a runtime with a backend, and checks that nothing is left.
pub(crate) fn with_backend<F: Future<Output = ()>>(name: &str, test: impl FnOnce(BubblewrapBackend) -> F) {
    with_backend_on(CgroupHost::detect(), name, test);
}

/// The same with given control groups.
pub(crate) fn with_backend_on<F: Future<Output = ()>>(
    cgroups: CgroupHost,
    name: &str,
    test: impl FnOnce(BubblewrapBackend) -> F,
) {
    let spawner = spawner();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let backend = backend_on(spawner, cgroups, name);
        test(backend.clone()).await;
        assert_eq!(backend.shutdown().await, Vec::<String>::new());
        assert_eq!(backend.live(), 0);
    });
}

/// A spawner of this test's own.
pub(crate) fn spawner() -> Spawner {
    Spawner::start().unwrap()
}

/// A backend on that spawner. Call inside a runtime.
pub(crate) fn backend_on(spawner: Spawner, cgroups: CgroupHost, name: &str) -> BubblewrapBackend {
    let host = probe_host(cgroups).unwrap();
    let run = RunId::new(&format!("test-{name}")).unwrap();
    let client = SpawnerClient::attach(spawner).unwrap();
    let config = BubblewrapConfig { host, run, determinism: Determinism::default() };
    BubblewrapBackend::new(client, config).unwrap()
}

/// Runs `test`, and when we are root, the test of this name once more in a process of a normal user.
pub(crate) fn as_normal_user_too(name: &str, test: impl FnOnce()) {
    test();
    again_as_normal_user(name, &[&Spawner::find().unwrap()]);
}

/// A sandbox whose main program only waits.
pub(crate) fn waiting(label: &str) -> SandboxSpec {
    running(label, "sleep infinity")
}

/// A sandbox whose main program is this shell script.
pub(crate) fn running(label: &str, script: &str) -> SandboxSpec {
    SandboxSpec {
        label: label.to_owned(),
        main: SandboxCommand {
            program: "sh".to_owned(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            ..SandboxCommand::default()
        },
        announced_by: Announcer::Wrapper,
        size: (80, 24),
        support_files: Vec::new(),
        limits: SandboxLimits { memory_mib: 64, disk_mib: 4, pids: 48, cpu_percent: 100 },
        network: clawrl_core::NetworkPolicy::None,
        image: None,
        workspace: clawrl_sandbox::WorkspaceStart::Image,
        folders: Vec::new(),
        read_only: Vec::new(),
        inner_sandbox: false,
    }
}

/// Starts a sandbox that only waits.
pub(crate) async fn start(backend: &BubblewrapBackend, label: &str) -> StartedSandbox {
    backend.start(waiting(label)).await.unwrap()
}

/// Runs a shell script beside the main program.
pub(crate) async fn sh(sandbox: &dyn Sandbox, script: &str) -> ExecOutput {
    sh_within(sandbox, script, Duration::from_secs(20)).await
}

/// The same with a time limit.
pub(crate) async fn sh_within(sandbox: &dyn Sandbox, script: &str, limit: Duration) -> ExecOutput {
    let command = SandboxCommand {
        program: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        ..SandboxCommand::default()
    };
    let spec = ExecSpec {
        command,
        input: Vec::new(),
        output_cap: 1 << 20,
        deadline: Instant::now() + limit,
        user: None,
    };
    sandbox.exec(spec).await.unwrap()
}

/// Standard output and error as text.
pub(crate) fn text(output: &ExecOutput) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The output of a bash script beside the main program.
pub(crate) async fn bash(sandbox: &dyn Sandbox, script: &str) -> String {
    let quoted = script.replace('\'', r"'\''");
    text(&sh(sandbox, &format!("exec bash -c '{quoted}'")).await)
}
