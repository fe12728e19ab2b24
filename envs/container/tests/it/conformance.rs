//! The conformance suite, over terminals in containers; and a terminal task.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use clawrl_container::ContainerBackend;
use clawrl_core::{
    ActionFormat, Check, CheckSpec, Determinism, EnvProvider, EnvSpec, FixtureContent, FixtureFile,
    RewardMap, SandboxKind, SandboxLimits, TaskId, TaskSpec, TerminalSpec, Timeouts, ToolCall,
};
use clawrl_sandbox::{SandboxBackend, WarmMarks};
use clawrl_terminal::{TerminalConfig, TerminalProvider};
use clawrl_testkit::conformance::{Case, check_provider};
use serde_json::json;

use crate::engine::{backend, containers, small, with_engine};

#[test]
fn containers_conform() {
    with_engine(|engine, client| async move {
        // Each check shuts its provider down, so each has a backend of its own.
        let socket = engine.socket();
        let mut backends = Vec::new();
        for number in 0..13 {
            backends.push(backend(&socket, client.clone(), &format!("conform-{number}")).await);
        }
        let backends = std::sync::Mutex::new(backends);
        let case = Case {
            make_provider: Box::new(move || {
                Arc::new(provider(backends.lock().unwrap().pop().unwrap())) as Arc<dyn EnvProvider>
            }),
            task: task(terminal(), vec![file_equals("out.txt", "3\n")]),
            quick_calls: vec![run("wc -l < in.txt > out.txt; ls; echo $RANDOM $PYTHONHASHSEED")],
            long_calls: Some(vec![run("sleep 1000")]),
            ending_calls: Some(vec![ToolCall::new("submit", json!({}))]),
            deterministic: true,
            patience: Duration::from_secs(30),
            at_once: 8,
        };
        check_provider(case).await.assert_conforms();
        assert_eq!(containers(&socket).await, 0);
    });
}

pub(crate) fn provider(backend: ContainerBackend) -> TerminalProvider {
    let backend: Arc<dyn SandboxBackend> = Arc::new(backend);
    TerminalProvider::new(TerminalConfig {
        backends: HashMap::from([(SandboxKind::Container, backend)]),
        marks: WarmMarks { low: 0, high: 0 },
        expected: vec![terminal()],
        determinism: Determinism::default(),
        cast_bytes: 64 * 1024,
    })
}

pub(crate) fn terminal() -> TerminalSpec {
    TerminalSpec {
        files: vec![FixtureFile {
            path: "in.txt".to_owned(),
            mode: 0o644,
            content: FixtureContent::Inline("three\nlines\nhere\n".to_owned()),
        }],
        setup: vec!["mkdir made".to_owned()],
        idle: Duration::from_millis(300),
        sandbox: SandboxKind::Container,
        limits: SandboxLimits { memory_mib: 64, disk_mib: 8, pids: 48, cpu_percent: 100 },
        image: Some(small()),
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

pub(crate) fn run(command: &str) -> ToolCall {
    ToolCall::new("run", json!({ "command": command }))
}

pub(crate) fn file_equals(path: &str, expected: &str) -> Check {
    Check::FileEquals { path: path.to_owned(), expected: expected.to_owned() }
}
