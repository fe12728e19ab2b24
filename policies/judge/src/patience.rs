//! A judge that is not waited for when nothing is heard of it.
//!
//! P1. No more questions are under way than there are places; whoever waits for one is out by its deadline. P2. Where a
//! question had its time and nothing at all was heard of the judge in the meantime, on this or another question, it is left
//! alone for [`PAUSE`] times as long: questions come back at once, with every vote missing. Then it is asked again. So one
//! that is gone costs whoever waits a tenth of the time at most, and one that comes back is heard again.
//!
//! A reply that says nothing was heard, too: a judge that babbles is there.
//!
//! Cancellation: dropping the future of a question gives its place back and drops its votes.

use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{Ballot, Boundary, BoxFuture, Fault, Judge, Question};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::model::BABBLE;

/// How much longer than a question's own time a judge is left alone.
pub const PAUSE: u32 = 10;

/// Asks another judge.
pub struct PatientJudge {
    judge: Arc<dyn Judge>,
    places: Semaphore,
    hearing: Mutex<Hearing>,
}

#[derive(Debug, Default)]
struct Hearing {
    /// When the last reply came.
    heard: Option<Instant>,
    /// Nobody is asked before.
    silent_until: Option<Instant>,
}

impl PatientJudge {
    /// The judge, with so many questions under way at once.
    #[must_use]
    pub fn new(judge: Arc<dyn Judge>, questions: u32) -> Self {
        Self { judge, places: Semaphore::new(questions.max(1) as usize), hearing: Mutex::default() }
    }

    fn is_silent(&self) -> bool {
        let hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        hearing.silent_until.is_some_and(|until| Instant::now() < until)
    }

    /// Takes in what came of a question that was put at a time and had to be answered by another.
    fn hear(&self, ballot: &Ballot, asked: Instant, deadline: Instant) {
        let mut hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if !ballot.votes.is_empty() || ballot.missing.iter().any(|fault| fault.code == BABBLE) {
            *hearing = Hearing { heard: Some(now), silent_until: None };
        } else if hearing.heard.is_none_or(|heard| heard < asked) {
            let pause = deadline.saturating_duration_since(asked) * PAUSE;
            if hearing.silent_until.is_none_or(|until| until <= now) {
                let secs = pause.as_secs();
                tracing::warn!(
                    "nothing is heard of the judge: turns stay unjudged, and it is asked again in {secs} s"
                );
            }
            hearing.silent_until = Some(now + pause);
        }
    }
}

impl Judge for PatientJudge {
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Ballot> {
        Box::pin(async move {
            let votes = question.votes;
            let missing = |code: &str, message: &str| {
                let fault = Fault::transient(Boundary::Policy, code, message);
                Ballot { missing: vec![fault; votes as usize], ..Ballot::default() }
            };
            let left_alone = || missing("judge-left-alone", "nothing was heard of the judge lately");
            let (asked, deadline) = (Instant::now(), Instant::from_std(question.deadline));
            if self.is_silent() {
                return left_alone();
            }
            // The semaphore is never closed, so an error is the time that is up.
            let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else {
                return missing(
                    "no-place",
                    "too many questions were under way; raise `concurrency` of `judging`",
                );
            };
            // It may have been found silent by whoever had the place.
            if self.is_silent() {
                return left_alone();
            }
            let ballot = self.judge.ask(question).await;
            self.hear(&ballot, asked, deadline);
            ballot
        })
    }
}
