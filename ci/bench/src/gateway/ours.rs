//! The gateway's side: the policy as a backend.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::FinishReason;
use clawrl_gateway::{
    AnswerRequest, Backend, BackendError, End, Piece, Refusal, StartedAnswer, Token, UserId,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use serde_json::{Map, Value};

use super::stub::{MODEL, Stub};

/// Bytes of text per prompt token, about as in tokenizers.
const BYTES_PER_TOKEN: usize = 4;
/// Maximum length of a prompt in tokens.
const MAX_PROMPT: usize = 1 << 18;
/// Prompt lengths are multiples of this, so that there are few different ones.
const STEP: usize = 64;

/// The stub policy as a backend of the gateway.
#[derive(Debug)]
pub(super) struct StubBackend {
    stub: Arc<Stub>,
    /// Every prompt is a prefix of this.
    prompt: Vec<u32>,
    /// Prompts by length. They are cached because the bare server makes none, so that making them must not count.
    prompts: Mutex<HashMap<usize, Arc<[u32]>>>,
}

impl StubBackend {
    pub(super) fn new(stub: Arc<Stub>) -> Self {
        Self { stub, prompt: prompt(), prompts: Mutex::default() }
    }

    /// About as many ids as the body's text has tokens.
    fn prompt_ids(&self, body: &Map<String, Value>) -> Arc<[u32]> {
        let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
        let bytes: usize = messages.filter_map(|message| message["content"].as_str()).map(str::len).sum();
        let length = (bytes / BYTES_PER_TOKEN).next_multiple_of(STEP).clamp(STEP, self.prompt.len());
        // Nothing panics under the lock.
        let mut prompts = self.prompts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(prompts.entry(length).or_insert_with(|| Arc::from(&self.prompt[..length])))
    }
}

impl Backend for StubBackend {
    fn models(&self) -> Vec<String> {
        vec![MODEL.to_owned()]
    }

    fn context(&self) -> Option<usize> {
        None
    }

    fn version(&self, _: &UserId) -> Option<u64> {
        Some(1)
    }

    fn refusal(&self, _: &AnswerRequest, demands: &[Refusal]) -> Option<Refusal> {
        demands.first().cloned()
    }

    fn start(&self, ask: AnswerRequest) -> BoxFuture<'_, Result<StartedAnswer, BackendError>> {
        let prompt_ids = self.prompt_ids(&ask.body);
        let pieces = unfold(Some(self.stub.answer()), move |answer| async move {
            let mut answer = answer?;
            let Some(word) = answer.next().await else {
                let end = Piece::End(End { finish: FinishReason::Stop, usage: None });
                return Some((Ok::<_, BackendError>(end), None));
            };
            // Varied, because equal numbers would take no space in the ledger.
            let logprob = -0.5 - word.number as f32 / 512.0;
            let token = Token {
                id: word.number,
                bytes: word.text.as_bytes().to_vec(),
                logprob,
                version: 1,
                ..Token::default()
            };
            Some((Ok(Piece::Token(token)), Some(answer)))
        });
        let begun = StartedAnswer {
            prompt_ids: Some(prompt_ids),
            in_reasoning: false,
            adapter: None,
            pieces: pieces.boxed(),
        };
        Box::pin(async move { Ok(begun) })
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// Pseudo-random ids of a vocabulary of 150,000, mostly small, as those of frequent words are.
fn prompt() -> Vec<u32> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let unit = f64::from(state >> 8) / f64::from(1 << 24);
        (150_000.0 * unit.powi(4)) as u32
    };
    std::iter::repeat_with(next).take(MAX_PROMPT).collect()
}
