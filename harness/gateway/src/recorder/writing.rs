//! What the recorder's thread does in a transaction: links, and writes what follows.
//!
//! I1. Linking is told only what is written in the same transaction. Where that comes to nothing, whoever owns both links
//! anew from the ledger. I2. An answer to what linking does not know any more (its session was deleted) is recorded and
//! linked to nothing.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, params};

use super::incoming::Admitted;
use super::live::{LedgerEvent, Live};
use crate::ledger::{
    self, Belongs, EndedRequest, KeptAnswer, KeptBody, KeptFeedback, KeptPrompt, KeptRequest, Lasts, Linked,
};
use crate::{Arrival, Event, FeedbackId, Lineages, LinkError, RequestId, SessionId, TurnId, UserId};
use crate::{Deleted, Deletion, LedgerError, Thing};

/// Numbers of requests that are set aside at once: a crash may leave a gap of so many.
const NUMBERS: u64 = 1_000;

/// What the ledger has, as far as it need not be asked for it. After a transaction that came to nothing, nothing is known.
#[derive(Debug, Default)]
pub(crate) struct Known {
    users: HashSet<UserId>,
    /// Requests that wait. Where something was deleted, the ledger is asked.
    waiting: HashMap<RequestId, EndedRequest>,
    bodies: Lasts<u8>,
    prompts: Lasts<u32>,
}

impl Known {
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// What was deleted may have been some of it.
    fn forget_contents(&mut self) {
        self.waiting.clear();
        self.bodies.clear();
        self.prompts.clear();
    }
}

/// A transaction, and the linking that goes with it.
pub(crate) struct Desk<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) lineages: &'a mut Lineages,
    /// Of the next request.
    pub(crate) next: u64,
    /// Up to here numbers are set aside, so that one which a crash forgot is not used again.
    pub(crate) set_aside: u64,
    /// Requests that were admitted, and are not in the ledger.
    pub(crate) lost: &'a mut HashSet<RequestId>,
    pub(crate) known: &'a mut Known,
    pub(crate) now_ms: i64,
    /// To be told when all of this is committed.
    pub(crate) live: Vec<LedgerEvent>,
    /// Linking was told something that only a commit makes true.
    pub(crate) is_linked: bool,
    /// What was deleted is to leave the file, too.
    pub(crate) erases: bool,
}

impl Desk<'_> {
    pub(crate) fn arrived(&mut self, kept: &KeptRequest) -> Result<Admitted, LedgerError> {
        let request = RequestId(self.next);
        let at = ledger::since_epoch(self.now_ms);
        self.is_linked = true;
        let KeptRequest { user, headers, request: body, .. } = kept;
        let events =
            self.lineages.arrived(&Arrival { request, user, headers, body, at }).map_err(unlinked)?;
        let linked = Linked::of(request, &events);
        let linked = linked.ok_or_else(|| LedgerError::Storage(format!("request {request} has no turn")))?;
        if !self.known.users.contains(user) {
            ledger::add_user(self.connection, user, self.now_ms)?;
            self.known.users.insert(user.clone());
        }
        ledger::add_request(self.connection, (request, &linked), kept, &events, self.now_ms)?;
        if let KeptBody::Long(body) = &kept.body {
            let belongs = Belongs { user, session: linked.session, turn: linked.turn, request };
            self.known.bodies.add(self.connection, belongs, body.clone())?;
        }
        self.known.waiting.insert(request, EndedRequest::of(kept, &linked));
        self.next += 1;
        if self.next > self.set_aside {
            self.set_aside = self.next + NUMBERS;
            ledger::set_numbers_aside(self.connection, self.set_aside)?;
        }
        self.tell(user, &events);
        let Linked { session, turn, kind, is_retry } = linked;
        Ok(Admitted { request, session, turn, kind, is_retry })
    }

    pub(crate) fn answered(&mut self, request: RequestId, kept: &KeptAnswer) -> Result<(), LedgerError> {
        self.is_kept(request)?;
        let ended = self.waiting(request)?;
        let replies: Vec<_> = kept.choices.iter().map(ledger::KeptChoice::reply).collect();
        let is_visible = replies.iter().any(crate::Reply::is_visible);
        // From here on nothing is undone alone.
        self.is_linked = true;
        ledger::add_answer(self.connection, (request, &ended), kept, is_visible, self.now_ms)?;
        if let Some(KeptPrompt::Long(ids)) = kept.prompt.as_ref().filter(|_| ended.keeps_prompt()) {
            let belongs = Belongs { user: &ended.user, session: ended.session, turn: ended.turn, request };
            self.known.prompts.add(self.connection, belongs, ids.clone())?;
        }
        let at = ledger::since_epoch(self.now_ms);
        let events = self.lineages.answered(request, &replies, at);
        self.ended((request, &ended), "answered", is_visible, events)
    }

    pub(crate) fn failed(&mut self, request: RequestId, why: &str) -> Result<(), LedgerError> {
        self.is_kept(request)?;
        let ended = self.waiting(request)?;
        ledger::fail_request(self.connection, request, why, self.now_ms)?;
        self.is_linked = true;
        let events = self.lineages.failed(request, ledger::since_epoch(self.now_ms));
        self.ended((request, &ended), "failed", false, events)
    }

    /// A request that ends now.
    fn waiting(&mut self, request: RequestId) -> Result<EndedRequest, LedgerError> {
        match self.known.waiting.remove(&request) {
            Some(ended) => Ok(ended),
            None => ledger::waiting_request(self.connection, request),
        }
    }

    /// Each request ends once, so that what is lost is not remembered for longer.
    fn is_kept(&mut self, request: RequestId) -> Result<(), LedgerError> {
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
        ledger::add_happening(self.connection, *session, what, Some(request), self.now_ms)?;
        match events {
            Ok(events) => {
                ledger::add_events(self.connection, user, &events, self.now_ms)?;
                self.tell(user, &events);
            }
            Err(_) => {
                ledger::set_answered(self.connection, *turn, is_visible)?;
                let what = if is_visible { Live::Answered } else { Live::Unanswered };
                self.changed(user, Some(*session), Some(*turn), what);
            }
        }
        Ok(())
    }

    pub(crate) fn feedback(&mut self, user: &UserId, kept: &KeptFeedback) -> Result<FeedbackId, LedgerError> {
        let target = ledger::feedback_target(self.connection, user, kept)?;
        let id = ledger::add_feedback(self.connection, (user, target), kept, self.now_ms)?;
        self.changed(user, Some(target.session), Some(target.turn), Live::Feedback);
        Ok(id)
    }

    pub(crate) fn close_session(&mut self, user: &UserId, session: SessionId) -> Result<(), LedgerError> {
        let events = self.lineages.close(user, session);
        let events = events.map_err(|_| LedgerError::Unknown(Thing::Session))?;
        self.is_linked = true;
        ledger::add_happening(self.connection, session, "close", None, self.now_ms)?;
        ledger::add_events(self.connection, user, &events, self.now_ms)?;
        self.tell(user, &events);
        Ok(())
    }

    pub(crate) fn expire(&mut self) -> Result<usize, LedgerError> {
        let events = self.lineages.expire(ledger::since_epoch(self.now_ms));
        self.is_linked |= !events.is_empty();
        for event in &events {
            let user = ledger::session_owner(self.connection, event.session())?;
            ledger::add_events(self.connection, &user, std::slice::from_ref(event), self.now_ms)?;
            self.tell(&user, std::slice::from_ref(event));
        }
        Ok(events.len())
    }

    pub(crate) fn set_consent(&mut self, user: &UserId, shares: bool) -> Result<(), LedgerError> {
        ledger::add_user(self.connection, user, self.now_ms)?;
        let sql = "UPDATE users SET shares = ?2, shares_ms = ?3 WHERE id = ?1";
        self.connection.prepare_cached(sql)?.execute(params![user.0, shares, self.now_ms])?;
        self.changed(user, None, None, Live::Consent);
        Ok(())
    }

    pub(crate) fn delete(&mut self, user: &UserId, what: Deletion) -> Result<Deleted, LedgerError> {
        let (deleted, closed) = ledger::delete(self.connection, user, what, self.now_ms)?;
        for session in closed {
            self.is_linked = true;
            self.lineages.forget(session);
            self.changed(user, Some(session), None, Live::SessionClosed);
        }
        self.erases = true;
        self.known.forget_contents();
        self.changed(user, None, None, Live::Deleted);
        Ok(deleted)
    }

    /// Requests of an earlier run that nobody will answer.
    pub(crate) fn fail_all_waiting(&mut self, why: &str) -> Result<(), LedgerError> {
        let sql = "SELECT number FROM requests WHERE state = 'waiting' ORDER BY number";
        let mut statement = self.connection.prepare_cached(sql)?;
        let waiting: Vec<RequestId> = statement
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()
            .map_err(LedgerError::from)?;
        waiting.into_iter().try_for_each(|request| self.failed(request, why))
    }

    /// Somebody has said something of a turn that learning needs.
    pub(crate) fn judged(&mut self, turn: TurnId) -> Result<(), LedgerError> {
        let (user, session) = ledger::turn_owner(self.connection, turn)?;
        self.changed(&user, Some(session), Some(turn), Live::Judged);
        Ok(())
    }

    /// Tells these users that something was learned, or not, from their turns.
    pub(crate) fn learned(&mut self, users: &[UserId]) {
        users.iter().for_each(|user| self.changed(user, None, None, Live::Learned));
    }

    fn changed(&mut self, user: &UserId, session: Option<SessionId>, turn: Option<TurnId>, what: Live) {
        self.live.push(LedgerEvent { user: user.clone(), session, turn, what });
    }

    fn tell(&mut self, user: &UserId, events: &[Event]) {
        for event in events {
            if let Event::SessionClosed { session, .. } = event {
                self.known.bodies.forget(*session);
                self.known.prompts.forget(*session);
            }
        }
        self.live.extend(events.iter().filter_map(|event| LedgerEvent::of(user, event)));
    }
}

/// Numbers come from the ledger: that one is taken means that linking and ledger differ.
fn unlinked(error: LinkError) -> LedgerError {
    LedgerError::Storage(error.to_string())
}
