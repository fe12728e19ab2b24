//! State of one attempt: its program's requests and its model's usage.
//!
//! I1. One request of the program is open at a time; others wait. I2. Answers of the model are counted before they are requested.
//! I3. The model's original texts are found by their calls until the end of the attempt.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawrl_core::{Action, AttemptId, CancelToken, Fault, Message, TaskView, ToolCall, Usage};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::env_server::{Asked, Refusal, Request, answer, read};

/// Requests that wait behind the open one. Programs should make one at a time; this is for programs that do not.
pub(super) const WAITING: usize = 1;

/// A request of the program, and where its answer goes.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) id: Value,
    pub(super) request: Request,
    pub(super) answer: oneshot::Sender<Value>,
}

/// Shared by the policy, the program's pipes and the endpoint.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) attempt: AttemptId,
    /// The task as shown to the model, with its call format.
    pub(super) task: TaskView,
    /// Seed of all requests to the model, because these have no turns.
    pub(super) seed: u64,
    /// Maximum answers of the model.
    pub(super) most_calls: u32,
    /// Fires when the attempt is over.
    pub(super) over: CancelToken,
    /// Fires at a `cassette-miss` (A5).
    pub(super) missed: CancelToken,
    visits: mpsc::Sender<Visit>,
    ledger: Mutex<Ledger>,
}

/// Results of the model.
#[derive(Debug, Default)]
struct Ledger {
    calls: u32,
    /// Usage since the last action.
    taken: Option<Usage>,
    /// The last fault.
    fault: Option<Fault>,
    /// Answers by the id of their first call. Equal requests have equal ids, but may have different answers.
    written: HashMap<String, Vec<Written>>,
}

/// An answer with calls: the model's text, and the message sent to the program.
#[derive(Debug)]
struct Written {
    whole: String,
    text: String,
    calls: Vec<ToolCall>,
}

impl Session {
    pub(super) fn new(
        attempt: AttemptId,
        task: TaskView,
        seed: u64,
        most_calls: u32,
    ) -> (Arc<Self>, mpsc::Receiver<Visit>) {
        let (visits, heard) = mpsc::channel(WAITING);
        let (over, missed, ledger) = (CancelToken::new(), CancelToken::new(), Mutex::default());
        (Arc::new(Self { attempt, task, seed, most_calls, over, missed, visits, ledger }), heard)
    }

    /// Passes on a line of the program and waits for the answer.
    pub(super) async fn ask(&self, line: &[u8]) -> Value {
        let Asked { id, request } = match read(line) {
            Ok(asked) => asked,
            Err((id, refusal)) => return answer(id, Err(refusal.into())),
        };
        let is_close = request == Request::Close;
        let (sender, receiver) = oneshot::channel();
        let visit = Visit { id: id.clone(), request, answer: sender };
        if self.visits.send(visit).await.is_ok()
            && let Ok(answer) = receiver.await
        {
            return answer;
        }
        if is_close {
            // The attempt is already closed.
            return answer(id, Ok(crate::env_server::closed(&[])));
        }
        answer(id, Err(Refusal::out_of_order("the attempt is over; the program can end").into()))
    }

    /// Counts one more answer of the model (I2); false at the limit.
    pub(super) fn admit(&self) -> bool {
        let mut ledger = self.ledger();
        let admitted = ledger.calls < self.most_calls;
        ledger.calls += u32::from(admitted);
        admitted
    }

    /// Notes an answer of the model with its usage, and clears an earlier fault.
    pub(super) fn took(&self, usage: Option<Usage>) {
        let mut ledger = self.ledger();
        if !self.missed.is_cancelled() {
            ledger.fault = None;
        }
        let Some(usage) = usage else { return };
        match &mut ledger.taken {
            Some(taken) => taken.merge(&usage),
            None => ledger.taken = Some(usage),
        }
    }

    /// Notes an answer that was written as `whole`, if it has calls (I3).
    pub(super) fn remember(&self, whole: String, said: &Action) {
        if let Some(first) = said.tool_calls.first() {
            let written = Written { whole, text: said.text.clone(), calls: said.tool_calls.clone() };
            self.ledger().written.entry(first.id.clone()).or_default().push(written);
        }
    }

    /// The model's original text, if this message is an unchanged answer of it.
    pub(super) fn recall(&self, message: &Message) -> Option<String> {
        let ledger = self.ledger();
        let text = message.joined_text();
        let mut written = ledger.written.get(&message.tool_calls.first()?.id)?.iter();
        let it = written.find(|written| written.calls == message.tool_calls && written.text == text)?;
        Some(it.whole.clone())
    }

    /// Notes why the model did not answer.
    pub(super) fn broke(&self, fault: Fault) {
        let is_miss = fault.code == "cassette-miss";
        let mut ledger = self.ledger();
        // A cassette miss is kept; later faults do not replace it.
        if !self.missed.is_cancelled() {
            ledger.fault = Some(fault);
        }
        drop(ledger);
        if is_miss {
            self.missed.cancel();
        }
    }

    /// Takes the model's usage since the last call (A4).
    pub(super) fn taken(&self) -> Option<Usage> {
        self.ledger().taken.take()
    }

    /// The fault of the last request to the model, if it failed.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.ledger().fault.clone()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // The data are sums: a panic can lose at most one addend.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::{Role, SlotId};
    use clawrl_testkit::task;
    use serde_json::json;

    use super::*;

    #[test]
    fn i3_what_the_model_wrote_is_known_by_its_calls() {
        let attempt = AttemptId { slot: SlotId(0), number: 0 };
        let (session, _visits) = Session::new(attempt, task("a").view(), 1, 9);
        let call = |id: &str, path: &str| ToolCall {
            id: id.to_owned(),
            ..ToolCall::new("read", json!({ "path": path }))
        };
        let said = |text: &str, calls: &[ToolCall]| Action {
            text: text.to_owned(),
            tool_calls: calls.to_vec(),
            ..Action::default()
        };
        session
            .remember("Look:  <tool_call>{..}".to_owned(), &said("Look:", &[call("1", "a"), call("2", "b")]));
        session.remember("<tool_call> {..}".to_owned(), &said("", &[call("1", "c")]));
        session.remember("It is 4.".to_owned(), &said("It is 4.", &[]));
        let check = |text: &str, calls: &[ToolCall], expected: Option<&str>| {
            let message = Message { tool_calls: calls.to_vec(), ..Message::text(Role::Assistant, text) };
            assert_eq!(session.recall(&message).as_deref(), expected, "{message:?}");
        };
        check("Look:", &[call("1", "a"), call("2", "b")], Some("Look:  <tool_call>{..}"));
        check("", &[call("1", "c")], Some("<tool_call> {..}"));
        // A message that the program edited is not the model's.
        check("See:", &[call("1", "a"), call("2", "b")], None);
        check("Look:", &[call("1", "a")], None);
        check("Look:", &[call("2", "b")], None);
        check("", &[call("1", "d")], None);
        check("It is 4.", &[], None);
    }
}
