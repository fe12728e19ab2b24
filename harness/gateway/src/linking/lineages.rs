//! All open sessions, and what follows from what happens to them.
//!
//! I1. A session is of one user. No request links to anything of another one. I2. A turn has at most one next state. I3. A
//! request that is an earlier one again opens no turn, has no say about that one's answer, and changes no epoch. I4. A request
//! that is not surely part of the conversation is no next state of a main turn. I5. What one session does changes nothing
//! that is said of another. I6. Same calls, same events: after a crash, the recorded requests and answers make the same
//! state again.
//!
//! Time is what has passed since any fixed moment. It may be told out of order; a session remembers the latest.
//! Memory: some hundred bytes for each turn and answer of an open session; none for messages.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::contents::{AnswerKeys, AnswerPlace, Contained, Contents, Found};
use super::event::{Closing, EpochEnd, Event, Match, NewMessage, NewMessageKind, NextState, Unanswered};
use super::session::{Answer, Session, Turn, Waiting};
use crate::claim::{Claim, Name, Place};
use crate::openclaw;
use crate::request::Step;
use crate::{
    ChatRequest, Digest, Headers, Reply, RequestId, Role, SessionId, Standing, TurnId, TurnKind, UserId,
};

/// What may be set about linking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkConfig {
    /// A session in which nothing happens for so long is over.
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
    /// Its number, which no other request has.
    pub request: RequestId,
    /// Whose key it has.
    pub user: &'a UserId,
    /// Its headers.
    pub headers: &'a Headers,
    /// Its body.
    pub body: &'a ChatRequest,
    /// When.
    pub at: Duration,
}

/// Something that cannot have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Two requests have one number.
    #[error("the request number {0} is taken")]
    RequestNumber(RequestId),
    /// No such request waits for an answer.
    #[error("no request {0} waits for an answer")]
    UnknownRequest(RequestId),
    /// The user has no such session that is open.
    #[error("there is no open session {0}")]
    UnknownSession(SessionId),
}

/// Sessions of all users, as long as they are open.
#[derive(Debug, Default)]
pub struct Lineages {
    config: LinkConfig,
    places: HashMap<Place, Tenants>,
    sessions: BTreeMap<SessionId, Session>,
    turns: HashMap<TurnId, Turn>,
    waiting: HashMap<RequestId, Waiting>,
}

/// Sessions that are looked for in one place.
#[derive(Debug)]
struct Tenants {
    sessions: BTreeSet<SessionId>,
    contents: Contents,
    /// Before this none of the sessions is idle: whoever asks at every request looks at none of them.
    busy_until: Duration,
}

impl Lineages {
    /// Without any session.
    #[must_use]
    pub fn new(config: LinkConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// A request has arrived. [`Self::answered`] or [`Self::failed`] has to follow for it, whatever comes of it.
    ///
    /// # Errors
    /// [`LinkError::RequestNumber`]; nothing has changed then.
    pub fn arrived(&mut self, arrival: &Arrival<'_>) -> Result<Vec<Event>, LinkError> {
        let &Arrival { request, user, headers, body, at } = arrival;
        if self.waiting.contains_key(&request) || self.turns.contains_key(&TurnId(request)) {
            return Err(LinkError::RequestNumber(request));
        }
        let claim = Claim::of(user, headers, body);
        let mut events = self.close_idle_at(&claim.place, at);
        let found = self.find(&claim.place, body);
        let id = self.session_of(&claim.place, &found);
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
            session.turn_over(epoch);
        }
        if kind.is_main() && session.root.is_none() {
            session.root = body.steps().first().map(|step| step.digest);
        }
        let reactions = told_anew(&mut session.told, body);
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

    /// A request was answered to the end, by one reply for each choice. To be told before the client can know: it may send
    /// its next request at once.
    ///
    /// # Errors
    /// [`LinkError::UnknownRequest`], if it did not arrive, or has ended before.
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

    /// A request has come to its end without an answer: it was refused, it failed, or its stream was cut.
    ///
    /// # Errors
    /// As [`Self::answered`].
    pub fn failed(&mut self, request: RequestId, at: Duration) -> Result<Vec<Event>, LinkError> {
        let waiting = self.waiting.remove(&request).ok_or(LinkError::UnknownRequest(request))?;
        let Waiting { turn, session, .. } = waiting;
        let mut events = vec![Event::TurnUnanswered { turn, session, request, why: Unanswered::Failed }];
        if let Some(session) = self.sessions.get_mut(&session) {
            // It was not the last one: the client will try again, and say again that this is the end.
            session.closing = session.closing.filter(|why| *why != Closing::Flag);
        }
        events.extend(self.ended(session, at));
        Ok(events)
    }

    /// The open session that a client of `user` calls so.
    #[must_use]
    pub fn named(&self, user: &UserId, name: &str) -> Option<SessionId> {
        let place = Place { user: user.clone(), name: Name::Session(name.to_owned()) };
        self.places.get(&place)?.sessions.last().copied()
    }

    /// Ends a session of `user`, at once or with the last answer that is waited for.
    ///
    /// # Errors
    /// [`LinkError::UnknownSession`], also for a session of somebody else.
    pub fn close(&mut self, user: &UserId, session: SessionId) -> Result<Vec<Event>, LinkError> {
        let found = self.sessions.get_mut(&session).filter(|found| found.place.user == *user);
        let found = found.ok_or(LinkError::UnknownSession(session))?;
        found.closing.get_or_insert(Closing::Endpoint);
        Ok(self.close_if_due(session))
    }

    /// Ends all sessions in which nothing has happened for too long.
    pub fn expire(&mut self, at: Duration) -> Vec<Event> {
        let idle = self.sessions.iter().filter(|(_, session)| session.is_idle(at, self.config.idle));
        let idle: Vec<SessionId> = idle.map(|(id, _)| *id).collect();
        idle.into_iter().flat_map(|session| self.close_session(session, Closing::Idle)).collect()
    }

    /// Ends a session at once and says nothing about it: what its requests said is not to be known any more. Answers that
    /// are still waited for are then answers to nothing that is known. Whether it was open.
    pub(crate) fn forget(&mut self, session: SessionId) -> bool {
        self.waiting.retain(|_, waiting| waiting.session != session);
        self.close_session(session, Closing::Endpoint).is_some()
    }

    /// The same sessions, under other settings.
    pub(crate) fn with_config(mut self, config: LinkConfig) -> Self {
        self.places.values_mut().for_each(|tenants| tenants.busy_until = Duration::ZERO);
        Self { config, ..self }
    }

    /// Number of open sessions.
    #[must_use]
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    fn close_idle_at(&mut self, place: &Place, at: Duration) -> Vec<Event> {
        let Some(tenants) = self.places.get_mut(place).filter(|tenants| tenants.busy_until <= at) else {
            return Vec::new();
        };
        let known = || tenants.sessions.iter().filter_map(|id| Some((*id, self.sessions.get(id)?)));
        let idle: Vec<SessionId> =
            known().filter(|(_, session)| session.is_idle(at, self.config.idle)).map(|(id, _)| id).collect();
        // What happens later in a session makes it idle later.
        let earliest = known().map(|(_, session)| session.last.saturating_add(self.config.idle)).min();
        tenants.busy_until = earliest.unwrap_or_default();
        idle.into_iter().flat_map(|session| self.close_session(session, Closing::Idle)).collect()
    }

    fn find(&self, place: &Place, body: &ChatRequest) -> Found {
        let Some(tenants) = self.places.get(place) else { return Found::default() };
        let mut found = tenants.contents.find(body);
        if let Name::Speaker(_) = place.name {
            // What goes on behind an answer that was seen may just as well be another conversation that begins the same.
            let is_unanswered =
                |turn: &TurnId| self.turns.get(turn).is_some_and(|turn| turn.answers.is_empty());
            found.continued = found.continued.filter(is_unanswered);
        }
        found
    }

    fn session_of(&self, place: &Place, found: &Found) -> Option<SessionId> {
        if let Name::Session(_) = place.name {
            return self.places.get(place)?.sessions.first().copied();
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
        let Claim { place, evidence, epoch } = claim.clone();
        let is_one = matches!(place.name, Name::Session(_));
        let busy_until = at.saturating_add(self.config.idle);
        let tenants = || Tenants { sessions: BTreeSet::new(), contents: Contents::new(is_one), busy_until };
        let tenants = self.places.entry(place.clone()).or_insert_with(tenants);
        tenants.sessions.insert(id);
        // Times may be told out of order.
        tenants.busy_until = tenants.busy_until.min(busy_until);
        self.sessions.insert(id, Session::new(place, epoch.unwrap_or(0)));
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
        if let Some(tenants) = self.places.get_mut(&session.place) {
            tenants.contents.add_turn(body.context(), turn);
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

    /// What `body` says behind an answer that it contains, if that is the answer's next state (I2, I4).
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

    /// Whether anybody sees one of the replies.
    fn add_answers(&mut self, request: RequestId, waiting: Waiting, replies: &[Reply]) -> bool {
        let Waiting { turn: id, session, is_main } = waiting;
        let place = self.sessions.get(&session).map(|session| &session.place);
        let tenants = place.and_then(|place| self.places.get_mut(place));
        let (Some(turn), Some(tenants)) = (self.turns.get_mut(&id), tenants) else { return false };
        let mut is_visible = false;
        for (choice, reply) in replies.iter().enumerate() {
            let Some(digest) = reply.digest() else { continue };
            is_visible = true;
            let ids: Vec<String> = reply.calls.iter().map(|call| call.id.clone()).collect();
            let keys =
                AnswerKeys { history: turn.history, question: turn.question, answer: digest, call_ids: &ids };
            tenants.contents.add_answer(&keys, AnswerPlace { turn: id, answer: turn.answers.len() });
            turn.answers.push(Answer { request, choice, is_main, digest, calls: ids.len() });
        }
        is_visible
    }

    /// A request of the session no longer waits.
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
        if let Some(tenants) = self.places.get_mut(&session.place) {
            tenants.sessions.remove(&id);
            if tenants.sessions.is_empty() {
                self.places.remove(&session.place);
            } else {
                for (_, turn) in &turns {
                    tenants.contents.remove(turn.history, turn.answers.iter().map(|answer| answer.digest));
                }
            }
        }
        let open = turns.iter().filter(|(_, turn)| turn.is_open());
        let without_next_state = open.map(|(id, _)| *id).collect();
        Some(Event::SessionClosed { session: id, why, without_next_state })
    }
}

/// The number of the epoch that begins with this request, if one does.
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

/// Whether the request goes on with questions alone where the known history ends: nobody else has answered since, and
/// it does not add to a question that is known.
fn has_only_questions(found: &Found, body: &ChatRequest) -> bool {
    let behind = found.contained.map_or(0, |contained| contained.step + 1);
    let is_answer = |step: &Step| step.role == Role::Assistant;
    found.continued.is_none() && !body.steps()[behind..].iter().any(is_answer)
}

/// Messages behind the one at `answer`, up to the next answer, and the places of those among them that do not count.
fn behind(body: &ChatRequest, answer: usize) -> (Vec<NewMessage>, Vec<usize>) {
    let (mut messages, mut aside) = (Vec::new(), Vec::new());
    for (index, message) in body.messages().iter().enumerate().skip(answer + 1) {
        if message.role() == Role::Assistant {
            break;
        }
        if message.standing() != Standing::Counted {
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

/// Reactions that the session has not been told of before.
fn told_anew(told: &mut HashSet<Digest>, body: &ChatRequest) -> Vec<crate::Reaction> {
    let reactions = body.messages().iter().flat_map(|message| &message.reactions);
    let new = reactions.filter(|(line, _)| told.insert(Digest::of_bytes(line.as_bytes())));
    new.map(|(_, reaction)| reaction.clone()).collect()
}
