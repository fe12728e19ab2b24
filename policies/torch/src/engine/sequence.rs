//! A running sequence.

use std::rc::Rc;

use clawrl_core::FinishReason;
use tokio::sync::oneshot;

use super::kv::Slab;
use super::prefixes::Owner;
use super::request::{EngineError, GenerateRequest, Generated};
use super::sampling::{Draw, Sampling};
use super::streaming::{Listener, StreamedToken};

/// Sends the answer. Closed when the caller has dropped its future.
pub(super) type Reply = oneshot::Sender<Result<Generated, EngineError>>;

/// Parts of a new sequence.
pub(super) struct Submitted {
    pub(super) request: GenerateRequest,
    pub(super) listener: Option<Listener>,
    pub(super) reply: Reply,
}

/// A request with its state.
#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) reply: Reply,
    /// Receiver of each token, if the caller streams.
    listener: Option<Listener>,
    /// Prompt and sampled tokens. Those beyond the slab's length are not computed yet.
    pub(super) ids: Vec<u32>,
    pub(super) prompt_len: usize,
    pub(super) slab: Slab,
    /// Number of sequences that were admitted earlier.
    pub(super) number: u64,
    /// The adapter of the sequence, if any.
    pub(super) owner: Owner,
    /// The owner's version that computed the whole slab; `None` if several did.
    pub(super) origin: Option<u64>,
    /// The last hidden row, if it was found in the cache.
    pub(super) hidden: Option<Rc<[f32]>>,
    pub(super) sampling: Sampling,
    pub(super) end: Option<Result<FinishReason, EngineError>>,
    most_tokens: usize,
    stop_ids: Vec<u32>,
    logprobs: Vec<f32>,
    set_logprobs: Option<Vec<f32>>,
    versions: Vec<(u32, u64)>,
}

impl Sequence {
    /// Starts after the positions that version `origin` computed in `slab`.
    pub(super) fn new(
        submission: Submitted,
        most_tokens: usize,
        slab: Slab,
        hidden: Option<Rc<[f32]>>,
        origin: u64,
        number: u64,
    ) -> Self {
        let Submitted { request, listener, reply } = submission;
        let sampling = request.sampling();
        Self {
            reply,
            listener,
            prompt_len: request.prompt.len(),
            ids: request.prompt.to_vec(),
            slab,
            number,
            owner: request.adapter,
            origin: Some(origin),
            hidden,
            sampling,
            end: None,
            most_tokens,
            stop_ids: request.stop_ids,
            logprobs: Vec::new(),
            set_logprobs: sampling.truncates().then(Vec::new),
            versions: Vec::new(),
        }
    }

    /// Rows to compute before the next token can be drawn.
    pub(super) fn pending(&self) -> usize {
        if self.hidden.is_some() { 0 } else { self.ids.len() - self.slab.len() }
    }

    /// Whether part of the prompt is not computed yet.
    pub(super) fn in_prompt(&self) -> bool {
        self.slab.len() < self.prompt_len
    }

    /// Number of most probable tokens that the listener wants.
    pub(super) fn most_probable(&self) -> usize {
        self.listener.as_ref().map_or(0, |listener| listener.most_probable)
    }

    /// Appends a drawn token, with the most probable tokens at its position. `None` means that the logits were not finite.
    pub(super) fn push(&mut self, draw: Option<Draw>, most_probable: Vec<(u32, f32)>, version: u64) {
        let Some(draw) = draw else {
            self.end = Some(Err(EngineError::NotFinite { version }));
            return;
        };
        let index = self.logprobs.len() as u32;
        if self.versions.last().is_none_or(|&(_, last)| last != version) {
            self.versions.push((index, version));
        }
        if let Some(Listener { tokens, .. }) = &self.listener {
            let Draw { id, logprob, .. } = draw;
            // Fails if the caller reads no more tokens and only waits for the end.
            let _ = tokens.send(StreamedToken { id, logprob, version, most_probable });
        }
        self.ids.push(draw.id);
        self.logprobs.push(draw.logprob);
        if let Some(set_logprobs) = &mut self.set_logprobs {
            set_logprobs.push(draw.set_logprob.unwrap_or(draw.logprob));
        }
        if self.stop_ids.contains(&draw.id) {
            self.end = Some(Ok(FinishReason::Stop));
        } else if self.ids.len() >= self.most_tokens {
            self.end = Some(Ok(FinishReason::Length));
        }
    }

    /// The answer and its channel, once the sequence has ended.
    pub(super) fn into_answer(self) -> Option<(Reply, Result<Generated, EngineError>)> {
        let answer = self.end?.map(|finish| Generated {
            ids: self.ids[self.prompt_len..].to_vec(),
            logprobs: self.logprobs,
            set_logprobs: self.set_logprobs,
            versions: self.versions,
            finish,
        });
        Some((self.reply, answer))
    }
}
