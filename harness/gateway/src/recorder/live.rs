//! What has changed, for whoever watches.

use crate::{Event, SessionId, TurnId, UserId};

/// That something has changed, and where. Never what was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEvent {
    /// Whose it is.
    pub user: UserId,
    /// In which session; none for what is about a user.
    pub session: Option<SessionId>,
    /// About which turn.
    pub turn: Option<TurnId>,
    /// What has happened.
    pub what: Live,
}

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Live {
    /// A session was opened.
    SessionOpened,
    /// A session is over.
    SessionClosed,
    /// A session's epoch is over.
    EpochClosed,
    /// A turn was opened.
    TurnOpened,
    /// A turn was requested again.
    Retried,
    /// A turn was answered.
    Answered,
    /// A request of a turn came to nothing.
    Unanswered,
    /// What came after a turn is known.
    NextState,
    /// Somebody has said what they think of a turn.
    Feedback,
    /// A judge has voted about a turn, or its reward or sample has changed.
    Judged,
    /// An update with turns of the user has ended, or an older version of what they train was gone back to.
    Learned,
    /// A user has said whether they share.
    Consent,
    /// Something was deleted.
    Deleted,
}

impl LedgerEvent {
    /// Nothing for what needs no look of its own.
    pub(crate) fn of(user: &UserId, event: &Event) -> Option<Self> {
        let (turn, what) = match event {
            Event::SessionOpened { .. } => (None, Live::SessionOpened),
            Event::TurnOpened { turn, .. } => (Some(*turn), Live::TurnOpened),
            Event::Retry { turn, .. } => (Some(*turn), Live::Retried),
            Event::Branched { .. } => return None,
            Event::TurnAnswered { turn, .. } => (Some(*turn), Live::Answered),
            Event::TurnUnanswered { turn, .. } => (Some(*turn), Live::Unanswered),
            Event::NextState(next) => (Some(next.turn), Live::NextState),
            Event::Feedback { latest, .. } => (*latest, Live::Feedback),
            Event::EpochClosed { .. } => (None, Live::EpochClosed),
            Event::SessionClosed { .. } => (None, Live::SessionClosed),
        };
        Some(Self { user: user.clone(), session: Some(event.session()), turn, what })
    }
}
