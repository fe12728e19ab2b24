//! The embedded policy: samples replies to conversations with an engine in this process.
//!
//! I1. Contexts and samples of an attempt are kept as tokens from turn to turn (I3 of the architecture);
//! [`crate::segments`] computes the same tokens from the record. I2. The policy keeps no state of an attempt after its end
//! or while its reply is sampled: the future owns the conversation, so that dropping the future frees everything. I3. A
//! reply is a function of the context, the request's seed and the weights.
//!
//! Errors: policy faults. Permanent: `context-too-long`, `action-format-unsupported`,
//! `chat-template`, `engine-refused`, `weights-not-finite`, `engine-gone`. Retried: `conversation-lost`.
//! Cancellation: dropping the future of `act` cancels the request in the engine.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawrl_core::{
    Action, ActionFormat, AttemptId, Boundary, BoxFuture, Fault, Policy, PolicyRequest, SampledTokens,
    ToolSpec,
};

use crate::conversation::{Chat, Context, ConversationError, ConversationState};
use crate::engine::{AdapterName, EngineError, EngineHandle, GenerateRequest, Generated};

/// How replies are sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplySampling {
    /// Maximum number of tokens in a reply.
    pub max_new_tokens: u32,
    /// T; 0 is greedy, and greedy replies are not trained on.
    pub temperature: f32,
}

/// The policy of one run, which is the scope of attempt ids: a second run needs its own policy over the same engine.
#[derive(Debug)]
pub struct TorchPolicy {
    name: String,
    engine: EngineHandle,
    chat: Arc<Chat>,
    sampling: ReplySampling,
    adapter: Option<AdapterName>,
    /// Conversations of running attempts between their turns.
    conversations: Mutex<HashMap<AttemptId, ConversationState>>,
}

impl TorchPolicy {
    /// Creates a policy over a running engine. `name` is written to plan and record.
    #[must_use]
    pub fn new(name: String, engine: EngineHandle, chat: Arc<Chat>, sampling: ReplySampling) -> Self {
        Self { name, engine, chat, sampling, adapter: None, conversations: Mutex::default() }
    }

    /// Uses an adapter that is resident in the engine.
    #[must_use]
    pub fn with_adapter(self, adapter: Option<AdapterName>) -> Self {
        Self { adapter, ..self }
    }

    /// Number of attempts with a stored conversation.
    #[must_use]
    pub fn open_conversations(&self) -> usize {
        self.conversations().len()
    }

    async fn reply(&self, request: PolicyRequest<'_>) -> Result<Action, Fault> {
        let format = request.task.action_format;
        if format == ActionFormat::ToolCalls {
            let message = "the embedded policy writes text; use `action_format: raw`, `fenced` or `hermes`";
            return Err(Fault::permanent(Boundary::Policy, "action-format-unsupported", message));
        }
        let mut conversation = self.take(request.attempt, request.turn)?;
        let context =
            Context { messages: request.conversation, tools: described_tools(format, request.tools) };
        let prompt = conversation.prompt(&self.chat, context).map_err(conversation_fault)?.into();
        let asked = GenerateRequest {
            prompt,
            max_new_tokens: self.sampling.max_new_tokens,
            temperature: self.sampling.temperature,
            top_p: 1.0,
            top_k: 0,
            seed: request.seed,
            stop_ids: self.chat.stop_ids().to_vec(),
            adapter: self.adapter.clone(),
        };
        let Generated { ids, logprobs, versions, finish, .. } =
            self.engine.generate(asked).await.map_err(engine_fault)?;
        let tokens = SampledTokens { ids, logprobs, versions };
        let text =
            conversation.reply(&self.chat, &tokens, self.sampling.temperature).map_err(conversation_fault)?;
        self.conversations().insert(request.attempt, conversation);
        Ok(Action { text, tool_calls: Vec::new(), finish, tokens: Some(tokens), usage: None })
    }

    /// Removes and returns the conversation of an attempt, until its reply arrives (I2).
    fn take(&self, attempt: AttemptId, turn: u32) -> Result<ConversationState, Fault> {
        let kept = self.conversations().remove(&attempt);
        match turn {
            0 => Ok(ConversationState::default()),
            _ => kept.ok_or_else(|| {
                let message = format!("attempt {attempt} goes on, but this policy did not see it begin");
                Fault::transient(Boundary::Policy, "conversation-lost", message)
            }),
        }
    }

    /// No code that can panic runs under the lock, so the content is consistent.
    fn conversations(&self) -> MutexGuard<'_, HashMap<AttemptId, ConversationState>> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy for TorchPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        Box::pin(self.reply(request))
    }

    fn attempt_ended(&self, attempt: AttemptId) {
        self.conversations().remove(&attempt);
    }
}

/// The tools that the context describes: none if actions are plain text.
#[must_use]
pub fn described_tools(format: ActionFormat, tools: &[ToolSpec]) -> &[ToolSpec] {
    match format {
        ActionFormat::Raw | ActionFormat::Fenced => &[],
        ActionFormat::Hermes | ActionFormat::ToolCalls => tools,
    }
}

fn conversation_fault(error: ConversationError) -> Fault {
    Fault::permanent(Boundary::Policy, "chat-template", error.to_string())
}

fn engine_fault(error: EngineError) -> Fault {
    let code = match error {
        EngineError::PromptTooLong { .. } | EngineError::NeverFits { .. } => "context-too-long",
        EngineError::NotFinite { .. } => "weights-not-finite",
        EngineError::Gone { .. } => "engine-gone",
        EngineError::EmptyPrompt
        | EngineError::UnknownToken { .. }
        | EngineError::NoAdapter(_)
        | EngineError::TooLong { .. }
        | EngineError::BadScoring(_)
        | EngineError::BadSampling(_) => "engine-refused",
    };
    Fault::permanent(Boundary::Policy, code, error.to_string())
}
