//! Providers on sandboxes of their own, and tasks of one small site.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    ActionFormat, AttemptId, CancelToken, Check, CheckSpec, Determinism, Env, EnvProvider, EnvSpec, Epoch,
    Fault, FixtureContent, FixtureFile, Grade, GuiSpec, LeaseRequest, MemoryBlobs, PageCheck, RequestPattern,
    RewardMap, Route, RouteAnswer, RunId, SandboxKind, SiteSpec, SlotId, StepCtx, StepResult, TaskId,
    TaskSpec, Timeouts, ToolCall,
};
use clawrl_gui::{BrowserKind, BrowserSource, GuiConfig, GuiProvider, find_programs};
use clawrl_sandbox::spawner::{Spawner, SpawnerClient};
use clawrl_sandbox::{
    BubblewrapBackend, BubblewrapConfig, CgroupHost, SandboxBackend, WarmMarks, probe_host,
};
use clawrl_testkit::again_as_normal_user;
use serde_json::json;

/// Time limit of an operation on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `test` with a spawner on a runtime.
pub(crate) fn with_spawner<F: Future<Output = ()>>(test: impl FnOnce(SpawnerClient) -> F) {
    let spawner = Spawner::start().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    runtime.block_on(async { test(SpawnerClient::attach(spawner).unwrap()).await });
}

/// Runs `test` with a provider, and checks that nothing is left of it.
pub(crate) fn with_provider<F: Future<Output = ()>>(test: impl FnOnce(Arc<GuiProvider>) -> F) {
    with_changed(|_| {}, test);
}

/// The same with a provider that is not made as all others are.
pub(crate) fn with_changed<F: Future<Output = ()>>(
    change: impl FnOnce(&mut GuiConfig),
    test: impl FnOnce(Arc<GuiProvider>) -> F,
) {
    with_spawner(|client| async move {
        let mut config = config(client);
        change(&mut config);
        let provider = Arc::new(GuiProvider::new(config));
        test(Arc::clone(&provider)).await;
        assert_eq!(provider.shutdown().await.leftovers, Vec::<String>::new());
    });
}

pub(crate) fn provider(client: SpawnerClient) -> GuiProvider {
    GuiProvider::new(config(client))
}

fn config(client: SpawnerClient) -> GuiConfig {
    let host = probe_host(CgroupHost::detect()).unwrap();
    let run = RunId::new("gui-test").unwrap();
    let backend =
        BubblewrapBackend::new(client, BubblewrapConfig { host, run, determinism: Determinism::default() })
            .unwrap();
    let backends = [(SandboxKind::Bubblewrap, Arc::new(backend) as Arc<dyn SandboxBackend>)];
    let spec = GuiSpec::default();
    GuiConfig {
        backends: backends.into_iter().collect(),
        source: BrowserSource::Here(find_programs(&std::env::var("PATH").unwrap()).unwrap()),
        marks: WarmMarks { low: 0, high: 0 },
        expected: vec![(BrowserKind { sandbox: spec.sandbox, memory_mib: spec.memory_mib }, 1)],
        judge: None,
    }
}

/// Runs `test` as a normal user: when we are root, the test of this name in a process of one.
pub(crate) fn as_normal_user(name: &str, test: impl FnOnce()) {
    if !again_as_normal_user(name, &[&Spawner::find().unwrap()]) {
        test();
    }
}

/// A page of a site.
pub(crate) fn page(path: &str, html: &str) -> FixtureFile {
    FixtureFile { path: path.to_owned(), mode: 0o644, content: FixtureContent::Inline(html.to_owned()) }
}

/// A site of pages alone.
pub(crate) fn site(name: &str, files: Vec<FixtureFile>) -> SiteSpec {
    SiteSpec { name: name.to_owned(), folder: None, files, routes: Vec::new() }
}

/// A task that begins at the first page of the site `app`.
pub(crate) fn spec(files: Vec<FixtureFile>) -> GuiSpec {
    GuiSpec {
        sites: vec![site("app", files)],
        start: "http://app.localhost/".to_owned(),
        ..GuiSpec::default()
    }
}

pub(crate) fn task(spec: GuiSpec, checks: Vec<PageCheck>) -> Arc<TaskSpec> {
    checked_task(spec, checks.into_iter().map(Check::Page).collect())
}

/// A task with checks that are not all of pages.
pub(crate) fn checked_task(spec: GuiSpec, checks: Vec<Check>) -> Arc<TaskSpec> {
    let check =
        |(number, check): (usize, Check)| CheckSpec { label: format!("check {number}"), weight: 1.0, check };
    Arc::new(TaskSpec {
        id: TaskId("browse".to_owned()),
        suite: "gui".to_owned(),
        family: "browse".to_owned(),
        instruction: "Do it.".to_owned(),
        env: EnvSpec::Gui(Box::new(spec)),
        checks: checks.into_iter().enumerate().map(check).collect(),
        verifier: None,
        reward: RewardMap::default(),
        oracle: None,
        mistakes: Vec::new(),
        action_format: ActionFormat::Raw,
        max_turns: 10,
        timeouts: Timeouts::default(),
    })
}

pub(crate) fn ctx(seq: u32) -> StepCtx {
    StepCtx { seq, deadline: Instant::now() + PATIENCE, cancel: CancelToken::new() }
}

pub(crate) fn request(task: &Arc<TaskSpec>) -> LeaseRequest {
    LeaseRequest {
        task: Arc::clone(task),
        attempt: AttemptId { slot: SlotId(0), number: 0 },
        epoch: Epoch(1),
        seed: 7,
        deadline: Instant::now() + PATIENCE,
        cancel: CancelToken::new(),
        blobs: Arc::new(MemoryBlobs::default()),
    }
}

pub(crate) fn act(line: &str) -> ToolCall {
    ToolCall::new("act", json!({ "line": line }))
}

/// Leases and resets; also returns the first observation.
pub(crate) async fn begin(provider: &dyn EnvProvider, task: &Arc<TaskSpec>) -> (Box<dyn Env>, String) {
    let mut env = provider.lease(request(task)).await.unwrap();
    let seen = env.reset(ctx(0)).await.unwrap().joined_text();
    (env, seen)
}

/// The fault of a reset that must fail.
pub(crate) async fn not_begun(provider: &dyn EnvProvider, task: &Arc<TaskSpec>) -> Fault {
    let mut env = provider.lease(request(task)).await.unwrap();
    let fault = env.reset(ctx(0)).await.unwrap_err();
    env.close().await;
    fault
}

/// A route for a path.
pub(crate) fn route(path: &str, answer: RouteAnswer) -> Route {
    let request = RequestPattern { path: Some(path.to_owned()), ..RequestPattern::default() };
    Route { request, after: 0, times: None, delay: Duration::ZERO, answer }
}

/// An answer with headers.
pub(crate) fn respond(status: u16, headers: &[(&str, &str)], body: &str) -> RouteAnswer {
    let body = FixtureContent::Inline(body.to_owned());
    RouteAnswer::Respond { status, headers: map(headers), cookies: Vec::new(), body }
}

pub(crate) async fn step(env: &mut dyn Env, line: &str) -> String {
    stepped(env, line).await.observation.joined_text()
}

pub(crate) async fn stepped(env: &mut dyn Env, line: &str) -> StepResult {
    env.step(&[act(line)], ctx(1)).await.unwrap()
}

/// The number of the element that a line of an observation shows.
pub(crate) fn element(seen: &str, part: &str) -> u32 {
    let line = seen.lines().find(|line| line.contains(part));
    let line = line.unwrap_or_else(|| panic!("no `{part}` in:\n{seen}"));
    let (_, rest) = line.split_once('[').unwrap_or_else(|| panic!("`{line}` has no number"));
    rest.split_once(']').unwrap().0.parse().unwrap()
}

pub(crate) async fn graded(env: &mut dyn Env) -> Grade {
    env.grade(ctx(9)).await.unwrap()
}

#[allow(dead_code, reason = "of tests with routes")]
pub(crate) fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A file beside the tests.
pub(crate) fn beside(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)).unwrap()
}
