//! A judge that is not called for a while after it stopped replying.
//!
//! P1. The number of open requests is limited; a request that waits for a permit gives up at its deadline. P2. If a
//! request used up its time and the judge replied to no other request in the meantime, it is not called
//! for [`PAUSE`] times as long: requests return at once, with all votes missing. Then it is called again. So an
//! unreachable judge costs at most a tenth of the time, and one that recovers is used again.
//!
//! An invalid reply counts as a reply: such a judge is reachable.
//!
//! Cancellation: dropping the future of a request returns its permit and drops its votes.

use std::sync::{Arc, Mutex, PoisonError};

use clawrl_core::{Boundary, BoxFuture, Fault, Judge, JudgeRequest, JudgeResponse};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::model::BABBLE;

/// Length of the pause, as a multiple of the request's own time.
pub const PAUSE: u32 = 10;

/// Asks another judge.
pub struct PausingJudge {
    judge: Arc<dyn Judge>,
    places: Semaphore,
    hearing: Mutex<Hearing>,
}

#[derive(Debug, Default)]
struct Hearing {
    /// When the last reply came.
    heard: Option<Instant>,
    /// The judge is not called before this time.
    silent_until: Option<Instant>,
}

impl PausingJudge {
    /// The judge, with so many questions under way at once.
    #[must_use]
    pub fn new(judge: Arc<dyn Judge>, questions: u32) -> Self {
        Self { judge, places: Semaphore::new(questions.max(1) as usize), hearing: Mutex::default() }
    }

    fn is_silent(&self) -> bool {
        let hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        hearing.silent_until.is_some_and(|until| Instant::now() < until)
    }

    /// Updates the state from the response to a request with this start and deadline.
    fn hear(&self, response: &JudgeResponse, asked: Instant, deadline: Instant) {
        let mut hearing = self.hearing.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if !response.votes.is_empty() || response.missing.iter().any(|fault| fault.code == BABBLE) {
            *hearing = Hearing { heard: Some(now), silent_until: None };
        } else if hearing.heard.is_none_or(|heard| heard < asked) {
            let pause = deadline.saturating_duration_since(asked) * PAUSE;
            if hearing.silent_until.is_none_or(|until| until <= now) {
                let secs = pause.as_secs();
                tracing::warn!("the judge does not reply: turns stay unjudged for {secs} s");
            }
            hearing.silent_until = Some(now + pause);
        }
    }
}

impl Judge for PausingJudge {
    fn ask<'a>(&'a self, question: JudgeRequest<'a>) -> BoxFuture<'a, JudgeResponse> {
        Box::pin(async move {
            let votes = question.votes;
            let missing = |code: &str, message: &str| {
                let fault = Fault::transient(Boundary::Policy, code, message);
                JudgeResponse { missing: vec![fault; votes as usize], ..JudgeResponse::default() }
            };
            let left_alone = || missing("judge-left-alone", "the judge did not reply recently");
            let (asked, deadline) = (Instant::now(), Instant::from_std(question.deadline));
            if self.is_silent() {
                return left_alone();
            }
            // The semaphore is never closed, so an error is the time that is up.
            let Ok(Ok(_place)) = timeout_at(deadline, self.places.acquire()).await else {
                return missing(
                    "no-place",
                    "too many judge requests were open; raise `concurrency` of `judging`",
                );
            };
            // The judge may have stopped replying while this request waited.
            if self.is_silent() {
                return left_alone();
            }
            let response = self.judge.ask(question).await;
            self.hear(&response, asked, deadline);
            response
        })
    }
}
