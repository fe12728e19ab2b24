//! Terminals under test, whatever their sandboxes are: small tasks, and the way through one episode.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    AttemptId, CancelToken, Check, CheckSpec, Env, EnvProvider, EnvSpec, Epoch, FixtureContent, FixtureFile,
    LeaseRequest, MemoryBlobs, SandboxLimits, SlotId, StepCtx, TaskSpec, TerminalSpec, ToolCall,
};

use crate::conformance::Case;
use crate::plan::{call, task};

/// Time limit of an operation on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal of the default kind with small limits, which soon says that nothing comes any more.
#[must_use]
pub fn small_terminal() -> TerminalSpec {
    TerminalSpec {
        idle: Duration::from_millis(300),
        limits: SandboxLimits { memory_mib: 64, disk_mib: 8, pids: 48, cpu_percent: 100 },
        ..TerminalSpec::default()
    }
}

/// A task in a terminal, with checks of equal weight.
#[must_use]
pub fn terminal_task(terminal: TerminalSpec, checks: Vec<Check>) -> Arc<TaskSpec> {
    let checks = checks.into_iter().map(|check| CheckSpec { label: String::new(), weight: 1.0, check });
    Arc::new(TaskSpec {
        env: EnvSpec::Terminal(terminal),
        checks: checks.collect(),
        max_turns: 10,
        ..task("s/t")
    })
}

/// A file of a task.
#[must_use]
pub fn text_file(path: &str, content: &str) -> FixtureFile {
    FixtureFile { path: path.to_owned(), mode: 0o644, content: FixtureContent::Inline(content.to_owned()) }
}

/// The check of a file's whole content.
#[must_use]
pub fn file_equals(path: &str, expected: &str) -> Check {
    Check::FileEquals { path: path.to_owned(), expected: expected.to_owned() }
}

/// The terminal with a file `in.txt` of three lines, and a folder `made` by its setup.
#[must_use]
pub fn populated(terminal: TerminalSpec) -> TerminalSpec {
    let files = vec![text_file("in.txt", "three\nlines\nhere\n")];
    TerminalSpec { files, setup: vec!["mkdir made".to_owned()], ..terminal }
}

/// Providers of terminals like this one, [`populated`], for the conformance suite.
pub fn terminal_case(
    make_provider: impl Fn() -> Arc<dyn EnvProvider> + Send + Sync + 'static,
    terminal: TerminalSpec,
    patience: Duration,
) -> Case {
    Case {
        make_provider: Box::new(make_provider),
        task: terminal_task(populated(terminal), vec![file_equals("out.txt", "3\n")]),
        quick_calls: vec![call("wc -l < in.txt > out.txt; ls; echo $RANDOM $PYTHONHASHSEED")],
        long_calls: Some(vec![call("sleep 1000")]),
        ending_calls: Some(vec![ToolCall::new("submit", serde_json::json!({}))]),
        deterministic: true,
        patience,
        at_once: 8,
    }
}

/// Limits of one operation.
#[must_use]
pub fn step_ctx(seq: u32) -> StepCtx {
    StepCtx { seq, deadline: Instant::now() + PATIENCE, cancel: CancelToken::new() }
}

/// Asks for an environment of the task.
#[must_use]
pub fn lease_request(task: &Arc<TaskSpec>) -> LeaseRequest {
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

/// Leases and resets.
///
/// # Panics
/// Either is a fault.
pub async fn ready(provider: &dyn EnvProvider, task: &Arc<TaskSpec>) -> Box<dyn Env> {
    let mut env = provider.lease(lease_request(task)).await.expect("a lease");
    env.reset(step_ctx(0)).await.expect("a reset");
    env
}

/// Runs one action with one command; returns the observation.
///
/// # Panics
/// If the step faults.
pub async fn step(env: &mut dyn Env, command: &str) -> String {
    let result = env.step(&[call(command)], step_ctx(1)).await.expect("a step");
    result.observation.joined_text()
}
