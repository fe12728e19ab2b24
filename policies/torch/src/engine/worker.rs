//! What the engine's thread does, step by step.
//!
//! Order within a turn of the loop: messages (requests, weights), cancelled sequences go, waiting requests come in,
//! one step, counters, answers. Requests come in first come, first served; one whose prompt is just being computed by
//! another is passed over until it can be shared.
//!
//! Errors: what libtorch refuses ends the engine.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::audited::GemmRows;
use super::config::{EngineConfig, EngineObserver, EngineWork};
use super::forward::{Forward, Row};
use super::kv::{KvPool, Slab, pages_needed};
use super::prefix::{Match, PrefixCache, common};
use super::request::{EngineError, GenerateRequest, Generated};
use super::sampling::{Draw, Sampler};
use super::sequence::{Reply, Sequence};
use super::stats::{EngineStats, SharedStats};
use super::weights::Weights;
use crate::ModelConfig;
use crate::error::TorchError;

/// A request on its way.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) request: GenerateRequest,
    pub(super) reply: Reply,
    /// Its place in the queue, free again once it runs.
    pub(super) place: OwnedSemaphorePermit,
}

/// What is said to the engine.
#[derive(Debug)]
pub(super) enum Message {
    /// Asks for a continuation.
    Generate(Submission),
    /// Weights to use from the next step on.
    Publish {
        weights: Box<Weights>,
        /// Dropped when the message was taken.
        taken: Sender<()>,
        /// Hears when the weights are in use.
        applied: oneshot::Sender<()>,
    },
    /// The end.
    Stop,
    /// A defect, for tests of what follows one.
    #[cfg(test)]
    Panic,
}

/// Operations of a multiplication from which on other threads are worth waking: a thread does this many in about a
/// quarter of a millisecond.
const WORTH_SHARING: usize = 1 << 24;

/// The state of the engine's thread.
#[derive(Debug)]
pub(super) struct Worker {
    config: EngineConfig,
    model: ModelConfig,
    weights: Weights,
    forward: Forward,
    pool: Rc<KvPool>,
    cache: PrefixCache,
    messages: Receiver<Message>,
    waiting: VecDeque<Submission>,
    running: Vec<Sequence>,
    sampler: Sampler,
    answers: Vec<(Reply, Result<Generated, EngineError>)>,
    stats: EngineStats,
    shared: SharedStats,
    rows: Vec<Row>,
    picks: Vec<Pick>,
    draws: Vec<Option<Draw>>,
}

/// A sequence to draw a token for.
#[derive(Debug, Clone, Copy)]
struct Pick {
    sequence: usize,
    /// Row of this step whose hidden state it is drawn from; `None` when the sequence brings it along.
    row: Option<usize>,
}

/// Whether a waiting request can run now.
enum Admission {
    Now(Slab, Option<Rc<[f32]>>),
    /// Another one computes its prompt.
    Shared,
    /// There is no memory.
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
        let worker = Self {
            forward: Forward::new(&model, rows, config.max_batch, gemm_rows)?,
            pool: KvPool::new(&model, config.kv_budget_bytes),
            cache: PrefixCache::new(weights.version),
            messages,
            waiting: VecDeque::new(),
            running: Vec::new(),
            sampler: Sampler::default(),
            answers: Vec::new(),
            stats: EngineStats { version: weights.version, ..EngineStats::default() },
            shared,
            rows: Vec::with_capacity(rows),
            picks: Vec::new(),
            draws: Vec::new(),
            config,
            model,
            weights,
        };
        worker.shared.write(&worker.stats);
        Ok(worker)
    }

    /// Runs until it is told to stop.
    pub(super) fn run(&mut self) -> Result<(), TorchError> {
        while self.take_messages() {
            self.drop_cancelled();
            self.admit();
            if !self.running.is_empty() {
                let (start, prompt_rows) = (Instant::now(), self.stats.prompt_rows);
                self.step()?;
                let took = start.elapsed();
                self.stats.busy += took;
                let has_prompt = self.stats.prompt_rows > prompt_rows;
                self.tell(if has_prompt { EngineWork::Prefill } else { EngineWork::Decode }, took);
            }
            self.report();
            for (reply, answer) in self.answers.drain(..) {
                // The caller may have gone away; then nobody wants the answer.
                let _ = reply.send(answer);
            }
        }
        Ok(())
    }

    /// Takes what has come, and waits for something where there is nothing to do. False at the end.
    fn take_messages(&mut self) -> bool {
        if self.running.is_empty() && self.waiting.is_empty() {
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
            Message::Publish { weights, taken, applied } => {
                drop(taken);
                self.swap(*weights);
                // Whoever published may not want to know.
                let _ = applied.send(());
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

    fn swap(&mut self, weights: Weights) {
        let start = Instant::now();
        let version = weights.version;
        self.weights = weights;
        self.cache.restart(version);
        for sequence in &mut self.running {
            sequence.origin = (sequence.slab.len() == 0).then_some(version);
        }
        self.stats.swaps += 1;
        self.stats.version = version;
        self.shared.write(&self.stats);
        self.tell(EngineWork::Swap, start.elapsed());
    }

    fn drop_cancelled(&mut self) {
        let before = self.running.len() + self.waiting.len();
        self.running.retain(|sequence| !sequence.reply.is_closed());
        self.waiting.retain(|submission| !submission.reply.is_closed());
        self.stats.cancelled += (before - self.running.len() - self.waiting.len()) as u64;
    }

    fn admit(&mut self) {
        let mut index = 0;
        while self.running.len() < self.config.max_batch && index < self.waiting.len() {
            let prompt = Arc::clone(&self.waiting[index].request.prompt);
            let most_tokens = self.waiting[index].request.most_tokens(&self.model);
            match self.admission(&prompt, most_tokens) {
                Admission::Shared => index += 1,
                Admission::NoRoom => break,
                Admission::Now(slab, hidden) => {
                    let Some(submission) = self.waiting.remove(index) else { break };
                    drop(submission.place);
                    self.stats.reused_prompt_rows += slab.len() as u64;
                    let (request, reply) = (submission.request, submission.reply);
                    let origin = self.weights.version;
                    self.running.push(Sequence::new(request, most_tokens, reply, slab, hidden, origin));
                }
            }
        }
    }

    fn admission(&mut self, prompt: &[u32], most_tokens: usize) -> Admission {
        let version = self.weights.version;
        let shares = self.config.share_prefixes;
        let mut found = if shares { self.cache.find(version, prompt) } else { Match::default() };
        if shares && self.is_being_computed(prompt, found.len) {
            return Admission::Shared;
        }
        // The last token of a sequence is never computed.
        let positions = most_tokens - 1;
        loop {
            if let Some(reservation) = self.pool.reserve(pages_needed(positions, found.len, shares)) {
                return Admission::Now(Slab::new(found.pages, found.len, reservation), found.hidden);
            }
            if self.cache.evict() {
                continue;
            }
            if !self.running.is_empty() || found.pages.is_empty() {
                return Admission::NoRoom;
            }
            // What was found is all that is left in memory, and the sequence fits only without it.
            found = Match::default();
        }
    }

    /// Whether a running sequence computes at least half of the rows that this prompt still needs.
    fn is_being_computed(&self, prompt: &[u32], found: usize) -> bool {
        let needed = prompt.len() - found;
        needed > 1
            && self.running.iter().any(|other| {
                other.in_prompt() && other.origin == Some(self.weights.version) && {
                    let shared = common(&other.ids[..other.prompt_len], prompt);
                    2 * shared.saturating_sub(found) >= needed
                }
            })
    }

    /// Sets the threads for products of this many rows with matrices of at most `widest` elements. Where every product
    /// has the same number of rows, they are always the same.
    fn set_threads(&self, rows: usize, widest: usize) {
        let Ok(threads @ 2..) = i32::try_from(self.config.threads) else { return };
        let operations = 2 * self.forward.rows_together(rows) * widest;
        tch::set_num_threads(if operations < WORTH_SHARING { 1 } else { threads });
    }

    fn step(&mut self) -> Result<(), TorchError> {
        self.plan();
        let hidden = self.model.hidden_size as usize;
        self.set_threads(self.rows.len(), 2 * hidden * self.model.intermediate_size as usize);
        let mut slabs: Vec<&mut Slab> = self.running.iter_mut().map(|sequence| &mut sequence.slab).collect();
        self.forward.run(&self.weights, &self.rows, &mut slabs)?;
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
                        self.cache.insert(origin, &sequence.ids, sequence.slab.pages(), hidden);
                    }
                }
            }
        }
        self.draws.clear();
        self.set_threads(self.picks.len(), hidden * self.model.vocab_size as usize);
        self.forward.logits(&self.weights, self.picks.len(), |place, logits| {
            let sequence = &self.running[self.picks[place].sequence];
            let position = sequence.ids.len() as u64;
            self.draws.push(self.sampler.draw(logits, &sequence.sampling, position));
        })?;
        for (pick, &draw) in self.picks.iter().zip(&self.draws) {
            self.running[pick.sequence].push(draw, self.weights.version);
            self.stats.sampled_tokens += u64::from(draw.is_some());
        }
        self.stats.steps += 1;
        self.finish();
        Ok(())
    }

    /// Chooses the rows of a step and makes room for them.
    fn plan(&mut self) {
        self.rows.clear();
        self.picks.clear();
        let mut prompt_rows = self.config.max_prefill_rows;
        for (index, sequence) in self.running.iter_mut().enumerate() {
            let (pending, start) = (sequence.pending(), sequence.slab.len());
            // A single row is never put off: it is as much as any running sequence gets.
            let count = if pending == 1 { 1 } else { pending.min(prompt_rows) };
            if pending > 1 {
                prompt_rows -= count;
            }
            if start < sequence.prompt_len {
                self.stats.prompt_rows += count as u64;
            }
            sequence.slab.grow(count);
            let ids = sequence.ids[start..start + count].iter();
            self.rows.extend(ids.zip(start..).map(|(&id, position)| Row { slab: index, position, id }));
            if count == pending {
                let row = (count > 0).then(|| self.rows.len() - 1);
                self.picks.push(Pick { sequence: index, row });
            }
        }
    }

    /// Sequences that came to their end leave; what they computed stays for a prompt that goes on from there.
    fn finish(&mut self) {
        for sequence in self.running.extract_if(.., |sequence| sequence.end.is_some()) {
            if self.config.share_prefixes
                && let (Some(origin), Some(Ok(_))) = (sequence.origin, &sequence.end)
            {
                let ids = &sequence.ids[..sequence.slab.len()];
                self.cache.insert(origin, ids, sequence.slab.pages(), None);
            }
            self.stats.finished += 1;
            self.answers.extend(sequence.into_answer());
        }
    }

    fn report(&mut self) {
        let page_bytes = KvPool::page_bytes(&self.model);
        self.stats.running = self.running.len();
        self.stats.waiting = self.waiting.len();
        self.stats.kv_bytes = self.pool.live() as u64 * page_bytes;
        self.stats.retained_bytes = self.cache.len() as u64 * page_bytes;
        self.shared.write(&self.stats);
    }
}
