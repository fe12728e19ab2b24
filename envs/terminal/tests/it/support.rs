//! A provider on a spawner of its own, and tasks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    ActionFormat, AttemptId, CancelToken, Check, CheckSpec, Determinism, Env, EnvProvider, EnvSpec, Epoch,
    FixtureContent, FixtureFile, LeaseRequest, RewardMap, RunId, SandboxKind, SandboxLimits, SlotId, StepCtx,
    TaskId, TaskSpec, TerminalSpec, Timeouts, ToolCall,
};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    BubblewrapBackend, BubblewrapConfig, CgroupHost, SandboxBackend, WarmMarks, probe_host,
};
use clawrl_terminal::{TerminalConfig, TerminalProvider};
use serde_json::json;

/// Runs `test` on a runtime with a connection to a spawner.
pub(crate) fn with_spawner<F: Future<Output = ()>>(test: impl FnOnce(SpawnerClient) -> F) {
    let spawner = Spawner::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async { test(SpawnerClient::attach(spawner).unwrap()).await });
}

/// Runs `test` with a provider, and checks that nothing is left.
pub(crate) fn with_provider<F: Future<Output = ()>>(test: impl FnOnce(Arc<TerminalProvider>) -> F) {
    with_spawner(|client| async move {
        let provider = Arc::new(provider(client));
        test(Arc::clone(&provider)).await;
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
        assert_eq!(provider.usage().live, 0);
    });
}

pub(crate) fn provider(client: SpawnerClient) -> TerminalProvider {
    let config = BubblewrapConfig {
        host: probe_host(CgroupHost::detect()).unwrap(),
        run: RunId::new("test-terminal").unwrap(),
        determinism: Determinism::default(),
    };
    let backend: Arc<dyn SandboxBackend> = Arc::new(BubblewrapBackend::new(client, config).unwrap());
    TerminalProvider::new(TerminalConfig {
        backends: HashMap::from([(SandboxKind::Bubblewrap, backend)]),
        marks: WarmMarks { low: 0, high: 0 },
        expected: vec![terminal()],
        determinism: Determinism::default(),
        cast_bytes: 64 * 1024,
    })
}

pub(crate) fn terminal() -> TerminalSpec {
    TerminalSpec {
        idle: Duration::from_millis(300),
        limits: SandboxLimits { memory_mib: 64, disk_mib: 8, pids: 48, cpu_percent: 100 },
        ..TerminalSpec::default()
    }
}

pub(crate) fn task(terminal: TerminalSpec, checks: Vec<Check>) -> Arc<TaskSpec> {
    let checks = checks.into_iter().map(|check| CheckSpec { label: String::new(), weight: 1.0, check });
    Arc::new(TaskSpec {
        id: TaskId("s/t".to_owned()),
        suite: "s".to_owned(),
        family: "t".to_owned(),
        instruction: "Do it.".to_owned(),
        env: EnvSpec::Terminal(terminal),
        checks: checks.collect(),
        verifier: None,
        reward: RewardMap::default(),
        oracle: None,
        mistakes: Vec::new(),
        action_format: ActionFormat::Raw,
        max_turns: 10,
        timeouts: Timeouts::default(),
    })
}

pub(crate) fn fixture(path: &str, content: &str) -> FixtureFile {
    FixtureFile { path: path.to_owned(), mode: 0o644, content: FixtureContent::Inline(content.to_owned()) }
}

pub(crate) fn run(command: &str) -> ToolCall {
    ToolCall::new("run", json!({ "command": command }))
}

pub(crate) fn file_equals(path: &str, expected: &str) -> Check {
    Check::FileEquals { path: path.to_owned(), expected: expected.to_owned() }
}

pub(crate) fn ctx(seq: u32) -> StepCtx {
    StepCtx { seq, deadline: Instant::now() + Duration::from_secs(30), cancel: CancelToken::new() }
}

pub(crate) fn request(task: &Arc<TaskSpec>) -> LeaseRequest {
    LeaseRequest {
        task: Arc::clone(task),
        attempt: AttemptId { slot: SlotId(0), number: 0 },
        epoch: Epoch(1),
        seed: 7,
        deadline: Instant::now() + Duration::from_secs(30),
        cancel: CancelToken::new(),
    }
}

/// Leases and resets.
pub(crate) async fn ready(provider: &TerminalProvider, task: &Arc<TaskSpec>) -> Box<dyn Env> {
    let mut env = provider.lease(request(task)).await.unwrap();
    env.reset(ctx(0)).await.unwrap();
    env
}

/// One action of one command; what the policy sees.
pub(crate) async fn step(env: &mut dyn Env, command: &str) -> String {
    let calls = [run(command)];
    let result = env.step(&calls, ctx(1)).await.unwrap();
    result.observation.joined_text()
}
