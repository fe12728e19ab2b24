//! All open sessions, and the linking of requests to them.
//!
//! I1. A session belongs to one user; requests never link to another user's data. I2. A turn has at most one next state. I3. A repeated
//! request opens no turn, is not feedback on the answer, and changes no epoch. I4. A request that is not certainly part of the conversation
//! is not the next state of a main turn. I5. Sessions do not influence each other's events. I6. Equal calls give equal events: after a
//! crash, the recorded requests and answers restore the same state.
//!
//! Time is the duration since any fixed moment. It may be reported out of order; a session keeps the latest. Memory: some hundred bytes for
//! each turn and answer of an open session; none for messages.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::contents::{AnswerKeys, AnswerPlace, Contained, Contents, Found};
use super::event::{Closing, EpochEnd, Event, Match, NewMessage, NewMessageKind, NextState, Unanswered};
use super::session::{Answer, Session, Turn, Waiting};
use clawrl_core::Role;

use crate::claim::{Claim, SessionKey, SessionName};
use crate::openclaw;
use crate::request::Step;
use crate::{
    ChatRequest, Digest, Headers, HistoryKind, Reply, RequestId, SessionId, TurnId, TurnKind, UserId,
};

/// Settings of linking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkConfig {
    /// A session without events for this long is closed.
    pub idle: Duration,
}

impl Default for LinkConfig {
    /// Half an hour.
    fn default() -> Self {
        Self { idle: Duration::from_secs(30 * 60) }
    }
}

/// A request that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// Its unique number.
    pub request: RequestId,
    /// Owner of its key.
    pub user: &'a UserId,
    /// Headers.
    pub headers: &'a Headers,
    /// Body.
    pub body: &'a ChatRequest,
    /// Time of arrival.
    pub at: Duration,
}

/// A call that contradicts earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The request number was used before.
    #[error("the request number {0} is taken")]
    RequestNumber(RequestId),
    /// The request is unknown, or was answered before.
    #[error("no request {0} waits for an answer")]
    UnknownRequest(RequestId),
    /// The user has no such open session.
    #[error("there is no open session {0}")]
    UnknownSession(SessionId),
}

/// The open sessions of all users.
#[derive(Debug, Default)]
pub struct SessionTracker {
    config: LinkConfig,
    indexes: HashMap<SessionKey, SessionIndex>,
    sessions: BTreeMap<SessionId, Session>,
    turns: HashMap<TurnId, Turn>,
    waiting: HashMap<RequestId, Waiting>,
}

/// The sessions of one key.
#[derive(Debug)]
struct SessionIndex {
    sessions: BTreeSet<SessionId>,
    contents: Contents,
    /// Until then, no session is idle, so that most requests need not check them.
    busy_until: Duration,
}

impl SessionTracker {
    /// Creates a tracker without sessions.
    #[must_use]
    pub fn new(config: LinkConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// Takes a request that arrived. [`Self::answered`] or [`Self::failed`] must follow for it.
    ///
    /// # Errors
    /// [`LinkError::RequestNumber`]; nothing has changed then.
    pub fn arrived(&mut self, arrival: &Arrival<'_>) -> Result<Vec<Event>, LinkError> {
        let &Arrival { request, user, headers, body, at } = arrival;
        if self.waiting.contains_key(&request) || self.turns.contains_key(&TurnId(request)) {
            return Err(LinkError::RequestNumber(request));
        }
        let claim = Claim::of(user, headers, body);
        let mut events = self.close_idle_at(&claim.key, at);
        let found = self.find(&claim.key, body);
        let id = self.session_of(&claim.key, &found);
        let id = id.unwrap_or_else(|| self.open_session(request, &claim, at, &mut events));
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(events) };
        session.last = session.last.max(at);
        session.in_flight += 1;
        if headers.ends_session() {
            session.closing = Some(Closing::Flag);
        }
        let kind = TurnKind::of(headers, body, session.has_tools);
        session.has_tools |= kind.is_main() && !body.tools().is_empty();
        let latest = session.latest;
        if let Some((epoch, why)) = next_epoch(session, &claim, &found, &kind, body) {
            events.push(Event::EpochClosed { session: id, epoch: session.epoch, request, why });
            session.start_epoch(epoch);
        }
        if kind.is_main() && session.root.is_none() {
            session.root = body.steps().first().map(|step| step.digest);
        }
        let reactions = new_reactions(&mut session.reported, body);
        let turn = match found.repeated {
            Some(turn) => {
                events.push(Event::Retry { turn, session: id, request, kind: kind.clone() });
                turn
            }
            None => self.open_turn((request, id), &claim, &found, &kind, body, &mut events),
        };
        self.waiting.insert(request, Waiting { turn, session: id, is_main: kind.is_main() });
        if let Some(contained) = found.contained {
            events.extend(self.next_state(contained, request, &kind, body).map(Event::NextState));
        }
        let feedback = |reaction| Event::Feedback { session: id, request, reaction, latest };
        events.extend(reactions.into_iter().map(feedback));
        Ok(events)
    }

    /// Takes the replies to a request, one for each choice. To be called before the client gets the answer, because it may send its next
    /// request at once.
    ///
    /// # Errors
    /// [`LinkError::UnknownRequest`], if the request did not arrive, or has ended.
    pub fn answered(
        &mut self,
        request: RequestId,
        replies: &[Reply],
        at: Duration,
    ) -> Result<Vec<Event>, LinkError> {
        let waiting = self.waiting.remove(&request).ok_or(LinkError::UnknownRequest(request))?;
        let Waiting { turn, session, is_main } = waiting;
        let visible = self.add_answers(request, waiting, replies);
        let mut events = vec![if visible {
            Event::TurnAnswered { turn, session, request }
        } else {
            Event::TurnUnanswered { turn, session, request, why: Unanswered::Empty }
        }];
        if let Some(session) = self.sessions.get_mut(&session).filter(|_| visible && is_main) {
            session.latest = Some(turn);
        }
        events.extend(self.ended(session, at));
        Ok(events)
    }

    /// Takes the end of a request without an answer: it was refused, failed, or was cut.
    ///
    /// # Errors
    /// As [`Self::answered`].
    pub fn failed(&mut self, request: RequestId, at: Duration) -> Result<Vec<Event>, LinkError> {
        let waiting = self.waiting.remove(&request).ok_or(LinkError::UnknownRequest(request))?;
        let Waiting { turn, session, .. } = waiting;
        let mut events = vec![Event::TurnUnanswered { turn, session, request, why: Unanswered::Failed }];
        if let Some(session) = self.sessions.get_mut(&session) {
            // The client will retry, and mark the retry as the last request.
            session.closing = session.closing.filter(|why| *why != Closing::Flag);
        }
        events.extend(self.ended(session, at));
        Ok(events)
    }

    /// The user's open session with this client name.
    #[must_use]
    pub fn named(&self, user: &UserId, name: &str) -> Option<SessionId> {
        let key = SessionKey { user: user.clone(), name: SessionName::Session(name.to_owned()) };
        self.indexes.get(&key)?.sessions.last().copied()
    }

    /// Closes a session of `user`, at once or after its last pending answer.
    ///
    /// # Errors
    /// [`LinkError::UnknownSession`], also for another user's session.
    pub fn close(&mut self, user: &UserId, session: SessionId) -> Result<Vec<Event>, LinkError> {
        let found = self.sessions.get_mut(&session).filter(|found| found.key.user == *user);
        let found = found.ok_or(LinkError::UnknownSession(session))?;
        found.closing.get_or_insert(Closing::Endpoint);
        Ok(self.close_if_due(session))
    }

    /// Closes all sessions that were idle for too long.
    pub fn expire(&mut self, at: Duration) -> Vec<Event> {
        let idle = self.sessions.iter().filter(|(_, session)| session.is_idle(at, self.config.idle));
        let idle: Vec<SessionId> = idle.map(|(id, _)| *id).collect();
        idle.into_iter().flat_map(|session| self.close_session(session, Closing::Idle)).collect()
    }

    /// Closes a session without an event, because its content was deleted. Its pending answers will be unknown. Returns whether it was
    /// open.
    pub(crate) fn forget(&mut self, session: SessionId) -> bool {
        self.waiting.retain(|_, waiting| waiting.session != session);
        self.close_session(session, Closing::Endpoint).is_some()
    }

    /// The same sessions under other settings.
    pub(crate) fn with_config(mut self, config: LinkConfig) -> Self {
        self.indexes.values_mut().for_each(|index| index.busy_until = Duration::ZERO);
        Self { config, ..self }
    }

    /// Number of open sessions.
    #[must_use]
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    fn close_idle_at(&mut self, key: &SessionKey, at: Duration) -> Vec<Event> {
        let Some(index) = self.indexes.get_mut(key).filter(|index| index.busy_until <= at) else {
            return Vec::new();
        };
        let known = || index.sessions.iter().filter_map(|id| Some((*id, self.sessions.get(id)?)));
        let idle: Vec<SessionId> =
            known().filter(|(_, session)| session.is_idle(at, self.config.idle)).map(|(id, _)| id).collect();
        // Later events only postpone the time at which a session is idle.
        let earliest = known().map(|(_, session)| session.last.saturating_add(self.config.idle)).min();
        index.busy_until = earliest.unwrap_or_default();
        idle.into_iter().flat_map(|session| self.close_session(session, Closing::Idle)).collect()
    }

    fn find(&self, key: &SessionKey, body: &ChatRequest) -> Found {
        let Some(index) = self.indexes.get(key) else { return Found::default() };
        let mut found = index.contents.find(body);
        if let SessionName::Speaker(_) = key.name {
            // A continuation after a visible answer could as well be another conversation with the same start.
            let is_unanswered =
                |turn: &TurnId| self.turns.get(turn).is_some_and(|turn| turn.answers.is_empty());
            found.continued = found.continued.filter(is_unanswered);
        }
        found
    }

    fn session_of(&self, key: &SessionKey, found: &Found) -> Option<SessionId> {
        if let SessionName::Session(_) = key.name {
            return self.indexes.get(key)?.sessions.first().copied();
        }
        let contained = found.contained.map(|contained| contained.place.turn);
        let turn = found.repeated.or(contained).or(found.continued)?;
        Some(self.turns.get(&turn)?.session)
    }

    fn open_session(
        &mut self,
        request: RequestId,
        claim: &Claim,
        at: Duration,
        events: &mut Vec<Event>,
    ) -> SessionId {
        let id = SessionId(request);
        let Claim { key, evidence, epoch } = claim.clone();
        let is_one = matches!(key.name, SessionName::Session(_));
        let busy_until = at.saturating_add(self.config.idle);
        let index =
            || SessionIndex { sessions: BTreeSet::new(), contents: Contents::new(is_one), busy_until };
        let index = self.indexes.entry(key.clone()).or_insert_with(index);
        index.sessions.insert(id);
        // Times may be reported out of order.
        index.busy_until = index.busy_until.min(busy_until);
        self.sessions.insert(id, Session::new(key, epoch.unwrap_or(0)));
        events.push(Event::SessionOpened { session: id, evidence });
        id
    }

    fn open_turn(
        &mut self,
        (request, id): (RequestId, SessionId),
        claim: &Claim,
        found: &Found,
        kind: &TurnKind,
        body: &ChatRequest,
        events: &mut Vec<Event>,
    ) -> TurnId {
        let turn = TurnId(request);
        let Some(session) = self.sessions.get_mut(&id) else { return turn };
        session.turns.push(turn);
        let parent = found.contained.map(|contained| contained.place.turn);
        events.push(Event::TurnOpened {
            turn,
            session: id,
            epoch: session.epoch,
            evidence: claim.evidence,
            kind: kind.clone(),
            parent,
        });
        if kind.is_main() && has_only_questions(found, body) {
            let eldest = match parent {
                Some(parent) => self.turns.get_mut(&parent).map(|parent| &mut parent.child),
                None => Some(&mut session.first),
            };
            if let Some(eldest) = eldest {
                match *eldest {
                    Some(sibling) => events.push(Event::Branched { turn, session: id, sibling, parent }),
                    None => *eldest = Some(turn),
                }
            }
        }
        if let Some(index) = self.indexes.get_mut(&session.key) {
            index.contents.add_turn(body.context(), turn);
        }
        self.turns.insert(
            turn,
            Turn {
                session: id,
                history: body.context(),
                question: body.steps().last().map(|step| step.digest),
                answers: Vec::new(),
                has_next_state: false,
                child: None,
            },
        );
        turn
    }

    /// The next state of an answer that `body` contains (I2, I4).
    fn next_state(
        &mut self,
        contained: Contained,
        request: RequestId,
        kind: &TurnKind,
        body: &ChatRequest,
    ) -> Option<NextState> {
        let AnswerPlace { turn: id, answer } = contained.place;
        let turn = self.turns.get_mut(&id)?;
        let Answer { request: answered, choice, is_main, calls, .. } = *turn.answers.get(answer)?;
        if turn.has_next_state || (is_main && !kind.is_main()) {
            return None;
        }
        let (messages, aside) = behind(body, body.steps()[contained.step].index);
        if messages.is_empty() {
            return None;
        }
        let result = |message: &NewMessage| match message.kind {
            NewMessageKind::ToolResult(call) => call,
            NewMessageKind::User | NewMessageKind::SystemEvent => None,
        };
        let results: HashSet<usize> = messages.iter().filter_map(result).collect();
        turn.has_next_state = true;
        Some(NextState {
            turn: id,
            session: turn.session,
            answered,
            choice,
            request,
            by: contained.by,
            messages,
            aside,
            calls_without_result: calls.saturating_sub(results.len()),
        })
    }

    /// Adds the replies; whether one of them is visible.
    fn add_answers(&mut self, request: RequestId, waiting: Waiting, replies: &[Reply]) -> bool {
        let Waiting { turn: id, session, is_main } = waiting;
        let key = self.sessions.get(&session).map(|session| &session.key);
        let index = key.and_then(|key| self.indexes.get_mut(key));
        let (Some(turn), Some(index)) = (self.turns.get_mut(&id), index) else { return false };
        let mut is_visible = false;
        for (choice, reply) in replies.iter().enumerate() {
            let Some(digest) = reply.digest() else { continue };
            is_visible = true;
            let ids: Vec<String> = reply.calls.iter().map(|call| call.id.clone()).collect();
            let keys =
                AnswerKeys { history: turn.history, question: turn.question, answer: digest, call_ids: &ids };
            index.contents.add_answer(&keys, AnswerPlace { turn: id, answer: turn.answers.len() });
            turn.answers.push(Answer { request, choice, is_main, digest, calls: ids.len() });
        }
        is_visible
    }

    /// A request of the session has ended.
    fn ended(&mut self, id: SessionId, at: Duration) -> Vec<Event> {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.last = session.last.max(at);
            session.in_flight = session.in_flight.saturating_sub(1);
        }
        self.close_if_due(id)
    }

    fn close_if_due(&mut self, id: SessionId) -> Vec<Event> {
        let due = self.sessions.get(&id).filter(|session| session.in_flight == 0);
        let why = due.and_then(|session| session.closing);
        why.and_then(|why| self.close_session(id, why)).into_iter().collect()
    }

    fn close_session(&mut self, id: SessionId, why: Closing) -> Option<Event> {
        let session = self.sessions.remove(&id)?;
        let turns: Vec<(TurnId, Turn)> =
            session.turns.iter().filter_map(|turn| self.turns.remove_entry(turn)).collect();
        if let Some(index) = self.indexes.get_mut(&session.key) {
            index.sessions.remove(&id);
            if index.sessions.is_empty() {
                self.indexes.remove(&session.key);
            } else {
                for (_, turn) in &turns {
                    index.contents.remove(turn.history, turn.answers.iter().map(|answer| answer.digest));
                }
            }
        }
        let open = turns.iter().filter(|(_, turn)| turn.is_open());
        let without_next_state = open.map(|(id, _)| *id).collect();
        Some(Event::SessionClosed { session: id, why, without_next_state })
    }
}

/// The next epoch, if it starts with this request.
fn next_epoch(
    session: &Session,
    claim: &Claim,
    found: &Found,
    kind: &TurnKind,
    body: &ChatRequest,
) -> Option<(u64, EpochEnd)> {
    if let Some(epoch) = claim.epoch {
        return (epoch > session.epoch).then_some((epoch, EpochEnd::Number));
    }
    let is_known = found.repeated.is_some()
        || found.continued.is_some()
        || found.contained.is_some_and(|contained| contained.by == Match::History);
    let first = body.steps().first()?;
    let begins_elsewhere = session.root.is_some_and(|root| root != first.digest);
    let has_history = body.steps().iter().any(|step| step.role == Role::Assistant)
        || openclaw::is_summary(body.messages()[first.index].text());
    let is_over = kind.is_main() && !is_known && begins_elsewhere && has_history;
    is_over.then_some((session.epoch + 1, EpochEnd::HistoryReplaced))
}

/// Whether only questions follow the known history: no other answer, and no addition to a known question.
fn has_only_questions(found: &Found, body: &ChatRequest) -> bool {
    let behind = found.contained.map_or(0, |contained| contained.step + 1);
    let is_answer = |step: &Step| step.role == Role::Assistant;
    found.continued.is_none() && !body.steps()[behind..].iter().any(is_answer)
}

/// Messages after index `answer` up to the next answer, and the indexes of those that do not count.
fn behind(body: &ChatRequest, answer: usize) -> (Vec<NewMessage>, Vec<usize>) {
    let (mut messages, mut aside) = (Vec::new(), Vec::new());
    for (index, message) in body.messages().iter().enumerate().skip(answer + 1) {
        if message.role() == Role::Assistant {
            break;
        }
        if message.kind() != HistoryKind::Counted {
            aside.push(index);
            continue;
        }
        let kind = if message.role() == Role::Tool {
            NewMessageKind::ToolResult(message.call)
        } else if message.is_system_event() {
            NewMessageKind::SystemEvent
        } else {
            NewMessageKind::User
        };
        messages.push(NewMessage { index, kind });
    }
    (messages, aside)
}

/// Reactions that the session has not reported before.
fn new_reactions(reported: &mut HashSet<Digest>, body: &ChatRequest) -> Vec<crate::Reaction> {
    let reactions = body.messages().iter().flat_map(|message| &message.reactions);
    let new = reactions.filter(|(line, _)| reported.insert(Digest::of_bytes(line.as_bytes())));
    new.map(|(_, reaction)| reaction.clone()).collect()
}
