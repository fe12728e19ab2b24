//! Small tasks, and providers for them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    Check, CheckSpec, Determinism, Env, EnvProvider, EnvSpec, Judge, RunId, SandboxKind, SandboxLimits,
    StepResult, TaskSpec, ToolCall, ToolDecl, ToolKind, ToolcallSpec, WorkspaceSpec,
};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    BubblewrapBackend, BubblewrapConfig, CgroupHost, SandboxBackend, WarmMarks, probe_host,
};
use clawrl_testkit::{ready, step_ctx, task};
use clawrl_toolcall::{Secrets, ToolcallConfig, ToolcallProvider};
use serde_json::{Value, json};

/// A tool with the parameters of its kind, or with any.
pub(crate) fn tool(name: &str, kind: ToolKind) -> ToolDecl {
    ToolDecl {
        name: name.to_owned(),
        description: format!("Does {name}."),
        parameters: kind.own_parameters().unwrap_or_else(|| json!({ "type": "object" })),
        text_argument: None,
        kind,
        timeout: Duration::from_secs(20),
        max_calls: None,
    }
}

/// The same tool with another limit of time.
pub(crate) fn within(millis: u64, tool: ToolDecl) -> ToolDecl {
    ToolDecl { timeout: Duration::from_millis(millis), ..tool }
}

pub(crate) fn command(name: &str, argv: &[&str]) -> ToolDecl {
    let argv = argv.iter().map(|&text| text.to_owned()).collect();
    tool(name, ToolKind::Command { argv, stdin: None })
}

/// Tools that need no sandbox.
pub(crate) fn in_process(tools: Vec<ToolDecl>) -> ToolcallSpec {
    ToolcallSpec {
        tools,
        mcp: Vec::new(),
        workspace: None,
        observation_chars: 2_000,
        max_parallel_calls: 8,
        step_rewards: Vec::new(),
    }
}

/// Tools with a small sandbox.
pub(crate) fn sandboxed(tools: Vec<ToolDecl>) -> ToolcallSpec {
    let limits = SandboxLimits { memory_mib: 96, disk_mib: 8, pids: 48, cpu_percent: 100 };
    ToolcallSpec {
        workspace: Some(WorkspaceSpec { limits, ..WorkspaceSpec::default() }),
        ..in_process(tools)
    }
}

/// A task with checks of equal weight.
pub(crate) fn toolcall_task(spec: ToolcallSpec, checks: Vec<Check>) -> Arc<TaskSpec> {
    let checks = checks.into_iter().map(|check| CheckSpec { label: String::new(), weight: 1.0, check });
    Arc::new(TaskSpec { env: EnvSpec::Toolcall(spec), checks: checks.collect(), ..task("s/t") })
}

pub(crate) fn call(name: &str, arguments: Value) -> ToolCall {
    ToolCall::new(name, arguments)
}

pub(crate) fn code(code: &str) -> ToolCall {
    call("python", json!({ "code": code }))
}

pub(crate) fn submit(answer: &str) -> ToolCall {
    call("submit", json!({ "answer": answer }))
}

/// One action; returns the step.
pub(crate) async fn act(env: &mut dyn Env, calls: &[ToolCall]) -> StepResult {
    env.step(calls, step_ctx(1)).await.unwrap()
}

/// One action; returns the policy's observation.
pub(crate) async fn shown(env: &mut dyn Env, calls: &[ToolCall]) -> String {
    act(env, calls).await.observation.joined_text()
}

/// A provider without any sandboxes.
pub(crate) fn bare_provider() -> ToolcallProvider {
    bare_provider_with([])
}

/// The same, with a judge.
pub(crate) fn judged_provider(judge: Arc<dyn Judge>) -> ToolcallProvider {
    ToolcallProvider::new(ToolcallConfig { judge: Some(judge), ..bare_config([]) })
}

/// The same, with secrets by the names of their variables.
pub(crate) fn bare_provider_with(secrets: impl IntoIterator<Item = (String, String)>) -> ToolcallProvider {
    ToolcallProvider::new(bare_config(secrets))
}

fn bare_config(secrets: impl IntoIterator<Item = (String, String)>) -> ToolcallConfig {
    ToolcallConfig {
        backends: HashMap::new(),
        marks: WarmMarks { low: 0, high: 0 },
        expected: Vec::new(),
        determinism: Determinism::default(),
        secrets: Secrets::new(secrets),
        judge: None,
    }
}

/// A provider of sandboxes for tasks like this one.
pub(crate) fn provider(client: SpawnerClient, spec: &ToolcallSpec) -> ToolcallProvider {
    provider_with(client, spec, [])
}

/// Lets the users of sandboxes into a folder that a test made.
pub(crate) fn open_to_all(folder: &std::path::Path) {
    std::fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// The same, with secrets by the names of their variables.
pub(crate) fn provider_with(
    client: SpawnerClient,
    spec: &ToolcallSpec,
    secrets: impl IntoIterator<Item = (String, String)>,
) -> ToolcallProvider {
    ToolcallProvider::new(sandbox_config(client, spec, secrets))
}

fn sandbox_config(
    client: SpawnerClient,
    spec: &ToolcallSpec,
    secrets: impl IntoIterator<Item = (String, String)>,
) -> ToolcallConfig {
    let config = BubblewrapConfig {
        host: probe_host(CgroupHost::detect()).unwrap(),
        run: RunId::new("test-toolcall").unwrap(),
        determinism: Determinism::default(),
    };
    let backend: Arc<dyn SandboxBackend> = Arc::new(BubblewrapBackend::new(client, config).unwrap());
    ToolcallConfig {
        backends: HashMap::from([(SandboxKind::Bubblewrap, backend)]),
        expected: vec![(spec.clone(), u32::MAX)],
        ..bare_config(secrets)
    }
}

/// Runs `test` on a runtime with a connection to a spawner.
pub(crate) fn with_spawner<F: Future<Output = ()>>(test: impl FnOnce(SpawnerClient) -> F) {
    let spawner = Spawner::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async { test(SpawnerClient::attach(spawner).unwrap()).await });
}

/// Runs `test` with a provider, and checks that nothing is left.
pub(crate) fn with_provider<F: Future<Output = ()>>(
    spec: &ToolcallSpec,
    test: impl FnOnce(Arc<ToolcallProvider>) -> F,
) {
    with_spawner(|client| async move {
        let provider = Arc::new(provider(client, spec));
        test(Arc::clone(&provider)).await;
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
        assert_eq!(provider.usage().live, 0);
    });
}

/// Runs `test` with a provider that has a judge.
pub(crate) fn with_judge<F: Future<Output = ()>>(
    spec: &ToolcallSpec,
    judge: Arc<dyn Judge>,
    test: impl FnOnce(Arc<ToolcallProvider>) -> F,
) {
    with_spawner(|client| async move {
        let config = ToolcallConfig { judge: Some(judge), ..sandbox_config(client, spec, []) };
        test(Arc::new(ToolcallProvider::new(config))).await;
    });
}

/// Runs `test` in an environment of this task.
pub(crate) fn with_env(spec: ToolcallSpec, test: impl AsyncFnOnce(&mut dyn Env)) {
    with_provider(&spec.clone(), |provider| async move {
        let mut env = ready(provider.as_ref(), &toolcall_task(spec, Vec::new())).await;
        test(env.as_mut()).await;
        assert_eq!(env.close().await.leftovers, Vec::<String>::new());
    });
}
