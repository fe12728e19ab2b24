//! Plays a cassette.
//!
//! I1. A request without a recording is a permanent fault that explains the difference. I2. Played replies and misses
//! are counted, and reported at the end of a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clawrl_core::{Action, AttemptId, Boundary, BoxFuture, Fault, Policy, PolicyRequest};

use crate::cassette::{Cassette, Key};
use crate::difference::difference;
use crate::model_request::{Pieces, Show};
use crate::repeats::Repeats;

/// Usage note of a played reply: its usage is that of the recording.
const NOTE: &str = "from-cassette";

/// Answers with recorded replies only.
pub struct CassettePolicy {
    cassette: Cassette,
    show: Show,
    repeats: Repeats,
    /// By position in the cassette.
    played: Vec<AtomicBool>,
    misses: Mutex<Misses>,
}

/// Requests without a recording.
#[derive(Default)]
struct Misses {
    count: u64,
    /// Message of the first miss.
    first: Option<String>,
}

impl CassettePolicy {
    /// `show` gives the request that the recorded policy would send to its model.
    #[must_use]
    pub fn new(cassette: Cassette, show: Show) -> Self {
        let played = (0..cassette.len()).map(|_| AtomicBool::new(false)).collect();
        Self { cassette, show, repeats: Repeats::default(), played, misses: Mutex::default() }
    }

    fn play(&self, request: &PolicyRequest<'_>) -> Result<Action, Fault> {
        let pieces = Pieces::from((self.show)(request));
        let asked = pieces.hash();
        let repeat = self.repeats.before(request.attempt, asked, request.seed);
        let key = Key { asked, seed: request.seed, repeat };
        let Some(place) = self.cassette.find(&key) else { return Err(self.miss(request, &key, &pieces)) };
        self.played[place].store(true, Ordering::Relaxed);
        let mut said = self.cassette.replies()[place].said.clone();
        if let Some(usage) = &mut said.usage {
            usage.notes.push(NOTE.to_owned());
        }
        Ok(said)
    }

    fn miss(&self, request: &PolicyRequest<'_>, key: &Key, pieces: &Pieces) -> Fault {
        let task = &request.task.id;
        let why = difference(&self.cassette.comparable(task, key.seed), task, key, pieces);
        let turn = u64::from(request.turn) + 1;
        let message = format!("no recorded reply for turn {turn} of task {}: {why}", request.task.id);
        let mut misses = self.misses();
        misses.count += 1;
        misses.first.get_or_insert_with(|| message.clone());
        Fault::permanent(Boundary::Policy, "cassette-miss", message)
    }

    fn misses(&self) -> MutexGuard<'_, Misses> {
        // A panic leaves the count and the text consistent.
        self.misses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy for CassettePolicy {
    fn name(&self) -> &str {
        "cassette"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        Box::pin(std::future::ready(self.play(&request)))
    }

    fn attempt_ended(&self, attempt: AttemptId) {
        self.repeats.forget(attempt);
    }

    fn closing_notes(&self) -> Vec<String> {
        let all = self.cassette.len();
        let played = self.played.iter().filter(|played| played.load(Ordering::Relaxed)).count();
        let mut notes =
            vec![format!("{played} of {all} recorded replies were played, {} unused", all - played)];
        let misses = self.misses();
        if let Some(first) = &misses.first {
            let count = misses.count;
            notes.push(format!(
                "{count} requests had no recorded reply, and no model was called; the first: {first}"
            ));
        }
        notes
    }
}
