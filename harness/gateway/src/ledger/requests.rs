//! Rows of requests.

use std::sync::Arc;

use rusqlite::{Connection, params};

use super::contents::StoredBody;
use super::{LedgerError, events, names, numbers};
use crate::cut::prefix;
use crate::{ChatRequest, Event, Headers, RequestId, SessionId, TurnId, TurnKind, UserId};

/// Characters of a user's words that are stored with the turn, for lists.
const SAID: usize = 300;

/// A request, ready to be stored.
#[derive(Debug)]
pub(crate) struct StoredRequest {
    pub(crate) user: UserId,
    pub(crate) endpoint: &'static str,
    /// The headers that linking reads.
    pub(crate) headers: Headers,
    pub(crate) headers_json: String,
    /// As linking sees it, after redaction.
    pub(crate) request: Arc<ChatRequest>,
    pub(crate) body: StoredBody,
    pub(crate) body_bytes: usize,
    pub(crate) redacted: String,
    pub(crate) model: String,
    pub(crate) sampling: String,
}

/// The session and turn of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Linked {
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) kind: TurnKind,
    pub(crate) is_retry: bool,
}

impl Linked {
    /// From the events of the arrival of `request`.
    pub(crate) fn of(request: RequestId, events: &[Event]) -> Option<Self> {
        events.iter().find_map(|event| match event {
            Event::TurnOpened { turn, session, kind, .. } if turn.0 == request => {
                Some(Self { session: *session, turn: *turn, kind: kind.clone(), is_retry: false })
            }
            Event::Retry { turn, session, request: again, kind } if *again == request => {
                Some(Self { session: *session, turn: *turn, kind: kind.clone(), is_retry: true })
            }
            _ => None,
        })
    }
}

/// Adds a user, unless known.
pub(crate) fn add_user(connection: &Connection, user: &UserId, at_ms: i64) -> Result<(), LedgerError> {
    let sql = "INSERT INTO users (id, created_ms) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![user.0, at_ms])?;
    Ok(())
}

/// Stores a request of a known user, except for a long body, and the events of its arrival.
pub(crate) fn add(
    connection: &Connection,
    (request, linked): (RequestId, &Linked),
    stored: &StoredRequest,
    events: &[Event],
    at_ms: i64,
) -> Result<(), LedgerError> {
    let (kind, mark) = names::kind(&linked.kind);
    let sql = "INSERT INTO requests (number, user, endpoint, received_ms, headers, body, body_bytes, redacted, \
               model, sampling, session, turn, kind, mark, is_retry, state) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, 'waiting')";
    connection.prepare_cached(sql)?.execute(params![
        request,
        stored.user.0,
        stored.endpoint,
        at_ms,
        stored.headers_json,
        stored.body.in_row(),
        numbers::to_sql(stored.body_bytes as u64),
        stored.redacted,
        stored.model,
        stored.sampling,
        linked.session,
        linked.turn,
        kind,
        mark,
        linked.is_retry,
    ])?;
    events::add_link_input(connection, linked.session, "arrived", Some(request), at_ms)?;
    events::add_all(connection, &stored.user, events, at_ms)?;
    let said = stored.request.unanswered_text();
    if !linked.is_retry && !said.is_empty() {
        let (said, _) = prefix(&said, SAID);
        let sql = "UPDATE turns SET said = ?2 WHERE id = ?1";
        connection.prepare_cached(sql)?.execute(params![linked.turn, said])?;
    }
    Ok(())
}

/// Number of the next request: larger than all earlier ones, deleted ones included.
pub(crate) fn next_number(connection: &Connection) -> Result<u64, LedgerError> {
    let sql = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'requests'), 0)";
    let last: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    Ok(numbers::from_sql(last) + 1)
}

/// Makes [`next_number`] larger than `last` after the next commit.
pub(crate) fn reserve_numbers(connection: &Connection, last: u64) -> Result<(), LedgerError> {
    let last = numbers::to_sql(last);
    let sql = "UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'requests'";
    if connection.prepare_cached(sql)?.execute([last])? == 0 {
        let sql = "INSERT INTO sqlite_sequence (name, seq) VALUES ('requests', ?1)";
        connection.prepare_cached(sql)?.execute([last])?;
    }
    Ok(())
}
