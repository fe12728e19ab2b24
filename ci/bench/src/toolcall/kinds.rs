//! The tasks of the sides, and what their attempts call.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{EnvSpec, TaskSpec, ToolCall, ToolDecl, ToolKind, ToolcallSpec, WorkspaceSpec};
use serde_json::json;

use super::Side;
use crate::terminals::task_of;

/// Time of a call that counts; far more than it takes.
const CALL_LIMIT: Duration = Duration::from_secs(60);
/// Time of a call of a hog, after which it is ended and made again.
const HOG_LIMIT: Duration = Duration::from_secs(3);

const LOOP: &str = "while True: pass";
const MEMORY: &str = "kept = []\nwhile True: kept.append(b'x' * 1_000_000)";
const BOMB: &str = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass";

/// What an attempt calls again and again.
#[derive(Debug, Clone)]
pub(super) struct Habit {
    pub(super) call: ToolCall,
    /// What its result ends with; `None` for hogs.
    pub(super) expected: Option<&'static str>,
}

/// The task of all attempts of a side.
pub(super) fn task(side: Side) -> Arc<TaskSpec> {
    task_of("toolcall", EnvSpec::Toolcall(spec(side)))
}

pub(super) fn spec(side: Side) -> ToolcallSpec {
    let parameters = ToolKind::Python.own_parameters().unwrap_or_default();
    let tool = |name: &str, kind: ToolKind, timeout: Duration| ToolDecl {
        name: name.to_owned(),
        description: "Runs Python code.".to_owned(),
        parameters: parameters.clone(),
        text_argument: None,
        kind,
        timeout,
        max_calls: None,
    };
    let program = ["python3", "-c", "{code}"].map(str::to_owned).to_vec();
    let tools = match side {
        Side::Program => {
            vec![tool("code", ToolKind::Command { argv: program, stdin: None }, CALL_LIMIT)]
        }
        Side::Python => vec![tool("code", ToolKind::Python, CALL_LIMIT)],
        Side::Hogs => {
            vec![tool("code", ToolKind::Python, HOG_LIMIT), tool("never", ToolKind::Never, HOG_LIMIT)]
        }
    };
    ToolcallSpec {
        tools,
        mcp: Vec::new(),
        workspace: Some(WorkspaceSpec::default()),
        observation_chars: 2_000,
        max_parallel_calls: 8,
        step_rewards: Vec::new(),
    }
}

/// What the attempts of a side do; the first four of [`Side::Hogs`] are its hogs.
pub(super) fn habit(side: Side, attempt: u32) -> Habit {
    let hog = |code: &str| Habit { call: ToolCall::new("code", json!({ "code": code })), expected: None };
    let good = |code: &str, expected| Habit {
        call: ToolCall::new("code", json!({ "code": code })),
        expected: Some(expected),
    };
    match (side, attempt) {
        (Side::Hogs, 0) => hog(LOOP),
        (Side::Hogs, 1) => hog(MEMORY),
        (Side::Hogs, 2) => hog(BOMB),
        (Side::Hogs, 3) => Habit { call: ToolCall::new("never", json!({ "code": "" })), expected: None },
        (Side::Python | Side::Hogs, _) => good("sum(range(100))", "4950"),
        (Side::Program, _) => good("print(sum(range(100)))", "4950\n[exit 0]"),
    }
}
