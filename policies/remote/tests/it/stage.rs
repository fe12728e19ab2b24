//! A policy over a stub, and turns asked of it.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use clawrl_core::{
    Action, ActionFormat, AttemptId, BlobStore, CancelToken, Fault, MemoryBlobs, Message, Policy,
    PolicyRequest, RemoteDialect, RemoteSpec, Retry, Role, SlotId, TaskSpec,
};
use clawrl_remote::{RemotePolicy, Secret};
use clawrl_testkit::{run_tool, submit_tool, task};

use crate::stub::Stub;

/// A key that no text may ever show.
pub(crate) const KEY: &str = "sk-very-secret-0001";

/// Settings for a stub: as usual, but less patient.
pub(crate) fn settings(stub: &Stub) -> RemoteSpec {
    let mut settings = RemoteSpec::usual(RemoteDialect::Openai, stub.base_url(), "m".to_owned());
    settings.patience.first_byte = Duration::from_secs(20);
    settings.patience.stall = Duration::from_secs(20);
    settings.tries = 3;
    settings
}

pub(crate) fn policy(settings: RemoteSpec) -> RemotePolicy {
    RemotePolicy::new(settings, Secret::new(KEY)).unwrap()
}

/// One turn: everything that a request can vary in.
pub(crate) struct Turn<'a> {
    pub(crate) slot: u32,
    pub(crate) format: ActionFormat,
    pub(crate) conversation: &'a [Message],
    pub(crate) time: Duration,
    pub(crate) blobs: &'a dyn BlobStore,
}

/// For conversations without images.
static NO_BLOBS: LazyLock<MemoryBlobs> = LazyLock::new(MemoryBlobs::default);

impl Default for Turn<'_> {
    fn default() -> Self {
        let time = Duration::from_secs(60);
        Self { slot: 0, format: ActionFormat::Raw, conversation: &[], time, blobs: &*NO_BLOBS }
    }
}

impl Turn<'_> {
    pub(crate) async fn ask(&self, policy: &RemotePolicy) -> Result<Action, Fault> {
        let mut task: TaskSpec = task("suite/task");
        task.action_format = self.format;
        let opening = [Message::text(Role::User, "Do it.\n$ ")];
        let request = PolicyRequest {
            attempt: AttemptId { slot: SlotId(self.slot), number: 0 },
            task: &task.view(),
            conversation: if self.conversation.is_empty() { &opening } else { self.conversation },
            observation: &clawrl_core::Observation::default(),
            tools: &[run_tool(), submit_tool()],
            turn: 0,
            seed: u64::from(self.slot) + 1,
            deadline: Instant::now() + self.time,
            cancel: &CancelToken::new(),
            blobs: self.blobs,
        };
        let outcome = policy.act(request).await;
        assert!(!format!("{outcome:?}").contains(KEY), "the key: {outcome:?}");
        outcome
    }
}

/// Asks once, as usual.
pub(crate) async fn ask(policy: &RemotePolicy) -> Result<Action, Fault> {
    Turn::default().ask(policy).await
}

/// That it is this fault.
#[track_caller]
pub(crate) fn faulted(outcome: Result<Action, Fault>, code: &str, retry: Retry) -> String {
    let fault = outcome.unwrap_err();
    assert_eq!((fault.code.as_str(), fault.retry), (code, retry), "{fault}");
    fault.message
}
