//! Requests, and who makes them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_cassette::{Cassette, ModelRequest, Origin, Reply, Show};
use clawrl_core::{
    Action, AttemptId, CancelToken, Fault, MemoryBlobs, Message, Policy, PolicyRequest, PolicySpec, Role,
    RunId, SampledTokens, SlotId, TaskId, ToolSpec, Usage, UsageSource,
};
use clawrl_testkit::{run_tool, task};
use serde_json::json;

/// One request of an attempt.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) slot: u32,
    pub(crate) number: u32,
    pub(crate) turn: u32,
    pub(crate) seed: u64,
    pub(crate) text: String,
}

/// The first question of a slot's first attempt.
pub(crate) fn question(slot: u32, text: &str) -> Question {
    Question { slot, number: 0, turn: 0, seed: u64::from(slot) + 100, text: text.to_owned() }
}

impl Question {
    pub(crate) fn attempt(&self) -> AttemptId {
        AttemptId { slot: SlotId(self.slot), number: self.number }
    }

    pub(crate) fn messages(&self) -> Vec<Message> {
        vec![Message::text(Role::User, self.text.clone())]
    }

    pub(crate) async fn put(&self, policy: &dyn Policy) -> Result<Action, Fault> {
        let (task, cancel, blobs) =
            (task(&format!("task-{}", self.slot)).view(), CancelToken::new(), MemoryBlobs::default());
        let (conversation, tools) = (self.messages(), [run_tool()]);
        let request = PolicyRequest {
            attempt: self.attempt(),
            task: &task,
            conversation: &conversation,
            observation: &clawrl_core::Observation::default(),
            tools: &tools,
            turn: self.turn,
            seed: self.seed,
            deadline: Instant::now() + Duration::from_secs(60),
            cancel: &cancel,
            blobs: &blobs,
        };
        policy.act(request).await
    }

    /// The recording of a reply to it.
    pub(crate) fn answered(&self, repeat: u32, said: Action) -> Reply {
        let task = TaskId(format!("task-{}", self.slot));
        let asked = asked(self.messages(), &[run_tool()]);
        Reply::new(task, self.turn, self.seed, repeat, asked, said)
    }
}

fn asked(messages: Vec<Message>, tools: &[ToolSpec]) -> ModelRequest {
    ModelRequest { settings: json!({ "model": "m" }), messages, tools: tools.to_vec() }
}

/// A request that contains everything.
pub(crate) fn show() -> Show {
    Arc::new(|request| asked(request.conversation.to_vec(), request.tools))
}

pub(crate) fn origin() -> Origin {
    Origin {
        program: "clawrl 0.0.0".to_owned(),
        run: RunId::new("first").unwrap(),
        policy: PolicySpec::Oracle,
        redacted: vec!["KEY".to_owned()],
    }
}

pub(crate) fn cassette(replies: impl IntoIterator<Item = Reply>) -> Cassette {
    let (cassette, doubled) = Cassette::new(origin(), replies);
    assert!(!doubled);
    cassette
}

/// A reply with everything that one can have.
pub(crate) fn said(text: &str) -> Action {
    let tokens = SampledTokens { ids: vec![1, 2], logprobs: vec![-0.1, -1.0e-7], versions: vec![(0, 3)] };
    Action { tokens: Some(tokens), usage: Some(usage()), ..plain(text) }
}

pub(crate) fn plain(text: &str) -> Action {
    Action { text: text.to_owned(), ..Action::default() }
}

pub(crate) fn usage() -> Usage {
    Usage {
        source: UsageSource::Reported,
        input_tokens: 10,
        cached_tokens: 0,
        output_tokens: 2,
        cost_nano_usd: Some(7),
        retries: 0,
        replies: 1,
        notes: Vec::new(),
    }
}
