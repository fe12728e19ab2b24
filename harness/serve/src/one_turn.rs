//! Judges one turn that is not in a ledger, such as a simulated user's.
//!
//! Cancellation: as for the judge.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{AttemptId, CancelToken, Judge, JudgeRequest, JudgeSubject, Role, SlotId, TurnContext};

use super::judging::task;
use super::verdict::TurnVotes;

/// Time limit of the judge.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Asks for one vote about a reply, given the message that followed, and for one about a hint.
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
