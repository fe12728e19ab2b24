//! The model behind the endpoint: a policy that a program asks instead of the scheduler.
//!
//! I1. A request contains the whole conversation and is independent of earlier requests: an embedded policy, which keeps a
//! conversation for each attempt, sees each request as a new attempt. I2. A model that writes calls as text sees its earlier
//! calls as it wrote them, and other calls in the same format.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clawrl_core::{
    Action, ActionFormat, AttemptId, BoxFuture, Fault, HERMES_OPENING, Message, Policy, PolicyRequest,
    PolicySpec, SlotId, ToolSpec, hermes_text, parse_calls,
};

/// The call format of models that only write text.
pub(super) const TEXT_TOOLS: ActionFormat = ActionFormat::Hermes;

/// Whether a policy can answer programs: it depends on messages only, not on the task.
pub(crate) fn may_answer(spec: &PolicySpec) -> bool {
    matches!(
        spec,
        PolicySpec::Remote(_)
            | PolicySpec::Torch { .. }
            | PolicySpec::Cassette { .. }
            | PolicySpec::Random { .. }
    )
}

/// The call format of a program's model.
pub(super) fn format_of(spec: &PolicySpec) -> ActionFormat {
    match spec.speaker() {
        PolicySpec::Remote(_) => ActionFormat::ToolCalls,
        _ => TEXT_TOOLS,
    }
}

/// Parses the calls in a text, as servers do for their clients; the rest stays text.
pub(super) fn with_calls_read(mut said: Action, format: ActionFormat, tools: &[ToolSpec]) -> Action {
    if format == TEXT_TOOLS
        && said.tool_calls.is_empty()
        && !tools.is_empty()
        && let Ok(calls) = parse_calls(&said.text, &[], format, tools)
    {
        let before = said.text.split(HERMES_OPENING).next().unwrap_or_default();
        said.text = before.trim().to_owned();
        said.tool_calls = calls;
    }
    said
}

/// The messages of a request with calls in this model's format (I2). `recall` returns the model's original text.
pub(super) fn with_calls_written(
    messages: &[Message],
    format: ActionFormat,
    recall: impl Fn(&Message) -> Option<String>,
) -> Cow<'_, [Message]> {
    if format != TEXT_TOOLS || messages.iter().all(|message| message.tool_calls.is_empty()) {
        return Cow::Borrowed(messages);
    }
    let written = |message: &Message| {
        if message.tool_calls.is_empty() {
            return message.clone();
        }
        let text = recall(message).unwrap_or_else(|| {
            let before = message.joined_text();
            let between = if before.is_empty() { "" } else { "\n" };
            format!("{before}{between}{}", hermes_text(&message.tool_calls))
        });
        Message::text(message.role, text)
    };
    messages.iter().map(written).collect()
}

/// A policy that treats each request as a new attempt (I1).
pub(crate) struct PerAttempt {
    policy: Arc<dyn Policy>,
    next: AtomicU32,
}

impl PerAttempt {
    pub(crate) fn new(policy: Arc<dyn Policy>) -> Self {
        Self { policy, next: AtomicU32::new(0) }
    }
}

/// Ends an attempt at the policy, even if its request was dropped.
struct Farewell<'a>(&'a dyn Policy, AttemptId);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        self.0.attempt_ended(self.1);
    }
}

impl Policy for PerAttempt {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        // No plan has this many slots.
        let attempt = AttemptId { slot: SlotId(u32::MAX), number: self.next.fetch_add(1, Ordering::Relaxed) };
        Box::pin(async move {
            let _farewell = Farewell(&*self.policy, attempt);
            self.policy.act(PolicyRequest { attempt, turn: 0, ..request }).await
        })
    }

    fn closing_notes(&self) -> Vec<String> {
        self.policy.closing_notes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use clawrl_core::{CancelToken, MemoryBlobs, Observation, Role, ToolCall};
    use clawrl_testkit::{Reply, ScriptedPolicy, run_tool, task};

    use super::*;

    #[tokio::test]
    async fn i1_each_request_is_an_attempt_that_begins_and_ends() {
        let scripted = Arc::new(ScriptedPolicy::new(|request| Reply::text(&format!("{}", request.turn))));
        let policy = PerAttempt::new(Arc::clone(&scripted) as Arc<dyn Policy>);
        let (task, cancel, blobs) = (task("a").view(), CancelToken::new(), MemoryBlobs::new(0));
        let nothing = Observation::default();
        for turn in [0, 3, 3] {
            let request = PolicyRequest {
                attempt: AttemptId { slot: SlotId(1), number: 0 },
                task: &task,
                conversation: &[],
                observation: &nothing,
                tools: &[],
                turn,
                seed: 1,
                deadline: Instant::now() + Duration::from_secs(60),
                cancel: &cancel,
                blobs: &blobs,
            };
            assert_eq!(policy.act(request).await.unwrap().text, "0");
        }
        // Each request had its own attempt id: none was used after its end or left open.
        assert_eq!(scripted.violations(), [""; 0]);
    }

    #[test]
    fn i2_calls_are_written_as_the_model_writes_them() {
        let call = || ToolCall::new("run", serde_json::json!({"command": "ls"}));
        let element = "<tool_call>\n{\"name\": \"run\", \"arguments\": {\"command\": \"ls\"}}\n</tool_call>";
        let check = |text: &str, recalled: Option<&str>, expected: &str| {
            let user = Message::text(Role::User, "hi");
            let said = Message { tool_calls: vec![call()], ..Message::text(Role::Assistant, text) };
            let messages = [user.clone(), said];
            let shown = with_calls_written(&messages, TEXT_TOOLS, |_| recalled.map(str::to_owned));
            assert_eq!(*shown, [user, Message::text(Role::Assistant, expected)]);
            let shown = with_calls_written(&messages, ActionFormat::ToolCalls, |_| None);
            assert!(matches!(shown, Cow::Borrowed(_)));
        };
        check("", None, element);
        check("Look:", None, &format!("Look:\n{element}"));
        check("Look:", Some("Look: <tool_call>{}"), "Look: <tool_call>{}");
    }

    #[test]
    fn calls_are_read_out_of_texts_and_all_else_is_left() {
        let check = |text: &str, format: ActionFormat, expected: (&str, usize)| {
            let said = Action { text: text.to_owned(), ..Action::default() };
            let said = with_calls_read(said, format, &[run_tool()]);
            assert_eq!((said.text.as_str(), said.tool_calls.len()), expected, "{text}");
        };
        let call = r#"Let me look. <tool_call>{"name": "run", "arguments": {"command": "ls"}}</tool_call>"#;
        check(call, TEXT_TOOLS, ("Let me look.", 1));
        check(call, ActionFormat::ToolCalls, (call, 0));
        check("It is 4.", TEXT_TOOLS, ("It is 4.", 0));
        let unknown = r#"<tool_call>{"name": "fly", "arguments": {}}</tool_call>"#;
        check(unknown, TEXT_TOOLS, (unknown, 0));
    }
}
