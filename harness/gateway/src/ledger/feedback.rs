//! Feedback that somebody gives, as rows; reactions in texts are events of linking.

use rusqlite::{Connection, OptionalExtension, params};

use super::{LedgerError, Thing, numbers};
use crate::{FeedbackId, FeedbackSource, FeedbackTarget, SessionId, TurnId, UserId};

/// Feedback, ready to be written.
#[derive(Debug)]
pub(crate) struct KeptFeedback {
    pub(crate) target: FeedbackTarget,
    pub(crate) source: FeedbackSource,
    pub(crate) thumb: Option<i8>,
    pub(crate) text: Option<String>,
    pub(crate) score: Option<f64>,
}

/// What it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
}

/// # Errors
/// [`LedgerError::Unknown`], if the user has no such thing, or it is deleted, or nothing in it was answered.
pub(crate) fn target(
    connection: &Connection,
    user: &UserId,
    target: FeedbackTarget,
) -> Result<Target, LedgerError> {
    let (sql, number, thing) = match target {
        FeedbackTarget::Turn(turn) => (
            "SELECT session, id FROM turns WHERE id = ?1 AND user = ?2 AND deleted_ms IS NULL",
            turn.0,
            Thing::Turn,
        ),
        FeedbackTarget::Request(request) => (
            "SELECT session, turn FROM requests WHERE number = ?1 AND user = ?2 AND deleted_ms IS NULL",
            request,
            Thing::Request,
        ),
        FeedbackTarget::Latest(session) => (
            // From the end: clocks go backwards, places do not.
            "SELECT r.session, r.turn FROM happenings h CROSS JOIN requests r ON r.number = h.request \
             WHERE h.session = ?1 AND h.what = 'answered' AND r.user = ?2 AND r.kind = 'main' \
             AND r.state = 'answered' AND r.deleted_ms IS NULL ORDER BY h.place DESC LIMIT 1",
            session.0,
            Thing::Session,
        ),
    };
    let read = |row: &rusqlite::Row<'_>| Ok(Target { session: row.get(0)?, turn: row.get(1)? });
    let found = connection.prepare_cached(sql)?.query_row(params![number, user.0], read).optional()?;
    found.ok_or(LedgerError::Unknown(thing))
}

pub(crate) fn add(
    connection: &Connection,
    (user, target): (&UserId, Target),
    kept: &KeptFeedback,
    at_ms: i64,
) -> Result<FeedbackId, LedgerError> {
    let source = match kept.source {
        FeedbackSource::Api => "api",
        FeedbackSource::Extension => "extension",
    };
    let sql = "INSERT INTO feedback (user, session, turn, source, thumb, text, score, at_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let mut statement = connection.prepare_cached(sql)?;
    let Target { session, turn } = target;
    statement.execute(params![user.0, session, turn, source, kept.thumb, kept.text, kept.score, at_ms])?;
    Ok(FeedbackId(numbers::from_sql(connection.last_insert_rowid())))
}
