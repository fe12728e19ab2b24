//! Scoring: log-probabilities of given tokens under the model or an adapter, for teachers and judges.
//!
//! I1. A sequence is scored by exactly one version: when a newer version replaces it, the results so far are discarded and
//! computed again. I2. Requests are scored one after the other, a chunk of [`super::EngineConfig::max_prefill_rows`] rows
//! between
//! two steps, so scoring delays a step no longer than a chunk of a prompt does. I3. Log-probabilities are those of
//! [`super::sampling`]: of the full vocabulary at the request's temperature, and with [`super::EngineConfig::reproducible`] to the bit.
//!
//! Memory: a request reserves its pages as a sequence does; later requests wait behind one that waits for memory.
//!
//! Units: nats. Shapes: N requested positions, K candidates or most probable tokens of each.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::adapters::{AdaptedRows, AdapterName, AdapterWeights};
use super::config::EngineConfig;
use super::distribution::Distribution;
use super::forward::{Forward, Row};
use super::kv::{KvPool, Slab, pages_needed};
use super::prefix::Match;
use super::prefixes::{Owner, PrefixCaches};
use super::request::EngineError;
use super::weights::Weights;
use crate::ModelConfig;
use crate::error::TorchError;

/// A request for log-probabilities of given tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreRequest {
    /// Token ids, including the context before the requested positions.
    pub ids: Arc<[u32]>,
    /// The requested positions, at least one. They begin at 1, because nothing predicts the first token.
    pub positions: Range<usize>,
    /// T, above 0.
    pub temperature: f32,
    /// Other tokens to score at each position: empty, or N lists of any length.
    pub candidates: Vec<Vec<u32>>,
    /// Number of most probable tokens to return at each position.
    pub top_k: usize,
    /// Adapter to use; `None` for the base model.
    pub adapter: Option<AdapterName>,
}

/// Scores of tokens by one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// Log-probabilities of the given tokens. Shape N.
    pub logprobs: Vec<f32>,
    /// Log-probabilities of the candidates, in their order. Shape N x K; empty if none were given.
    pub candidates: Vec<Vec<f32>>,
    /// The most probable tokens in descending order; ties go to the lowest id. Shape N x K; empty if none were requested.
    pub top: Vec<Vec<(u32, f32)>>,
    /// Version of the weights, or of the adapter if one is used.
    pub version: u64,
}

impl ScoreRequest {
    /// Checks that the request can be computed.
    pub(super) fn check(&self, config: &ModelConfig) -> Result<(), EngineError> {
        let Self { ids, positions, temperature, candidates, top_k, .. } = self;
        let limit = usize::try_from(config.max_position_embeddings).unwrap_or_default();
        if ids.len() > limit {
            return Err(EngineError::TooLong { tokens: ids.len(), positions: limit });
        }
        if positions.is_empty() || positions.start == 0 || positions.end > ids.len() {
            return Err(EngineError::BadScoring(format!(
                "positions {} to {} of {} tokens; from 1 on, up to the number of tokens, and at least one is possible",
                positions.start,
                positions.end,
                ids.len()
            )));
        }
        if !candidates.is_empty() && candidates.len() != positions.len() {
            return Err(EngineError::BadScoring(format!(
                "{} lists of candidates for {} positions",
                candidates.len(),
                positions.len()
            )));
        }
        let outside = |id: &&u32| i64::from(**id) >= config.vocab_size;
        if let Some(&id) = ids.iter().chain(candidates.iter().flatten()).find(outside) {
            return Err(EngineError::UnknownToken { id, vocabulary: config.vocab_size });
        }
        if i64::try_from(*top_k).unwrap_or(i64::MAX) > config.vocab_size {
            return Err(EngineError::BadScoring(format!(
                "the {top_k} most probable of {} tokens",
                config.vocab_size
            )));
        }
        if !(1e-3..=1e3).contains(temperature) {
            return Err(EngineError::BadSampling(format!(
                "temperature {temperature}; 0.001 to 1000 is possible"
            )));
        }
        Ok(())
    }

    /// Rows to compute: the last position is predicted by the row before it.
    pub(super) fn rows(&self) -> usize {
        self.positions.end - 1
    }

    /// Maximum number of pages that the request needs.
    pub(super) fn most_pages(&self, shares: bool) -> usize {
        pages_needed(self.rows(), 0, shares)
    }
}

/// Sends the answer. Closed when the caller has dropped its future.
pub(super) type ScoreReply = oneshot::Sender<Result<Scored, EngineError>>;

/// A request in the engine's channel.
#[derive(Debug)]
pub(super) struct ScoreSubmission {
    pub(super) request: ScoreRequest,
    pub(super) reply: ScoreReply,
    /// Permit of the queue, released once the request is scored.
    pub(super) place: OwnedSemaphorePermit,
}

/// The engine's state that scoring uses.
pub(super) struct Serving<'a> {
    pub(super) config: &'a EngineConfig,
    pub(super) weights: &'a Weights,
    pub(super) adapters: &'a BTreeMap<AdapterName, AdapterWeights>,
    pub(super) forward: &'a mut Forward,
    pub(super) pool: &'a Rc<KvPool>,
    pub(super) caches: &'a mut PrefixCaches,
}

impl Serving<'_> {
    /// `None` for an adapter that is not resident.
    fn version_of(&self, owner: &Owner) -> Option<u64> {
        match owner {
            None => Some(self.weights.version),
            Some(name) => self.adapters.get(name).map(|adapter| adapter.version),
        }
    }
}

/// Waiting requests; the first one is being scored.
#[derive(Debug, Default)]
pub(super) struct ScoreQueue {
    waiting: VecDeque<ScoreSubmission>,
    begun: Option<Begun>,
    answers: Vec<(ScoreReply, Result<Scored, EngineError>)>,
    rows: Vec<Row>,
    distribution: Distribution,
}

/// Progress of the first request.
#[derive(Debug)]
struct Begun {
    slab: Slab,
    scored: Scored,
}

/// Outcome of one scoring step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Number of computed rows; 0 without requests.
    Computed(usize),
    /// Memory is exhausted.
    NoRoom,
}

impl ScoreQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn push(&mut self, submission: ScoreSubmission) {
        self.waiting.push_back(submission);
    }

    /// Drops requests whose caller has gone and returns their number.
    pub(super) fn drop_cancelled(&mut self) -> usize {
        let before = self.waiting.len();
        if self.waiting.front().is_some_and(|first| first.reply.is_closed()) {
            self.begun = None;
        }
        self.waiting.retain(|submission| !submission.reply.is_closed());
        before - self.waiting.len()
    }

    /// Restarts the owner's request with a new version (I1).
    pub(super) fn begin_anew(&mut self, owner: &Owner) {
        if self.waiting.front().is_some_and(|first| first.request.adapter == *owner) {
            self.begun = None;
        }
    }

    /// Answers requests for an adapter that is not resident.
    pub(super) fn refuse_unserved(&mut self, is_served: impl Fn(&Owner) -> bool) {
        if self.waiting.iter().all(|submission| is_served(&submission.request.adapter)) {
            return;
        }
        if self.waiting.front().is_some_and(|first| !is_served(&first.request.adapter)) {
            self.begun = None;
        }
        for ScoreSubmission { request, reply, place } in std::mem::take(&mut self.waiting) {
            if is_served(&request.adapter) {
                self.waiting.push_back(ScoreSubmission { request, reply, place });
            } else {
                let name = request.adapter.as_deref().unwrap_or_default().to_owned();
                self.answers.push((reply, Err(EngineError::NoAdapter(name))));
            }
        }
    }

    /// Sends the answers that are ready.
    pub(super) fn answer(&mut self) {
        for (reply, answer) in self.answers.drain(..) {
            // Fails only if the caller has dropped its future.
            let _ = reply.send(answer);
        }
    }

    /// Computes a chunk of the first request (I2). `threads` is called before the multiplications, with the number of rows
    /// and the elements of the widest matrix.
    pub(super) fn step(
        &mut self,
        serving: &mut Serving<'_>,
        threads: impl Fn(&Forward, usize, usize),
    ) -> Result<Turn, TorchError> {
        let Some(submission) = self.waiting.front() else { return Ok(Turn::Computed(0)) };
        let request = &submission.request;
        let Some(version) = serving.version_of(&request.adapter) else { return Ok(Turn::Computed(0)) };
        if self.begun.is_none() {
            let Some(slab) = slab_for(request, version, serving) else { return Ok(Turn::NoRoom) };
            self.begun = Some(Begun { slab, scored: Scored::of(version) });
        }
        let Some(Begun { slab, scored }) = &mut self.begun else { return Ok(Turn::Computed(0)) };
        let start = slab.len();
        let count = (request.rows() - start).min(serving.config.max_prefill_rows);
        slab.grow(count);
        self.rows.clear();
        let ids = request.ids[start..start + count].iter();
        self.rows.extend(ids.zip(start..).map(|(&id, position)| Row { slab: 0, position, id }));
        let adapter = request.adapter.as_ref().and_then(|name| serving.adapters.get(name));
        let adapted: Vec<AdaptedRows<'_>> =
            adapter.into_iter().map(|adapter| AdaptedRows { start: 0, end: count, adapter }).collect();
        let model = serving.weights.layout.config();
        let (hidden, inner) = (model.hidden_size as usize, model.intermediate_size as usize);
        let vocabulary = model.vocab_size as usize;
        threads(serving.forward, count, 2 * hidden * inner);
        serving.forward.run(serving.weights, &adapted, &self.rows, &mut [slab])?;
        // Position p is predicted by row p - 1.
        let first = request.positions.start.max(start + 1);
        let asked: Vec<usize> = (first..request.positions.end.min(start + count + 1)).collect();
        let mut finite = true;
        for asked in asked.chunks(serving.config.max_batch) {
            for (place, position) in asked.iter().enumerate() {
                serving.forward.pick(serving.weights, place, position - 1 - start);
            }
            threads(serving.forward, asked.len(), hidden * vocabulary);
            let distribution = &mut self.distribution;
            serving.forward.logits(serving.weights, asked.len(), |place, logits| {
                finite &= distribution.of(logits, request.temperature);
                if finite {
                    scored.add(request, asked[place], logits, distribution);
                }
            })?;
        }
        if finite && start + count < request.rows() {
            return Ok(Turn::Computed(count));
        }
        let begun = self.begun.take();
        if let (Some(ScoreSubmission { reply, .. }), Some(Begun { scored, .. })) =
            (self.waiting.pop_front(), begun)
        {
            self.answers
                .push((reply, if finite { Ok(scored) } else { Err(EngineError::NotFinite { version }) }));
        }
        Ok(Turn::Computed(count))
    }
}

/// A slab for a request, after its cached prefix; `None` if memory is exhausted.
fn slab_for(request: &ScoreRequest, version: u64, serving: &mut Serving<'_>) -> Option<Slab> {
    let shares = serving.config.share_prefixes;
    // The row before the first requested position must be computed.
    let before = &request.ids[..request.positions.start - 1];
    let mut found = match shares && !before.is_empty() {
        true => serving.caches.find(&request.adapter, version, before),
        false => Match::default(),
    };
    loop {
        if let Some(reservation) = serving.pool.reserve(pages_needed(request.rows(), found.len, shares)) {
            return Some(Slab::new(found.pages, found.len, reservation));
        }
        if serving.caches.evict() {
            continue;
        }
        if found.pages.is_empty() {
            return None;
        }
        // The match may occupy all the memory that is left.
        found = Match::default();
    }
}

impl Scored {
    fn of(version: u64) -> Self {
        Self { logprobs: Vec::new(), candidates: Vec::new(), top: Vec::new(), version }
    }

    /// Adds the scores of one position.
    fn add(
        &mut self,
        request: &ScoreRequest,
        position: usize,
        logits: &[f32],
        distribution: &mut Distribution,
    ) {
        self.logprobs.push(distribution.logprob(logits, request.ids[position]));
        if let Some(candidates) = request.candidates.get(position - request.positions.start) {
            self.candidates.push(candidates.iter().map(|&id| distribution.logprob(logits, id)).collect());
        }
        if request.top_k > 0 {
            self.top.push(distribution.most_probable(logits, request.top_k));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut ScoreRequest), expected: Result<(), EngineError>) {
        let mut request = ScoreRequest {
            ids: Arc::from([1, 2, 3]),
            positions: 1..3,
            temperature: 1.0,
            candidates: Vec::new(),
            top_k: 0,
            adapter: None,
        };
        change(&mut request);
        assert_eq!(request.check(&ModelConfig::tiny(64, 0)), expected);
    }

    #[test]
    fn impossible_requests_are_refused_by_name() {
        let bad = |what: &str| Err(EngineError::BadScoring(what.to_owned()));
        let out = |from, to| {
            bad(&format!(
                "positions {from} to {to} of 3 tokens; from 1 on, up to the number of tokens, and at least one is possible"
            ))
        };
        check(|_| {}, Ok(()));
        check(|request| request.positions = 0..2, out(0, 2));
        check(|request| request.positions = 1..4, out(1, 4));
        check(|request| request.positions = 2..2, out(2, 2));
        check(
            |request| request.ids = Arc::from([0; 2049]),
            Err(EngineError::TooLong { tokens: 2049, positions: 2048 }),
        );
        check(|request| request.ids = Arc::from([0; 2048]), Ok(()));
        let unknown = Err(EngineError::UnknownToken { id: 64, vocabulary: 64 });
        check(|request| request.ids = Arc::from([64, 1, 2]), unknown.clone());
        check(|request| request.candidates = vec![vec![1], vec![64]], unknown);
        check(|request| request.candidates = vec![vec![1]], bad("1 lists of candidates for 2 positions"));
        check(|request| request.top_k = 65, bad("the 65 most probable of 64 tokens"));
        check(|request| request.top_k = 64, Ok(()));
        for (temperature, shown) in [(0.0, "0"), (f32::NAN, "NaN"), (2e3, "2000")] {
            let why = format!("temperature {shown}; 0.001 to 1000 is possible");
            check(|request| request.temperature = temperature, Err(EngineError::BadSampling(why)));
        }
    }
}
