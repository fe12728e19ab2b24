//! A cassette in memory.
//!
//! I1. No two replies are filed under the same key. I2. Replies have a fixed order, regardless of the order of insertion:
//! by task,
//! seed, turn, request and repeat.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use clawrl_core::{Action, Message, PolicySpec, RunId, TaskId, ToolSpec};
use serde_json::Value;

use crate::canonical::Hash;
use crate::model_request::{ModelRequest, Piece, Pieces};

/// Origin of the replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The program that wrote the cassette, with its version.
    pub program: String,
    /// The run in which the replies were given.
    pub run: RunId,
    /// The recorded policy. With names of variables, never their values.
    pub policy: PolicySpec,
    /// Variables whose values were redacted in the recording.
    pub redacted: Vec<String>,
}

/// Key of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Hash of the request.
    pub(crate) asked: Hash,
    /// Seed of the request: it distinguishes equal requests of several attempts, and is a function of the plan's seed.
    pub(crate) seed: u64,
    /// Number of earlier equal requests, with the same seed, by this attempt.
    pub(crate) repeat: u32,
}

/// A recorded reply.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(crate) key: Key,
    pub(crate) task: TaskId,
    pub(crate) turn: u32,
    pub(crate) pieces: Pieces,
    pub(crate) said: Action,
}

impl Reply {
    /// `repeat`: how many times the attempt had made the same request, with the same seed, before.
    #[must_use]
    pub fn new(task: TaskId, turn: u32, seed: u64, repeat: u32, asked: ModelRequest, said: Action) -> Self {
        Self::of_pieces(task, turn, seed, repeat, asked.into(), said)
    }

    pub(crate) fn of_pieces(
        task: TaskId,
        turn: u32,
        seed: u64,
        repeat: u32,
        pieces: Pieces,
        said: Action,
    ) -> Self {
        Self { key: Key { asked: pieces.hash(), seed, repeat }, task, turn, pieces, said }
    }
}

/// The replies of a run. Messages and tools that requests share are held once.
#[derive(Debug)]
pub struct Cassette {
    origin: Origin,
    replies: Vec<Reply>,
    by_key: HashMap<Key, usize>,
    /// A run has one attempt for a seed, so these are few.
    by_seed: HashMap<u64, Vec<usize>>,
}

impl Cassette {
    /// Builds a cassette from replies in any order. Of several replies with one key the first counts; the flag tells whether there were any.
    #[must_use]
    pub fn new(origin: Origin, replies: impl IntoIterator<Item = Reply>) -> (Self, bool) {
        let mut shared = Shared::default();
        let mut replies: Vec<Reply> = replies.into_iter().map(|reply| shared.share(reply)).collect();
        let place = |reply: &Reply| (reply.task.clone(), reply.key.seed, reply.turn, reply.key);
        replies.sort_by_cached_key(place);
        let all = replies.len();
        let mut by_key = HashMap::with_capacity(replies.len());
        let mut kept = Vec::with_capacity(replies.len());
        for reply in replies {
            if let Entry::Vacant(vacant) = by_key.entry(reply.key) {
                vacant.insert(kept.len());
                kept.push(reply);
            }
        }
        let doubled = kept.len() < all;
        let mut by_seed: HashMap<u64, Vec<usize>> = HashMap::new();
        for (place, reply) in kept.iter().enumerate() {
            by_seed.entry(reply.key.seed).or_default().push(place);
        }
        (Self { origin, replies: kept, by_key, by_seed }, doubled)
    }

    /// Origin of the replies.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Number of replies.
    #[must_use]
    pub fn len(&self) -> usize {
        self.replies.len()
    }

    /// Whether there are no replies.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
    }

    /// The tasks with the number of their replies, in order.
    #[must_use]
    pub fn tasks(&self) -> Vec<(&TaskId, usize)> {
        let alike = self.replies.chunk_by(|one, other| one.task == other.task);
        alike.filter_map(|replies| replies.first().map(|first| (&first.task, replies.len()))).collect()
    }

    pub(crate) fn replies(&self) -> &[Reply] {
        &self.replies
    }

    /// Replies to compare a request with that has none: those of its seed, else those of its task, else all.
    pub(crate) fn comparable(&self, task: &TaskId, seed: u64) -> Vec<&Reply> {
        if let Some(places) = self.by_seed.get(&seed) {
            return places.iter().map(|&place| &self.replies[place]).collect();
        }
        let from = self.replies.partition_point(|reply| reply.task < *task);
        let of_task = self.replies[from..].iter().take_while(|reply| reply.task == *task);
        let of_task: Vec<&Reply> = of_task.collect();
        if of_task.is_empty() { self.replies.iter().collect() } else { of_task }
    }

    pub(crate) fn find(&self, key: &Key) -> Option<usize> {
        self.by_key.get(key).copied()
    }
}

/// One shared copy of each piece.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    settings: HashMap<Hash, Arc<Value>>,
    messages: HashMap<Hash, Arc<Message>>,
    tools: HashMap<Hash, Arc<ToolSpec>>,
}

impl Shared {
    pub(crate) fn share(&mut self, mut reply: Reply) -> Reply {
        let Pieces { settings, messages, tools } = &mut reply.pieces;
        one_of(&mut self.settings, settings);
        messages.iter_mut().for_each(|message| one_of(&mut self.messages, message));
        tools.iter_mut().for_each(|tool| one_of(&mut self.tools, tool));
        reply
    }
}

fn one_of<T>(known: &mut HashMap<Hash, Arc<T>>, piece: &mut Piece<T>) {
    let shared = known.entry(piece.hash).or_insert_with(|| Arc::clone(&piece.value));
    piece.value = Arc::clone(shared);
}
