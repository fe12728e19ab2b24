//! Our side: the policy as a backend of the gateway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::FinishReason;
use clawrl_gateway::{
    AnswerRequest, Backend, BackendError, Delta, End, Piece, Refusal, StartedAnswer, Token, UserId,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::unfold;
use serde_json::{Map, Value};

use super::stub::{MODEL, Stub};

/// Bytes of a body for each token of a prompt, about as tokenizers have it.
const BYTES_PER_TOKEN: usize = 4;
/// Tokens of the longest prompt that is told.
const PROMPT: usize = 1 << 18;
/// Prompts have a multiple of so many, so that few are of different lengths.
const STEP: usize = 64;

/// The stub, as the gateway asks it.
#[derive(Debug)]
pub(super) struct StubBackend {
    stub: Arc<Stub>,
    /// Prompts begin with these; nothing where ids are not told.
    prompt: Option<Vec<u32>>,
    /// Of each length. The policy behind hyper alone has no ids to tell, so that to make them is nothing that the gateway is measured by.
    made: Mutex<HashMap<usize, Arc<[u32]>>>,
}

impl StubBackend {
    pub(super) fn new(stub: Arc<Stub>, without_ids: bool) -> Self {
        Self { stub, prompt: (!without_ids).then(prompt), made: Mutex::default() }
    }

    /// About as many as a body of this length has.
    fn prompt_ids(&self, body: &Map<String, Value>) -> Option<Arc<[u32]>> {
        let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
        let bytes: usize = messages.filter_map(|message| message["content"].as_str()).map(str::len).sum();
        let ids = self.prompt.as_ref()?;
        let length = (bytes / BYTES_PER_TOKEN).next_multiple_of(STEP).clamp(STEP, ids.len());
        // Nothing that panics runs under the lock.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(made.entry(length).or_insert_with(|| Arc::from(&ids[..length]))))
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
        let tells_ids = prompt_ids.is_some();
        let pieces = unfold(Some(self.stub.answer()), move |answer| async move {
            let mut answer = answer?;
            let Some(word) = answer.next().await else {
                let end = Piece::End(End { finish: FinishReason::Stop, usage: None });
                return Some((Ok::<_, BackendError>(end), None));
            };
            let piece = if tells_ids {
                // As even as the stub's choice among its words is, and not all alike: equal numbers would take no room in the ledger.
                let logprob = -0.5 - word.number as f32 / 512.0;
                Piece::Token(Token {
                    id: word.number,
                    bytes: word.text.as_bytes().to_vec(),
                    logprob,
                    version: 1,
                    ..Token::default()
                })
            } else {
                Piece::Delta(Delta { text: word.text.to_owned(), ..Delta::default() })
            };
            Some((Ok(piece), Some(answer)))
        });
        let begun = StartedAnswer { prompt_ids, in_reasoning: false, adapter: None, pieces: pieces.boxed() };
        Box::pin(async move { Ok(begun) })
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
}

/// Ids of a vocabulary of 150,000, most of them small as those of words are; by a linear congruential generator.
fn prompt() -> Vec<u32> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let unit = f64::from(state >> 8) / f64::from(1 << 24);
        (150_000.0 * unit.powi(4)) as u32
    };
    std::iter::repeat_with(next).take(PROMPT).collect()
}
