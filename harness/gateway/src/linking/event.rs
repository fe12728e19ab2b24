//! Events: what follows from a request or an answer.

use crate::{Evidence, Reaction, RequestId, SessionId, TurnId, TurnKind};

/// A fact for the record. Each event holds after those before it in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A session was opened by the request that names it.
    SessionOpened {
        /// The new session.
        session: SessionId,
        /// How its requests will be identified.
        evidence: Evidence,
    },
    /// A turn was opened by the request that names it.
    TurnOpened {
        /// The new turn.
        turn: TurnId,
        /// Its session.
        session: SessionId,
        /// The session's epoch.
        epoch: u64,
        /// How the session was found.
        evidence: Evidence,
        /// Whether it may be trained on, and why not.
        kind: TurnKind,
        /// The turn of the last answer that its request contains.
        parent: Option<TurnId>,
    },
    /// A request repeats an earlier one. It is not feedback on the answer.
    Retry {
        /// The turn, which is the same.
        turn: TurnId,
        /// Its session.
        session: SessionId,
        /// The new request.
        request: RequestId,
        /// Kind of this request.
        kind: TurnKind,
    },
    /// A turn has the same history as an earlier one and another question: an edit, or a branch.
    Branched {
        /// The new turn.
        turn: TurnId,
        /// Its session.
        session: SessionId,
        /// The first turn with that history; it does not change.
        sibling: TurnId,
        /// The turn whose answer ends that history; `None` for an empty history.
        parent: Option<TurnId>,
    },
    /// A visible answer was sent.
    TurnAnswered {
        /// The turn.
        turn: TurnId,
        /// Its session.
        session: SessionId,
        /// The request that was answered.
        request: RequestId,
    },
    /// A request ended without an answer. The turn waits for a retry.
    TurnUnanswered {
        /// The turn.
        turn: TurnId,
        /// Its session.
        session: SessionId,
        /// The request.
        request: RequestId,
        /// The reason.
        why: Unanswered,
    },
    /// The next state of a turn is known. At most one per turn.
    NextState(NextState),
    /// Somebody reacted in a chat channel.
    Feedback {
        /// The session that reported it.
        session: SessionId,
        /// The request that reported it.
        request: RequestId,
        /// The reaction, with the channel's message number.
        reaction: Reaction,
        /// The main turn that was last answered before: a guess, because the client does not name the answer.
        latest: Option<TurnId>,
    },
    /// The history was compacted or replaced; the session continues.
    EpochClosed {
        /// The session.
        session: SessionId,
        /// The closed epoch.
        epoch: u64,
        /// The first request of the next epoch.
        request: RequestId,
        /// How the change was detected.
        why: EpochEnd,
    },
    /// A session was closed: nothing will be linked to its turns.
    SessionClosed {
        /// The session.
        session: SessionId,
        /// The reason.
        why: Closing,
        /// Answered main turns without a next state, oldest first.
        without_next_state: Vec<TurnId>,
    },
}

/// The messages that followed an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextState {
    /// The turn.
    pub turn: TurnId,
    /// Its session.
    pub session: SessionId,
    /// The request whose answer it follows.
    pub answered: RequestId,
    /// Index of the choice, from 0.
    pub choice: usize,
    /// The request that contains it.
    pub request: RequestId,
    /// How it was found.
    pub by: Match,
    /// Messages after the answer, up to the next answer; at least one.
    pub messages: Vec<NewMessage>,
    /// Indexes of transient contexts and retry notes, which are not part of it.
    pub aside: Vec<usize>,
    /// Calls of the answer without a result.
    pub calls_without_result: usize,
}

/// A message of a next state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewMessage {
    /// Index in the request, from 0.
    pub index: usize,
    /// Kind of the message.
    pub kind: NewMessageKind,
}

/// The kind of a message in a next state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewMessageKind {
    /// A tool result, with the index of its call, from 0, if known.
    ToolResult(Option<usize>),
    /// Words of a user.
    User,
    /// An event that the client reports.
    SystemEvent,
}

/// How an answer was found in a request, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The request starts with the turn's whole history and the answer.
    History,
    /// The request has the ids of the answer's calls; other content was changed.
    CallIds,
    /// The request has the answer after the same question; earlier content was changed.
    Exchange,
}

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// It failed or was cut.
    Failed,
    /// The answer has no visible content.
    Empty,
}

/// How the end of an epoch was detected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochEnd {
    /// The client's epoch number has risen.
    Number,
    /// The history starts with another message.
    HistoryReplaced,
}

/// Why a session was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// Its last request was marked as such.
    Flag,
    /// A user asked for it.
    Endpoint,
    /// It was idle for too long.
    Idle,
}

impl Event {
    /// The event's session.
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
