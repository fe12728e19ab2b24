//! The loop of the engine's thread.
//!
//! Order within an iteration: receive messages (requests, weights), drop cancelled sequences, score a chunk, admit waiting
//! requests, make one step, update counters, send answers. Requests are admitted first come, first served. A request whose
//! prompt another sequence is computing waits until it can share the result.
//!
//! Errors: an error of libtorch ends the engine.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::adapters::{AdaptedRows, AdapterName, AdapterWeights};
use super::audited::GemmRows;
use super::config::{EngineConfig, EngineObserver, EngineWork};
use super::distribution::Distribution;
use super::forward::{Forward, Row};
use super::kv::{KvPool, Slab, pages_needed};
use super::prefix::{Match, common};
use super::prefixes::{Owner, PrefixCaches};
use super::request::{EngineError, GenerateRequest, Generated};
use super::sampling::{Draw, Sampler};
use super::scoring::{ScoreQueue, ScoreSubmission, Serving, Turn};
use super::sequence::{Reply, Sequence, Submitted};
use super::stats::{EngineStats, SharedStats};
use super::streaming::Listener;
use super::weights::Weights;
use crate::ModelConfig;
use crate::error::TorchError;
use crate::turns::{EngineTurns, Turns};

/// A request in the engine's channel.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) request: GenerateRequest,
    /// Receiver of each token, if the caller streams.
    pub(super) listener: Option<Listener>,
    pub(super) reply: Reply,
    /// Permit of the queue, released once the request runs.
    pub(super) place: OwnedSemaphorePermit,
}

/// A message to the engine.
#[derive(Debug)]
pub(super) enum Message {
    /// Request to continue a prompt.
    Generate(Submission),
    /// Request to score tokens.
    Score(ScoreSubmission),
    /// Weights to use from the next step.
    Publish {
        published: Published,
        /// Dropped when the engine takes the message.
        taken: Sender<()>,
        /// Signalled when the weights are in use.
        applied: oneshot::Sender<()>,
    },
    /// Request to remove an adapter.
    RemoveAdapter(AdapterName),
    /// Request to end.
    Stop,
    /// A panic, for tests of its consequences.
    #[cfg(test)]
    Panic,
}

/// Published weights.
#[derive(Debug)]
pub(super) enum Published {
    Model(Box<Weights>),
    Adapter(AdapterName, Box<AdapterWeights>),
}

/// Minimum operations of a multiplication for which waking other threads pays: one thread does this many in about 0.25 ms.
const WORTH_SHARING: usize = 1 << 24;

/// The state of the engine's thread.
#[derive(Debug)]
pub(super) struct Worker {
    config: EngineConfig,
    model: ModelConfig,
    weights: Weights,
    adapters: BTreeMap<AdapterName, AdapterWeights>,
    forward: Forward,
    pool: Rc<KvPool>,
    caches: PrefixCaches,
    messages: Receiver<Message>,
    waiting: VecDeque<Submission>,
    /// Sorted by adapter, so that the rows of each adapter are adjacent.
    running: Vec<Sequence>,
    scores: ScoreQueue,
    sampler: Sampler,
    answers: Vec<(Reply, Result<Generated, EngineError>)>,
    stats: EngineStats,
    shared: SharedStats,
    rows: Vec<Row>,
    /// End of the rows of each adapter in the step, in order.
    spans: Vec<(Owner, usize)>,
    picks: Vec<Pick>,
    draws: Vec<Drawn>,
    distribution: Distribution,
    /// Number of sequences admitted so far.
    admitted: u64,
    /// Rows of each running sequence in a step.
    shares: Vec<usize>,
    turns: EngineTurns,
}

/// A sequence to draw a token for.
#[derive(Debug, Clone, Copy)]
struct Pick {
    sequence: usize,
    /// Row of this step whose hidden state it is drawn from; `None` if the sequence has the hidden state already.
    row: Option<usize>,
}

/// A token drawn for a sequence.
#[derive(Debug)]
struct Drawn {
    draw: Option<Draw>,
    /// The most probable tokens at its position, if a listener wants them.
    most_probable: Vec<(u32, f32)>,
}

/// Whether a waiting request can run now.
enum Admission {
    Now(Slab, Option<Rc<[f32]>>),
    /// Another sequence is computing its prompt.
    Shared,
    /// Memory is exhausted.
    NoRoom,
}

impl Worker {
    pub(super) fn new(
        config: EngineConfig,
        weights: Weights,
        messages: Receiver<Message>,
        shared: SharedStats,
    ) -> Result<Self, TorchError> {
        let model = weights.layout.config().clone();
        let gemm_rows = if config.reproducible { GemmRows::Blocks } else { GemmRows::All };
        let rows = config.max_batch + config.max_prefill_rows;
        let mut caches = PrefixCaches::default();
        caches.restart(None, weights.version);
        let worker = Self {
            turns: config.turns.engine(),
            adapters: BTreeMap::new(),
            spans: Vec::new(),
            admitted: 0,
            shares: Vec::new(),
            forward: Forward::new(&model, rows, config.max_batch, gemm_rows)?,
            pool: KvPool::new(&model, config.kv_budget_bytes),
            caches,
            messages,
            waiting: VecDeque::new(),
            running: Vec::new(),
            scores: ScoreQueue::default(),
            sampler: Sampler::default(),
            answers: Vec::new(),
            stats: EngineStats { version: weights.version, ..EngineStats::default() },
            shared,
            rows: Vec::with_capacity(rows),
            picks: Vec::new(),
            draws: Vec::new(),
            distribution: Distribution::default(),
            config,
            model,
            weights,
        };
        worker.shared.write(&worker.stats);
        Ok(worker)
    }

    /// Runs until [`Message::Stop`].
    pub(super) fn run(&mut self) -> Result<(), TorchError> {
        while self.take_messages() {
            self.drop_cancelled();
            self.refuse_unserved();
            // A scoring request that waits for memory takes precedence, so that it does not starve.
            if self.score()? {
                self.admit();
            }
            if !self.running.is_empty() {
                let prompt_rows = self.stats.prompt_rows;
                let took = self.step_in_turn()?;
                self.stats.busy += took;
                let has_prompt = self.stats.prompt_rows > prompt_rows;
                self.tell(if has_prompt { EngineWork::Prefill } else { EngineWork::Decode }, took);
            }
            self.report();
            self.scores.answer();
            for (reply, answer) in self.answers.drain(..) {
                // Fails only if the caller has dropped its future.
                let _ = reply.send(answer);
            }
        }
        Ok(())
    }

    /// Handles all pending messages; waits for one if there is no work. Returns false at the end.
    fn take_messages(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() && self.scores.is_empty() {
            self.turns.rest();
            let Ok(message) = self.messages.recv() else { return false };
            if !self.obey(message) {
                return false;
            }
        }
        while let Ok(message) = self.messages.try_recv() {
            if !self.obey(message) {
                return false;
            }
        }
        true
    }

    fn obey(&mut self, message: Message) -> bool {
        match message {
            Message::Generate(submission) => self.waiting.push_back(submission),
            Message::Score(submission) => self.scores.push(submission),
            Message::Publish { published, taken, applied } => {
                drop(taken);
                self.swap(published);
                // Fails only if the publisher does not wait.
                let _ = applied.send(());
            }
            Message::RemoveAdapter(name) => {
                self.adapters.remove(&name);
                self.caches.remove(&Some(name));
                // At once, because another adapter may be published under this name before the next step.
                self.refuse_unserved();
            }
            Message::Stop => return false,
            #[cfg(test)]
            Message::Panic => panic!("a defect"),
        }
        true
    }

    fn tell(&self, work: EngineWork, took: Duration) {
        if let Some(EngineObserver(hear)) = self.config.observer {
            hear(work, took);
        }
    }

    fn swap(&mut self, published: Published) {
        let start = Instant::now();
        match published {
            Published::Model(weights) => {
                self.stats.version = weights.version;
                self.weights = *weights;
                self.caches.restart(None, self.weights.version);
                self.scores.begin_anew(&None);
                for index in 0..self.running.len() {
                    self.begin_anew(index);
                }
            }
            Published::Adapter(name, weights) => {
                let owner = Some(Arc::clone(&name));
                self.caches.restart(owner.clone(), weights.version);
                self.adapters.insert(name, *weights);
                self.scores.begin_anew(&owner);
                for index in 0..self.running.len() {
                    if self.running[index].owner == owner {
                        self.begin_anew(index);
                    }
                }
            }
        }
        self.stats.swaps += 1;
        self.shared.write(&self.stats);
        self.tell(EngineWork::Swap, start.elapsed());
    }

    /// Marks that a sequence continues with another version, unless none of it was computed.
    fn begin_anew(&mut self, index: usize) {
        let version = self.version_of(&self.running[index].owner);
        let sequence = &mut self.running[index];
        sequence.origin = version.filter(|_| sequence.slab.len() == 0);
    }

    /// Version that an owner computes by now; `None` for an adapter that is not resident.
    fn version_of(&self, owner: &Owner) -> Option<u64> {
        match owner {
            None => Some(self.weights.version),
            Some(name) => self.adapters.get(name).map(|adapter| adapter.version),
        }
    }

    /// Answers requests for an adapter that is not resident.
    fn refuse_unserved(&mut self) {
        let is_served = |owner: &Owner| owner.as_ref().is_none_or(|name| self.adapters.contains_key(name));
        let refusal = |owner: Owner| EngineError::NoAdapter(owner.as_deref().unwrap_or_default().to_owned());
        let mut refused = Vec::new();
        if self.waiting.iter().any(|submission| !is_served(&submission.request.adapter)) {
            let (served, unserved) = std::mem::take(&mut self.waiting)
                .into_iter()
                .partition::<VecDeque<_>, _>(|submission| is_served(&submission.request.adapter));
            self.waiting = served;
            refused.extend(unserved.into_iter().map(|sub| (sub.reply, Err(refusal(sub.request.adapter)))));
        }
        let running = self.running.extract_if(.., |sequence| !is_served(&sequence.owner));
        refused.extend(running.map(|sequence| (sequence.reply, Err(refusal(sequence.owner)))));
        self.answers.extend(refused);
        self.scores.refuse_unserved(is_served);
    }

    fn drop_cancelled(&mut self) {
        let before = self.running.len() + self.waiting.len();
        self.running.retain(|sequence| !sequence.reply.is_closed());
        self.waiting.retain(|submission| !submission.reply.is_closed());
        let scores = self.scores.drop_cancelled();
        self.stats.cancelled += (before - self.running.len() - self.waiting.len() + scores) as u64;
    }

    /// Scores a chunk; returns false if scoring waits for memory that running sequences hold.
    fn score(&mut self) -> Result<bool, TorchError> {
        if self.scores.is_empty() {
            return Ok(true);
        }
        let start = Instant::now();
        let mut serving = Serving {
            config: &self.config,
            weights: &self.weights,
            adapters: &self.adapters,
            forward: &mut self.forward,
            pool: &self.pool,
            caches: &mut self.caches,
        };
        let threads = self.config.threads;
        let turn = self.scores.step(&mut serving, |forward, rows, widest| {
            set_threads(threads, forward, rows, widest);
        })?;
        let Turn::Computed(rows) = turn else { return Ok(false) };
        let took = start.elapsed();
        self.stats.scored_rows += rows as u64;
        self.stats.busy += took;
        self.tell(EngineWork::Prefill, took);
        Ok(true)
    }

    fn admit(&mut self) {
        let mut index = 0;
        while self.running.len() < self.config.max_batch && index < self.waiting.len() {
            let prompt = Arc::clone(&self.waiting[index].request.prompt);
            let most_tokens = self.waiting[index].request.most_tokens(&self.model);
            let owner = self.waiting[index].request.adapter.clone();
            let Some(version) = self.version_of(&owner) else { break };
            match self.admission(&owner, version, &prompt, most_tokens) {
                Admission::Shared => index += 1,
                Admission::NoRoom => break,
                Admission::Now(slab, hidden) => {
                    let Some(submission) = self.waiting.remove(index) else { break };
                    self.stats.reused_prompt_rows += slab.len() as u64;
                    let Submission { request, listener, reply, place } = submission;
                    drop(place);
                    let submitted = Submitted { request, listener, reply };
                    let place = self.running.partition_point(|other| other.owner <= owner);
                    let sequence =
                        Sequence::new(submitted, most_tokens, slab, hidden, version, self.admitted);
                    self.admitted += 1;
                    self.running.insert(place, sequence);
                }
            }
        }
    }

    fn admission(&mut self, owner: &Owner, version: u64, prompt: &[u32], most_tokens: usize) -> Admission {
        let shares = self.config.share_prefixes;
        let mut found = if shares { self.caches.find(owner, version, prompt) } else { Match::default() };
        if shares && self.is_being_computed(owner, version, prompt, found.len) {
            return Admission::Shared;
        }
        // The last token of a sequence is never computed.
        let positions = most_tokens - 1;
        loop {
            if let Some(reservation) = self.pool.reserve(pages_needed(positions, found.len, shares)) {
                return Admission::Now(Slab::new(found.pages, found.len, reservation), found.hidden);
            }
            if self.caches.evict() {
                continue;
            }
            if !self.running.is_empty() || found.pages.is_empty() {
                return Admission::NoRoom;
            }
            // The match occupies all the memory that is left, and the sequence fits only without it.
            found = Match::default();
        }
    }

    /// Whether a running sequence computes at least half of the rows that this prompt still needs.
    fn is_being_computed(&self, owner: &Owner, version: u64, prompt: &[u32], found: usize) -> bool {
        let needed = prompt.len() - found;
        needed > 1
            && self.running.iter().any(|other| {
                other.in_prompt() && other.owner == *owner && other.origin == Some(version) && {
                    let shared = common(&other.ids[..other.prompt_len], prompt);
                    2 * shared.saturating_sub(found) >= needed
                }
            })
    }

    /// Makes a step when the arbiter grants the device; returns its duration without the wait.
    fn step_in_turn(&mut self) -> Result<Duration, TorchError> {
        // The arbiter is taken out of `self`, which the step borrows mutably.
        let mut turns = std::mem::replace(&mut self.turns, Turns::default().engine());
        let done = turns.step(|| {
            let start = Instant::now();
            self.step().map(|()| start.elapsed())
        });
        self.turns = turns;
        done
    }

    fn step(&mut self) -> Result<(), TorchError> {
        self.plan();
        let hidden = self.model.hidden_size as usize;
        set_threads(
            self.config.threads,
            &self.forward,
            self.rows.len(),
            2 * hidden * self.model.intermediate_size as usize,
        );
        let mut slabs: Vec<&mut Slab> = self.running.iter_mut().map(|sequence| &mut sequence.slab).collect();
        let mut start = 0;
        let mut adapted = Vec::new();
        for (owner, end) in &self.spans {
            if let Some(adapter) = owner.as_ref().and_then(|name| self.adapters.get(name)) {
                adapted.push(AdaptedRows { start, end: *end, adapter });
            }
            start = *end;
        }
        self.forward.run(&self.weights, &adapted, &self.rows, &mut slabs)?;
        for (place, pick) in self.picks.iter().enumerate() {
            let sequence = &mut self.running[pick.sequence];
            match (pick.row, sequence.hidden.take()) {
                (None, Some(hidden)) => self.forward.put(place, &hidden),
                (row, _) => {
                    let hidden = self.forward.pick(&self.weights, place, row.unwrap_or_default());
                    if self.config.share_prefixes
                        && sequence.ids.len() == sequence.prompt_len
                        && let Some(origin) = sequence.origin
                    {
                        let hidden = Some(Rc::from(hidden));
                        let pages = sequence.slab.pages();
                        self.caches.insert(&sequence.owner, origin, &sequence.ids, pages, hidden);
                    }
                }
            }
        }
        self.draws.clear();
        set_threads(
            self.config.threads,
            &self.forward,
            self.picks.len(),
            hidden * self.model.vocab_size as usize,
        );
        self.forward.logits(&self.weights, self.picks.len(), |place, logits| {
            let sequence = &self.running[self.picks[place].sequence];
            let position = sequence.ids.len() as u64;
            let draw = self.sampler.draw(logits, &sequence.sampling, position);
            let wanted = sequence.most_probable();
            // The log-probabilities of greedy tokens are at temperature 1.
            let temperature =
                if sequence.sampling.temperature > 0.0 { sequence.sampling.temperature } else { 1.0 };
            let most_probable = match wanted > 0 && self.distribution.of(logits, temperature) {
                true => self.distribution.most_probable(logits, wanted),
                false => Vec::new(),
            };
            self.draws.push(Drawn { draw, most_probable });
        })?;
        let mut draws = std::mem::take(&mut self.draws);
        for (pick, Drawn { draw, most_probable }) in self.picks.iter().zip(draws.drain(..)) {
            let version = self.version_of(&self.running[pick.sequence].owner);
            self.running[pick.sequence].push(draw, most_probable, version.unwrap_or_default());
            self.stats.sampled_tokens += u64::from(draw.is_some());
        }
        self.draws = draws;
        self.stats.steps += 1;
        self.finish();
        Ok(())
    }

    /// Sets the number of rows of each sequence. Prompt rows go to the earliest admitted sequence first, regardless of its
    /// index.
    fn share(&mut self) {
        let mut prompt_rows = self.config.max_prefill_rows;
        let mut served: Vec<usize> = (0..self.running.len()).collect();
        served.sort_by_key(|&index| self.running[index].number);
        self.shares.clear();
        self.shares.resize(served.len(), 0);
        for index in served {
            let pending = self.running[index].pending();
            // A single row is never deferred: every running sequence gets one.
            let count = if pending == 1 { 1 } else { pending.min(prompt_rows) };
            if pending > 1 {
                prompt_rows -= count;
            }
            self.shares[index] = count;
        }
    }

    /// Chooses the rows of a step and grows their slabs.
    fn plan(&mut self) {
        self.rows.clear();
        self.spans.clear();
        self.picks.clear();
        self.share();
        for (index, (sequence, &count)) in self.running.iter_mut().zip(&self.shares).enumerate() {
            let (pending, start) = (sequence.pending(), sequence.slab.len());
            if start < sequence.prompt_len {
                self.stats.prompt_rows += count as u64;
            }
            sequence.slab.grow(count);
            let ids = sequence.ids[start..start + count].iter();
            self.rows.extend(ids.zip(start..).map(|(&id, position)| Row { slab: index, position, id }));
            match self.spans.last_mut() {
                Some((owner, end)) if *owner == sequence.owner => *end = self.rows.len(),
                _ => self.spans.push((sequence.owner.clone(), self.rows.len())),
            }
            if count == pending {
                let row = (count > 0).then(|| self.rows.len() - 1);
                self.picks.push(Pick { sequence: index, row });
            }
        }
    }

    /// Removes ended sequences and caches their pages for prompts that continue them.
    fn finish(&mut self) {
        for sequence in self.running.extract_if(.., |sequence| sequence.end.is_some()) {
            if self.config.share_prefixes
                && let (Some(origin), Some(Ok(_))) = (sequence.origin, &sequence.end)
            {
                let ids = &sequence.ids[..sequence.slab.len()];
                self.caches.insert(&sequence.owner, origin, ids, sequence.slab.pages(), None);
            }
            self.stats.finished += 1;
            self.answers.extend(sequence.into_answer());
        }
    }

    fn report(&mut self) {
        let page_bytes = KvPool::page_bytes(&self.model);
        self.stats.running = self.running.len();
        self.stats.waiting = self.waiting.len() + self.scores.len();
        self.stats.kv_bytes = self.pool.live() as u64 * page_bytes;
        self.stats.retained_bytes = self.caches.len() as u64 * page_bytes;
        self.shared.write(&self.stats);
    }
}

/// Sets the threads for products of this many rows with matrices of at most `widest` elements. If every product has the
/// same number of rows, the number of threads is constant.
fn set_threads(threads: usize, forward: &Forward, rows: usize, widest: usize) {
    let Ok(threads @ 2..) = i32::try_from(threads) else { return };
    let operations = 2 * forward.rows_together(rows) * widest;
    tch::set_num_threads(if operations < WORTH_SHARING { 1 } else { threads });
}
