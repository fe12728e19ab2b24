//! Rows of explicit feedback; reactions in texts are events of linking.

use rusqlite::{Connection, OptionalExtension, params};

use super::{EntityKind, LedgerError, numbers};
use crate::{FeedbackId, FeedbackSource, FeedbackTarget, RequestId, SessionId, TurnId, UserId};

/// Feedback, ready to be stored.
#[derive(Debug)]
pub(crate) struct StoredFeedback {
    pub(crate) target: FeedbackTarget,
    pub(crate) choice: Option<u32>,
    pub(crate) source: FeedbackSource,
    pub(crate) thumb: Option<i8>,
    pub(crate) text: Option<String>,
    pub(crate) score: Option<f64>,
}

/// The answer that feedback is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    /// The answered request, and the index of the choice.
    answer: (RequestId, u32),
}

/// # Errors
/// [`LedgerError::Unknown`], if the user does not own the target, it is deleted, or it has no answer; [`LedgerError::Refused`], if the
/// answer has several choices and none is named.
pub(crate) fn target(
    connection: &Connection,
    user: &UserId,
    stored: &StoredFeedback,
) -> Result<Target, LedgerError> {
    let (sql, number, thing) = match stored.target {
        FeedbackTarget::Turn(turn) => (
            // The answer that the conversation continued, or else the last one of a main request.
            "SELECT r.session, r.turn, r.number FROM requests r LEFT JOIN next_states n ON n.turn = r.turn \
             WHERE r.turn = ?1 AND r.user = ?2 AND r.state = 'answered' AND r.deleted_ms IS NULL \
             ORDER BY r.number IS n.answered DESC, r.kind = 'main' DESC, r.number DESC LIMIT 1",
            turn.0,
            EntityKind::Turn,
        ),
        FeedbackTarget::Request(request) => (
            // A reader of a stream may give feedback before its end, or after cutting it.
            "SELECT session, turn, number FROM requests WHERE number = ?1 AND user = ?2 AND deleted_ms IS NULL",
            request,
            EntityKind::Request,
        ),
        FeedbackTarget::Latest(session) => (
            // By place, because clocks may go backwards.
            "SELECT r.session, r.turn, r.number FROM happenings h CROSS JOIN requests r ON r.number = h.request \
             WHERE h.session = ?1 AND h.what = 'answered' AND r.user = ?2 AND r.kind = 'main' \
             AND r.state = 'answered' AND r.deleted_ms IS NULL ORDER BY h.place DESC LIMIT 1",
            session.0,
            EntityKind::Session,
        ),
    };
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found = connection.prepare_cached(sql)?.query_row(params![number, user.0], read).optional()?;
    let (session, turn, request) = found.ok_or(LedgerError::Unknown(thing))?;
    let choice = choice(connection, request, stored.choice)?;
    Ok(Target { session, turn, answer: (request, choice) })
}

/// The choice: the named one, the one that the conversation continued, or the only one.
fn choice(connection: &Connection, request: RequestId, named: Option<u32>) -> Result<u32, LedgerError> {
    let sql = "SELECT CASE state WHEN 'answered' THEN (SELECT count(*) FROM answers WHERE request = ?1) \
               ELSE coalesce(sampling ->> 'n', 1) END, \
               (SELECT choice FROM next_states WHERE answered = ?1) FROM requests WHERE number = ?1";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<u32>>(1)?));
    let (count, gone_on_from): (u32, _) = connection.prepare_cached(sql)?.query_row([request], read)?;
    match named.or(gone_on_from) {
        Some(choice) if choice < count => Ok(choice),
        None if count == 1 => Ok(0),
        None => Err(LedgerError::Refused(format!("the answer has {count} choices; set `choice`, from 0"))),
        Some(choice) => {
            Err(LedgerError::Refused(format!("the answer has no choice {choice}; it has {count}, from 0")))
        }
    }
}

pub(crate) fn add(
    connection: &Connection,
    (user, target): (&UserId, Target),
    stored: &StoredFeedback,
    at_ms: i64,
) -> Result<FeedbackId, LedgerError> {
    let source = match stored.source {
        FeedbackSource::Api => "api",
        FeedbackSource::Extension => "extension",
    };
    let sql = "INSERT INTO feedback (user, session, turn, source, thumb, text, score, at_ms, answered, choice) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    let mut statement = connection.prepare_cached(sql)?;
    let Target { session, turn, answer: (answered, choice) } = target;
    let StoredFeedback { thumb, text, score, .. } = stored;
    statement.execute(params![user.0, session, turn, source, thumb, text, score, at_ms, answered, choice])?;
    Ok(FeedbackId(numbers::from_sql(connection.last_insert_rowid())))
}
