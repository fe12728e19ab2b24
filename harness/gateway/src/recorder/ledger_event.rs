//! Notifications of changes.

use crate::{Event, SessionId, TurnId, UserId};

/// A change and its place, without content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerEvent {
    /// Owner.
    pub user: UserId,
    /// Session; `None` if the change concerns the user.
    pub session: Option<SessionId>,
    /// Turn.
    pub turn: Option<TurnId>,
    /// Kind of the change.
    pub what: LedgerChange,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerChange {
    /// A session was opened.
    SessionOpened,
    /// A session was closed.
    SessionClosed,
    /// An epoch was closed.
    EpochClosed,
    /// A turn was opened.
    TurnOpened,
    /// A turn was requested again.
    Retried,
    /// A turn was answered.
    Answered,
    /// A request ended without an answer.
    Unanswered,
    /// The next state of a turn is known.
    NextState,
    /// A turn has new feedback.
    Feedback,
    /// A turn has a new vote, reward or sample.
    Judged,
    /// An update with turns of the user has ended, or their adapter was rolled back.
    Learned,
    /// A user's consent has changed.
    Consent,
    /// Something was deleted.
    Deleted,
}

impl LedgerEvent {
    /// `None` for events that need no notification.
    pub(crate) fn of(user: &UserId, event: &Event) -> Option<Self> {
        let (turn, what) = match event {
            Event::SessionOpened { .. } => (None, LedgerChange::SessionOpened),
            Event::TurnOpened { turn, .. } => (Some(*turn), LedgerChange::TurnOpened),
            Event::Retry { turn, .. } => (Some(*turn), LedgerChange::Retried),
            Event::Branched { .. } => return None,
            Event::TurnAnswered { turn, .. } => (Some(*turn), LedgerChange::Answered),
            Event::TurnUnanswered { turn, .. } => (Some(*turn), LedgerChange::Unanswered),
            Event::NextState(next) => (Some(next.turn), LedgerChange::NextState),
            Event::Feedback { latest, .. } => (*latest, LedgerChange::Feedback),
            Event::EpochClosed { .. } => (None, LedgerChange::EpochClosed),
            Event::SessionClosed { .. } => (None, LedgerChange::SessionClosed),
        };
        Some(Self { user: user.clone(), session: Some(event.session()), turn, what })
    }
}
