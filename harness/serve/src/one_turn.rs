//! What a judge says of one turn that is in no ledger: a simulated user's.
//!
//! Cancellation: as of the judge.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{AttemptId, CancelToken, Judge, JudgeRequest, JudgeSubject, Role, SlotId, TurnContext};

use super::judging::task;
use super::verdict::TurnVotes;

/// How long it is waited for.
const TIMEOUT: Duration = Duration::from_secs(60);

/// One vote about a reply by what followed it, and one about what should have been known before.
pub async fn asked_of(judge: &Arc<dyn Judge>, reply: &str, next: &(Role, String)) -> TurnVotes {
    let task = Arc::new(task(""));
    let seen = TurnContext { before: "", reply, next: Some((next.0, &next.1)) };
    let cancel = CancelToken::new();
    let question = |subject| JudgeRequest {
        attempt: AttemptId { slot: SlotId(0), number: 0 },
        task: &task,
        subject,
        votes: 1,
        seed: 0,
        deadline: Instant::now() + TIMEOUT,
        cancel: &cancel,
    };
    let (of_turn, of_hint) = tokio::join!(
        judge.ask(question(JudgeSubject::Turn(seen))),
        judge.ask(question(JudgeSubject::Hint(seen)))
    );
    TurnVotes::of(&of_turn, &of_hint)
}
