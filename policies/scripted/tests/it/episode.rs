//! A task, and an executor's side of one turn.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use clawrl_core::{
    Action, ActionFormat, AttemptId, CancelToken, EnvSpec, Fault, Policy, PolicyRequest, RewardMap, Script,
    SlotId, TaskId, TaskSpec, TerminalSpec, Timeouts, ToolCall, ToolSpec, derive_seed,
};
use clawrl_scripted::SlotTasks;
use serde_json::json;

pub(crate) fn run(command: &str) -> ToolCall {
    ToolCall::new("run", json!({ "command": command }))
}

pub(crate) fn submit() -> ToolCall {
    ToolCall::new("submit", json!({}))
}

pub(crate) fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, text_argument: Option<&str>| ToolSpec {
        name: name.into(),
        description: String::new(),
        parameters: json!({"type": "object"}),
        text_argument: text_argument.map(Into::into),
    };
    vec![tool("run", Some("command")), tool("submit", None)]
}

/// A task whose oracle is `right one`, `right two`, with two mistakes.
pub(crate) fn task(id: &str) -> TaskSpec {
    let script = |commands: &[&str]| Script::Calls(commands.iter().map(|command| run(command)).collect());
    TaskSpec {
        id: TaskId(id.into()),
        suite: "s".into(),
        family: "f".into(),
        instruction: "Do it".into(),
        env: EnvSpec::Terminal(TerminalSpec { observation_chars: 400, ..TerminalSpec::default() }),
        checks: Vec::new(),
        verifier: None,
        reward: RewardMap::default(),
        oracle: Some(script(&["right one", "right two"])),
        mistakes: vec![script(&["wrong one"]), script(&["wrong two", "wrong three"])],
        action_format: ActionFormat::Raw,
        max_turns: 10,
        timeouts: Timeouts::default(),
    }
}

/// The task in more slots than any test asks for.
pub(crate) fn in_every_slot(task: TaskSpec) -> SlotTasks {
    std::iter::repeat_n(Arc::new(task), 4000).collect()
}

pub(crate) fn attempt(slot: u32, number: u32) -> AttemptId {
    AttemptId { slot: SlotId(slot), number }
}

/// Asks for the reply of one turn, with the seed that an executor would give it.
pub(crate) fn act(
    policy: &dyn Policy,
    task: TaskSpec,
    attempt: AttemptId,
    turn: u32,
) -> Result<Action, Fault> {
    let (view, tools, cancel) = (task.view(), tools(), CancelToken::new());
    let (blobs, seen) = (clawrl_core::MemoryBlobs::default(), clawrl_core::Observation::default());
    let future = policy.act(PolicyRequest {
        attempt,
        task: &view,
        conversation: &[],
        observation: &seen,
        tools: &tools,
        turn,
        seed: derive_seed(u64::from(attempt.slot.0), "turn", &[u64::from(turn)]),
        deadline: Instant::now() + Duration::from_secs(60),
        cancel: &cancel,
        blobs: &blobs,
    });
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(reply) => reply,
        Poll::Pending => panic!("a scripted reply is ready when it is asked for"),
    }
}

/// The replies of the first turns.
pub(crate) fn episode(policy: &dyn Policy, task: &TaskSpec, attempt: AttemptId, turns: u32) -> Vec<Action> {
    (0..turns).map(|turn| act(policy, task.clone(), attempt, turn).expect("an action")).collect()
}

/// The only call of each reply.
pub(crate) fn calls(replies: &[Action]) -> Vec<ToolCall> {
    let only = |reply: &Action| match reply.tool_calls.as_slice() {
        [call] => call.clone(),
        other => panic!("one call expected, got {other:?}"),
    };
    replies.iter().map(only).collect()
}
