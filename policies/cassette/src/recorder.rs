//! Records the replies of a policy.
//!
//! I1. A reply is recorded with its request when it is returned; a fault is not. I2. Of several attempts at a slot the last
//! counts, regardless of the order in which they run: earlier ones faulted, and later ones make the same requests. I3. A
//! reply that contains a secret is not recorded, because it would be played without it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawrl_core::{Action, AttemptId, BoxFuture, Fault, Policy, PolicyRequest, SlotId};

use crate::cassette::{Cassette, Origin, Reply, Shared};
use crate::model_request::{Pieces, Show};
use crate::repeats::Repeats;

/// Whether a reply may be stored unchanged.
type MayKeep = Box<dyn Fn(&Action) -> bool + Send + Sync>;

/// Collects the replies of a run, in memory.
pub struct Recorder {
    may_keep: MayKeep,
    writer: Mutex<CassetteWriter>,
}

#[derive(Default)]
struct CassetteWriter {
    slots: BTreeMap<SlotId, Attempt>,
    shared: Shared,
    withheld: u64,
}

/// The latest attempt at a slot.
#[derive(Default)]
struct Attempt {
    number: u32,
    replies: Vec<Reply>,
}

impl Recorder {
    /// `may_keep` says whether a reply is free of secrets (I3).
    #[must_use]
    pub fn new(may_keep: impl Fn(&Action) -> bool + Send + Sync + 'static) -> Self {
        Self { may_keep: Box::new(may_keep), writer: Mutex::default() }
    }

    /// The replies recorded so far, and the number of replies that were omitted because they contain secrets.
    #[must_use]
    pub fn cassette(&self, origin: Origin) -> (Cassette, u64) {
        let writer = self.writer();
        let replies = writer.slots.values().flat_map(|attempt| attempt.replies.iter().cloned());
        (Cassette::new(origin, replies).0, writer.withheld)
    }

    fn keep(&self, attempt: AttemptId, reply: Reply) {
        let may_keep = (self.may_keep)(&reply.said);
        let mut writer = self.writer();
        let CassetteWriter { slots, shared, withheld } = &mut *writer;
        let latest = slots.entry(attempt.slot).or_default();
        if attempt.number < latest.number {
            return;
        }
        if attempt.number > latest.number {
            *latest = Attempt { number: attempt.number, replies: Vec::new() };
        }
        if may_keep {
            latest.replies.push(shared.share(reply));
        } else {
            *withheld += 1;
        }
    }

    fn writer(&self) -> MutexGuard<'_, CassetteWriter> {
        // After a panic at worst one reply is missing.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A policy that records its replies.
pub struct RecordingPolicy {
    policy: Arc<dyn Policy>,
    show: Show,
    repeats: Repeats,
    recorder: Arc<Recorder>,
}

impl RecordingPolicy {
    /// `show` gives the request that the policy sends to its model.
    #[must_use]
    pub fn new(policy: Arc<dyn Policy>, show: Show, recorder: Arc<Recorder>) -> Self {
        Self { policy, show, repeats: Repeats::default(), recorder }
    }

    async fn reply(&self, request: PolicyRequest<'_>) -> Result<Action, Fault> {
        let pieces = Pieces::from((self.show)(&request));
        let (attempt, turn, seed) = (request.attempt, request.turn, request.seed);
        let task = request.task.id.clone();
        let said = self.policy.act(request).await?;
        // A dropped or faulted request is not recorded.
        let repeat = self.repeats.before(attempt, pieces.hash(), seed);
        self.recorder.keep(attempt, Reply::of_pieces(task, turn, seed, repeat, pieces, said.clone()));
        Ok(said)
    }
}

impl Policy for RecordingPolicy {
    fn name(&self) -> &str {
        self.policy.name()
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        Box::pin(self.reply(request))
    }

    fn attempt_ended(&self, attempt: AttemptId) {
        self.repeats.forget(attempt);
        self.policy.attempt_ended(attempt);
    }

    fn closing_notes(&self) -> Vec<String> {
        self.policy.closing_notes()
    }
}
