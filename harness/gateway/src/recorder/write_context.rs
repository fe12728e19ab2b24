//! Work of the recorder's thread in a transaction: linking, and writing what follows.
//!
//! I1. Linking learns only what the same transaction writes. If the transaction fails, linking is restored from the ledger. I2. An answer
//! to a request that linking does not know any more (its session was deleted) is recorded and linked to nothing.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, params};

use super::inputs::Admitted;
use super::ledger_event::{LedgerChange, LedgerEvent};
use crate::ledger::{
    self, ContentOwner, DeltaBases, EndedRequest, Linked, StoredAnswer, StoredBody, StoredFeedback,
    StoredPrompt, StoredRequest,
};
use crate::{Arrival, Event, FeedbackId, LinkError, RequestId, SessionId, SessionTracker, TurnId, UserId};
use crate::{Deleted, Deletion, EntityKind, LedgerError};

/// Numbers that are reserved at once: a crash may leave such a gap.
const RESERVED_NUMBERS: u64 = 1_000;

/// A cache of the ledger. It is cleared after a failed transaction.
#[derive(Debug, Default)]
pub(crate) struct LedgerCache {
    users: HashSet<UserId>,
    /// Requests without an answer. Not used after a deletion.
    waiting: HashMap<RequestId, EndedRequest>,
    bodies: DeltaBases<u8>,
    prompts: DeltaBases<u32>,
}

impl LedgerCache {
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// The cache may hold deleted data.
    fn forget_contents(&mut self) {
        self.waiting.clear();
        self.bodies.clear();
        self.prompts.clear();
    }
}

/// A transaction and its linking.
pub(crate) struct WriteContext<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) tracker: &'a mut SessionTracker,
    /// Number of the next request.
    pub(crate) next: u64,
    /// Numbers up to this one are reserved, so that none is reused after a crash.
    pub(crate) reserved: u64,
    /// Admitted requests that are not in the ledger.
    pub(crate) lost: &'a mut HashSet<RequestId>,
    pub(crate) cache: &'a mut LedgerCache,
    pub(crate) now_ms: i64,
    /// Notifications to send after the commit.
    pub(crate) live: Vec<LedgerEvent>,
    /// Whether linking depends on the commit.
    pub(crate) is_linked: bool,
    /// Whether deleted data must be removed from the file.
    pub(crate) erases: bool,
}

impl WriteContext<'_> {
    pub(crate) fn arrived(&mut self, stored: &StoredRequest) -> Result<Admitted, LedgerError> {
        let request = RequestId(self.next);
        let at = ledger::since_epoch(self.now_ms);
        self.is_linked = true;
        let StoredRequest { user, headers, request: body, .. } = stored;
        let events = self.tracker.arrived(&Arrival { request, user, headers, body, at }).map_err(unlinked)?;
        let linked = Linked::of(request, &events);
        let linked = linked.ok_or_else(|| LedgerError::Storage(format!("request {request} has no turn")))?;
        if !self.cache.users.contains(user) {
            ledger::add_user(self.connection, user, self.now_ms)?;
            self.cache.users.insert(user.clone());
        }
        ledger::add_request(self.connection, (request, &linked), stored, &events, self.now_ms)?;
        if let StoredBody::Long(body) = &stored.body {
            let owner = ContentOwner { user, session: linked.session, turn: linked.turn, request };
            self.cache.bodies.add(self.connection, owner, body.clone())?;
        }
        self.cache.waiting.insert(request, EndedRequest::of(stored, &linked));
        self.next += 1;
        if self.next > self.reserved {
            self.reserved = self.next + RESERVED_NUMBERS;
            ledger::reserve_numbers(self.connection, self.reserved)?;
        }
        self.notify(user, &events);
        let Linked { session, turn, kind, is_retry } = linked;
        Ok(Admitted { request, session, turn, kind, is_retry })
    }

    pub(crate) fn answered(&mut self, request: RequestId, stored: &StoredAnswer) -> Result<(), LedgerError> {
        self.check_not_lost(request)?;
        let ended = self.waiting(request)?;
        let replies: Vec<_> = stored.choices.iter().map(ledger::StoredChoice::reply).collect();
        let is_visible = replies.iter().any(crate::Reply::is_visible);
        // From here on, the job cannot be undone alone.
        self.is_linked = true;
        ledger::add_answer(self.connection, (request, &ended), stored, is_visible, self.now_ms)?;
        if let Some(StoredPrompt::Long(ids)) = stored.prompt.as_ref().filter(|_| ended.keeps_prompt()) {
            let owner = ContentOwner { user: &ended.user, session: ended.session, turn: ended.turn, request };
            self.cache.prompts.add(self.connection, owner, ids.clone())?;
        }
        let at = ledger::since_epoch(self.now_ms);
        let events = self.tracker.answered(request, &replies, at);
        self.ended((request, &ended), "answered", is_visible, events)
    }

    pub(crate) fn failed(&mut self, request: RequestId, why: &str) -> Result<(), LedgerError> {
        self.check_not_lost(request)?;
        let ended = self.waiting(request)?;
        ledger::fail_request(self.connection, request, why, self.now_ms)?;
        self.is_linked = true;
        let events = self.tracker.failed(request, ledger::since_epoch(self.now_ms));
        self.ended((request, &ended), "failed", false, events)
    }

    /// A request that ends now.
    fn waiting(&mut self, request: RequestId) -> Result<EndedRequest, LedgerError> {
        match self.cache.waiting.remove(&request) {
            Some(ended) => Ok(ended),
            None => ledger::waiting_request(self.connection, request),
        }
    }

    /// Each request ends once, so that a lost one can be forgotten.
    fn check_not_lost(&mut self, request: RequestId) -> Result<(), LedgerError> {
        if self.lost.remove(&request) { Err(LedgerError::Lost) } else { Ok(()) }
    }

    fn ended(
        &mut self,
        (request, ended): (RequestId, &EndedRequest),
        what: &str,
        is_visible: bool,
        events: Result<Vec<Event>, LinkError>,
    ) -> Result<(), LedgerError> {
        let EndedRequest { user, session, turn, .. } = ended;
        ledger::add_link_input(self.connection, *session, what, Some(request), self.now_ms)?;
        match events {
            Ok(events) => {
                ledger::add_events(self.connection, user, &events, self.now_ms)?;
                self.notify(user, &events);
            }
            Err(_) => {
                ledger::set_answered(self.connection, *turn, is_visible)?;
                let what = if is_visible { LedgerChange::Answered } else { LedgerChange::Unanswered };
                self.notify_of(user, Some(*session), Some(*turn), what);
            }
        }
        Ok(())
    }

    pub(crate) fn feedback(
        &mut self,
        user: &UserId,
        stored: &StoredFeedback,
    ) -> Result<FeedbackId, LedgerError> {
        let target = ledger::feedback_target(self.connection, user, stored)?;
        let id = ledger::add_feedback(self.connection, (user, target), stored, self.now_ms)?;
        self.notify_of(user, Some(target.session), Some(target.turn), LedgerChange::Feedback);
        Ok(id)
    }

    pub(crate) fn close_session(&mut self, user: &UserId, session: SessionId) -> Result<(), LedgerError> {
        let events = self.tracker.close(user, session);
        let events = events.map_err(|_| LedgerError::Unknown(EntityKind::Session))?;
        self.is_linked = true;
        ledger::add_link_input(self.connection, session, "close", None, self.now_ms)?;
        ledger::add_events(self.connection, user, &events, self.now_ms)?;
        self.notify(user, &events);
        Ok(())
    }

    pub(crate) fn expire(&mut self) -> Result<usize, LedgerError> {
        let events = self.tracker.expire(ledger::since_epoch(self.now_ms));
        self.is_linked |= !events.is_empty();
        for event in &events {
            let user = ledger::session_owner(self.connection, event.session())?;
            ledger::add_events(self.connection, &user, std::slice::from_ref(event), self.now_ms)?;
            self.notify(&user, std::slice::from_ref(event));
        }
        Ok(events.len())
    }

    pub(crate) fn set_consent(&mut self, user: &UserId, shares: bool) -> Result<(), LedgerError> {
        ledger::add_user(self.connection, user, self.now_ms)?;
        let sql = "UPDATE users SET shares = ?2, shares_ms = ?3 WHERE id = ?1";
        self.connection.prepare_cached(sql)?.execute(params![user.0, shares, self.now_ms])?;
        self.notify_of(user, None, None, LedgerChange::Consent);
        Ok(())
    }

    pub(crate) fn delete(&mut self, user: &UserId, what: Deletion) -> Result<Deleted, LedgerError> {
        let (deleted, closed) = ledger::delete(self.connection, user, what, self.now_ms)?;
        for session in closed {
            self.is_linked = true;
            self.tracker.forget(session);
            self.notify_of(user, Some(session), None, LedgerChange::SessionClosed);
        }
        self.erases = true;
        self.cache.forget_contents();
        self.notify_of(user, None, None, LedgerChange::Deleted);
        Ok(deleted)
    }

    /// Fails requests of an earlier run, which will have no answer.
    pub(crate) fn fail_all_waiting(&mut self, why: &str) -> Result<(), LedgerError> {
        let sql = "SELECT number FROM requests WHERE state = 'waiting' ORDER BY number";
        let mut statement = self.connection.prepare_cached(sql)?;
        let waiting: Vec<RequestId> = statement
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()
            .map_err(LedgerError::from)?;
        waiting.into_iter().try_for_each(|request| self.failed(request, why))
    }

    /// Notifies of a change that the trainer needs.
    pub(crate) fn judged(&mut self, turn: TurnId) -> Result<(), LedgerError> {
        let (user, session) = ledger::turn_owner(self.connection, turn)?;
        self.notify_of(&user, Some(session), Some(turn), LedgerChange::Judged);
        Ok(())
    }

    /// Notifies these users that an update with their turns has ended.
    pub(crate) fn learned(&mut self, users: &[UserId]) {
        users.iter().for_each(|user| self.notify_of(user, None, None, LedgerChange::Learned));
    }

    fn notify_of(
        &mut self,
        user: &UserId,
        session: Option<SessionId>,
        turn: Option<TurnId>,
        what: LedgerChange,
    ) {
        self.live.push(LedgerEvent { user: user.clone(), session, turn, what });
    }

    fn notify(&mut self, user: &UserId, events: &[Event]) {
        for event in events {
            if let Event::SessionClosed { session, .. } = event {
                self.cache.bodies.forget(*session);
                self.cache.prompts.forget(*session);
            }
        }
        self.live.extend(events.iter().filter_map(|event| LedgerEvent::of(user, event)));
    }
}

/// Numbers come from the ledger: a used number means that linking and ledger differ.
fn unlinked(error: LinkError) -> LedgerError {
    LedgerError::Storage(error.to_string())
}
