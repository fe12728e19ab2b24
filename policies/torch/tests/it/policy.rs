//! The embedded policy over a real engine, from a folder made by a preset.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    Action, ActionFormat, AttemptId, CancelToken, Fault, FinishReason, Message, Policy, PolicyRequest, Role,
    SlotId, TaskView, ToolSpec,
};
use clawrl_testkit::{run_tool, submit_tool, task};
use clawrl_torch::{
    Chat, Engine, EngineConfig, ModelFiles, Preset, PresetRequest, ReplySampling, SampledTurn, TorchPolicy,
    init_policy, load_params, segments,
};
use tch::Device;

const SAMPLING: ReplySampling = ReplySampling { max_new_tokens: 12, temperature: 1.0 };

/// A policy with its own engine.
struct Stage {
    policy: TorchPolicy,
    chat: Arc<Chat>,
    task: TaskView,
    engine: Option<Engine>,
}

impl Stage {
    fn new(format: ActionFormat) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy");
        let texts = ["echo apple > pear.txt; cat pear.txt".to_owned()];
        init_policy(
            &policy,
            &PresetRequest { preset: Preset::Tiny, seed: 3, texts: &texts, positions: None },
        )
        .unwrap();
        let files = ModelFiles::of(&policy);
        let chat = Arc::new(Chat::load(&files).unwrap());
        let config = EngineConfig { reproducible: true, ..EngineConfig::default() };
        let engine = Engine::start(config, 4, &load_params(&files, Device::Cpu).unwrap()).unwrap();
        let policy = TorchPolicy::new("tiny".to_owned(), engine.handle(), Arc::clone(&chat), SAMPLING);
        let mut task = task("suite/task");
        task.action_format = format;
        Self { policy, chat, task: task.view(), engine: Some(engine) }
    }

    async fn act(&self, slot: u32, conversation: &[Message], turn: u32) -> Result<Action, Fault> {
        let tools: Vec<ToolSpec> = vec![run_tool(), submit_tool()];
        let request = PolicyRequest {
            attempt: attempt(slot),
            task: &self.task,
            conversation,
            observation: &clawrl_core::Observation::default(),
            tools: &tools,
            turn,
            seed: u64::from(slot) << 32 | u64::from(turn),
            deadline: Instant::now() + Duration::from_secs(60),
            cancel: &CancelToken::new(),
            blobs: &clawrl_core::MemoryBlobs::default(),
        };
        self.policy.act(request).await
    }

    /// Plays some turns of an attempt and returns the context and the reply of each.
    async fn play(&self, slot: u32, turns: u32) -> Vec<(Vec<Message>, Action)> {
        let mut conversation = vec![Message::text(Role::User, "Write the word apple into pear.txt")];
        let mut played = Vec::new();
        for turn in 0..turns {
            let action = self.act(slot, &conversation, turn).await.unwrap();
            played.push((conversation.clone(), action.clone()));
            conversation.push(Message::text(Role::Assistant, action.text));
            conversation.push(Message::text(Role::User, format!("plum <|end|>\n[exit {turn}]")));
        }
        played
    }
}

fn attempt(slot: u32) -> AttemptId {
    AttemptId { slot: SlotId(slot), number: 0 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_trained_on_is_what_was_sampled() {
    let stage = Stage::new(ActionFormat::Raw);
    let (first, second) = tokio::join!(stage.play(1, 4), stage.play(2, 4));
    assert_ne!(first, second);
    for played in [&first, &second] {
        let turns = played.iter().map(|(messages, action)| SampledTurn {
            messages: Cow::Borrowed(messages),
            tools: &[],
            tokens: Cow::Borrowed(action.tokens.as_ref().unwrap()),
        });
        let segments = segments(&stage.chat, turns, SAMPLING.temperature).unwrap();
        let [segment] = &segments[..] else { panic!("{} segments", segments.len()) };
        let sampled: Vec<u32> =
            played.iter().flat_map(|(_, action)| action.tokens.as_ref().unwrap().ids.clone()).collect();
        let trained: Vec<u32> =
            segment.ids.iter().zip(&segment.mask).filter(|(_, mask)| **mask).map(|(id, _)| *id).collect();
        assert_eq!(trained, sampled);
        let versions: HashSet<u64> = segment
            .versions
            .iter()
            .zip(&segment.mask)
            .filter(|(_, mask)| **mask)
            .map(|(version, _)| *version)
            .collect();
        assert_eq!(versions, HashSet::from([4]));
    }
    let cut = first.iter().chain(&second).filter(|(_, action)| action.finish == FinishReason::Length);
    assert!(cut.count() > 0, "a fresh policy seldom ends by itself");
    assert_eq!(stage.play(1, 4).await, first, "I3: alone as beside another");
}

#[tokio::test]
async fn nothing_is_kept_after_the_end() {
    let stage = Stage::new(ActionFormat::Raw);
    let played = stage.play(1, 2).await;
    assert_eq!(stage.policy.open_conversations(), 1);
    stage.policy.attempt_ended(attempt(1));
    assert_eq!(stage.policy.open_conversations(), 0, "I2");
    let fault = stage.act(1, &played[1].0, 1).await.unwrap_err();
    assert_eq!((fault.code.as_str(), fault.retry), ("conversation-lost", clawrl_core::Retry::Sound));

    // Dropped while it waits for its reply.
    let conversation = [Message::text(Role::User, "apple")];
    let mut asked = Box::pin(stage.act(2, &conversation, 0));
    let polled = std::future::poll_fn(|context| std::task::Poll::Ready(asked.as_mut().poll(context))).await;
    drop(asked);
    assert!(polled.is_pending());
    assert_eq!(stage.policy.open_conversations(), 0, "I2");
}

#[tokio::test]
async fn what_cannot_be_answered_is_a_fault_by_name() {
    let check = async |format: ActionFormat, message: Message, code: &str| {
        let stage = Stage::new(format);
        let fault = stage.act(1, &[message], 0).await.unwrap_err();
        assert_eq!((fault.code.as_str(), fault.boundary), (code, clawrl_core::Boundary::Policy), "{fault}");
        assert_eq!(fault.retry, clawrl_core::Retry::Never);
        assert_eq!(stage.policy.open_conversations(), 0, "I2");
    };
    let text = |text: &str| Message::text(Role::User, text);
    check(ActionFormat::Raw, text(&"x ".repeat(1_024)), "context-too-long").await;
    check(ActionFormat::ToolCalls, text("x"), "action-format-unsupported").await;
}

#[tokio::test]
async fn an_engine_that_is_gone_is_a_fault() {
    let mut stage = Stage::new(ActionFormat::Raw);
    // Dropping an engine ends it.
    stage.engine = None;
    let fault = stage.act(1, &[Message::text(Role::User, "x")], 0).await.unwrap_err();
    assert_eq!(fault.code, "engine-gone");
}
