//! Tasks of custom environments, providers for them, and servers.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    CustomLink, CustomSpec, Determinism, Env, EnvProvider, EnvSpec, Observation, RewardTotal, RunId,
    SandboxKind, SandboxLimits, StepCtx, TaskSpec, Timeouts, ToolCall, WorkspaceSpec,
};
use clawrl_custom::{CustomConfig, CustomProvider};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    BubblewrapBackend, BubblewrapConfig, CgroupHost, SandboxBackend, WarmMarks, probe_host,
};
use clawrl_testkit::{lease_request, step_ctx, task, text_file};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// The example that guesses numbers.
pub(crate) const GUESS: &str = include_str!("../../../../tasks/custom-python/env/env.py");

/// Acts as its configuration says.
pub(crate) const ROGUE: &str = include_str!("programs/rogue.py");

/// A Python program as an environment.
pub(crate) fn python(source: &str, config: Value) -> CustomSpec {
    process(&["python3", "env.py"], vec![("env.py", source)], config)
}

pub(crate) fn process(command: &[&str], files: Vec<(&str, &str)>, config: Value) -> CustomSpec {
    let limits = SandboxLimits { memory_mib: 96, disk_mib: 8, pids: 48, cpu_percent: 100 };
    let files = files.into_iter().map(|(path, text)| text_file(path, text)).collect();
    CustomSpec {
        link: CustomLink::Process {
            command: command.iter().map(|&entry| entry.to_owned()).collect(),
            workspace: Box::new(WorkspaceSpec { files, limits, ..WorkspaceSpec::default() }),
        },
        config,
        observation_chars: 2_000,
        message_bytes: 1 << 20,
        deterministic: true,
    }
}

pub(crate) fn http(base_url: &str, config: Value) -> CustomSpec {
    let link = CustomLink::Http { base_url: base_url.to_owned() };
    CustomSpec { link, ..process(&["none"], Vec::new(), config) }
}

pub(crate) fn openenv(base_url: &str, score: RewardTotal, config: Value) -> CustomSpec {
    let link = CustomLink::Openenv { base_url: base_url.to_owned(), score };
    CustomSpec { link, ..process(&["none"], Vec::new(), config) }
}

pub(crate) fn custom_task(spec: CustomSpec) -> Arc<TaskSpec> {
    Arc::new(TaskSpec { env: EnvSpec::Custom(spec), checks: Vec::new(), ..task("s/t") })
}

/// The same task with other limits.
pub(crate) fn within(limit: Duration, task: &Arc<TaskSpec>) -> Arc<TaskSpec> {
    let timeouts = Timeouts { setup: limit, step: limit, grade: limit, ..task.timeouts };
    Arc::new(TaskSpec { timeouts, ..TaskSpec::clone(task) })
}

pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall::new(name, arguments)
}

pub(crate) fn guess(number: i64) -> ToolCall {
    call("guess", json!({ "number": number }))
}

/// A provider without any sandboxes.
pub(crate) fn bare_provider() -> CustomProvider {
    CustomProvider::new(CustomConfig {
        backends: HashMap::new(),
        marks: WarmMarks { low: 0, high: 0 },
        expected: Vec::new(),
        determinism: Determinism::default(),
        run: RunId::new("test-custom").unwrap(),
    })
}

/// A provider of sandboxes for tasks like this one.
pub(crate) fn provider(client: SpawnerClient, spec: &CustomSpec) -> CustomProvider {
    let config = BubblewrapConfig {
        host: probe_host(CgroupHost::detect()).unwrap(),
        run: RunId::new("test-custom").unwrap(),
        determinism: Determinism::default(),
    };
    let backend: Arc<dyn SandboxBackend> = Arc::new(BubblewrapBackend::new(client, config).unwrap());
    CustomProvider::new(CustomConfig {
        backends: HashMap::from([(SandboxKind::Bubblewrap, backend)]),
        marks: WarmMarks { low: 0, high: 0 },
        expected: vec![(spec.clone(), u32::MAX)],
        determinism: Determinism::default(),
        run: RunId::new("test-custom").unwrap(),
    })
}

/// Runs `test` on a runtime with a connection to a spawner.
pub(crate) fn with_spawner<F: Future<Output = ()>>(test: impl FnOnce(SpawnerClient) -> F) {
    let spawner = Spawner::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async { test(SpawnerClient::attach(spawner).unwrap()).await });
}

/// Runs `test` with a provider of programs, and checks that nothing is left.
pub(crate) fn with_provider<F: Future<Output = ()>>(
    spec: &CustomSpec,
    test: impl FnOnce(Arc<CustomProvider>) -> F,
) {
    with_spawner(|client| async move {
        let provider = Arc::new(provider(client, spec));
        test(Arc::clone(&provider)).await;
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
        assert_eq!(provider.usage().live, 0);
    });
}

/// An environment after its reset, and the first observation.
pub(crate) async fn begun(provider: &dyn EnvProvider, task: &Arc<TaskSpec>) -> (Box<dyn Env>, Observation) {
    let mut env = provider.lease(lease_request(task)).await.unwrap();
    let observation = env.reset(step_ctx(0)).await.unwrap();
    (env, observation)
}

/// As the scheduler gives it: with the deadline of a limit.
pub(crate) fn ctx(seq: u32, limit: Duration) -> StepCtx {
    StepCtx { deadline: std::time::Instant::now() + limit, ..step_ctx(seq) }
}

/// A server of the example, and its address. Killed when dropped.
pub(crate) async fn serve(source: &str) -> (Child, String) {
    let mut child = Command::new("python3")
        .args(["-c", source, "--http", "0"])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).await.unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    (child, address)
}
