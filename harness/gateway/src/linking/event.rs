//! What follows from what happened.

use crate::{Evidence, Reaction, RequestId, SessionId, TurnId, TurnKind};

/// Something that whoever keeps the record has to know. In the order given, each is true when the ones before it are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A session begins with the request that it is called by.
    SessionOpened {
        /// The new session.
        session: SessionId,
        /// By what its requests will be known.
        evidence: Evidence,
    },
    /// A turn begins with the request that it is called by.
    TurnOpened {
        /// The new turn.
        turn: TurnId,
        /// Its session.
        session: SessionId,
        /// The session's epoch.
        epoch: u64,
        /// By what the session was found.
        evidence: Evidence,
        /// Whether it may be trained, and why not.
        kind: TurnKind,
        /// The turn whose answer its request contains last.
        parent: Option<TurnId>,
    },
    /// A request is an earlier one again. It says nothing about the answer to that.
    Retry {
        /// The turn, which is the same.
        turn: TurnId,
        /// Its session.
        session: SessionId,
        /// The new request.
        request: RequestId,
        /// What this request is.
        kind: TurnKind,
    },
    /// A turn has the same history behind it as an earlier one, and something else was said: an edit, or a branch.
    Branched {
        /// The new turn.
        turn: TurnId,
        /// Its session.
        session: SessionId,
        /// The first turn with that history. Its answer and its next state stay what they are.
        sibling: TurnId,
        /// The turn whose answer is the end of that history; nothing where it is empty.
        parent: Option<TurnId>,
    },
    /// An answer was sent, and somebody can have seen it.
    TurnAnswered {
        /// The turn.
        turn: TurnId,
        /// Its session.
        session: SessionId,
        /// The request that was answered.
        request: RequestId,
    },
    /// A request came to its end without an answer. The turn waits for it to come again.
    TurnUnanswered {
        /// The turn.
        turn: TurnId,
        /// Its session.
        session: SessionId,
        /// The request.
        request: RequestId,
        /// Why there is none.
        why: Unanswered,
    },
    /// What came after an answer is known. At most once for each turn.
    NextState(NextState),
    /// Somebody reacted in a chat channel.
    Feedback {
        /// The session in which it was told.
        session: SessionId,
        /// The request that told it.
        request: RequestId,
        /// What it is about, in the channel's own numbers.
        reaction: Reaction,
        /// The last main turn that was answered before. A guess at what it is about: the client does not say.
        latest: Option<TurnId>,
    },
    /// The history was compacted or begun anew; the session goes on.
    EpochClosed {
        /// The session.
        session: SessionId,
        /// The epoch that is over.
        epoch: u64,
        /// The first request of the next one.
        request: RequestId,
        /// How that is known.
        why: EpochEnd,
    },
    /// A session is over: nothing will be linked to its turns any more.
    SessionClosed {
        /// The session.
        session: SessionId,
        /// Why.
        why: Closing,
        /// Main turns that were answered and have no next state, oldest first: to be judged on what there is, or not.
        without_next_state: Vec<TurnId>,
    },
}

/// What came after an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextState {
    /// The turn.
    pub turn: TurnId,
    /// Its session.
    pub session: SessionId,
    /// The request whose answer was found.
    pub answered: RequestId,
    /// Which choice of that answer, from 0.
    pub choice: usize,
    /// The request that it was found in.
    pub request: RequestId,
    /// By what it was found.
    pub by: Match,
    /// The messages of that request behind the answer, up to the next answer; at least one.
    pub messages: Vec<NewMessage>,
    /// Places of transient contexts and notes of retries: not part of it.
    pub aside: Vec<usize>,
    /// Calls of the answer that no message is the result of.
    pub calls_without_result: usize,
}

/// A message of a next state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewMessage {
    /// Its place in the request, from 0.
    pub index: usize,
    /// What it is.
    pub kind: NewMessageKind,
}

/// What a message of a next state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewMessageKind {
    /// The result of a call; which one of the answer's, from 0, where the client says.
    ToolResult(Option<usize>),
    /// What a user said.
    User,
    /// What a client reports.
    SystemEvent,
}

/// By what a request was found to contain an answer, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// It begins with the whole history of the turn, and the answer.
    History,
    /// It has the ids of the answer's calls; something before or in it was changed.
    CallIds,
    /// It has the answer behind the same message as then; something before it was changed.
    Exchange,
}

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// It failed, or was cut.
    Failed,
    /// It was answered with nothing that anybody sees.
    Empty,
}

/// How it is known that an epoch is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochEnd {
    /// The client's number of the epoch has risen.
    Number,
    /// The history begins with something else than before.
    HistoryReplaced,
}

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// A request was flagged as its last.
    Flag,
    /// Somebody asked for it.
    Endpoint,
    /// Nothing happened for too long.
    Idle,
}

impl Event {
    /// The session it is about.
    #[must_use]
    pub fn session(&self) -> SessionId {
        match self {
            Self::SessionOpened { session, .. }
            | Self::TurnOpened { session, .. }
            | Self::Retry { session, .. }
            | Self::Branched { session, .. }
            | Self::TurnAnswered { session, .. }
            | Self::TurnUnanswered { session, .. }
            | Self::NextState(NextState { session, .. })
            | Self::Feedback { session, .. }
            | Self::EpochClosed { session, .. }
            | Self::SessionClosed { session, .. } => *session,
        }
    }
}
