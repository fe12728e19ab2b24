//! Restores the open sessions from recorded requests and answers.
//!
//! I1. Equal calls in equal order give equal state (I6 of `linking/tracker.rs`), and sessions do not influence each other (I5 there): so
//! only open sessions are replayed, and no rows are written. I2. No session is idle, whatever the current setting. I3. A session that links
//! otherwise than recorded (another version of the program may differ) is reported and not restored; its rows remain.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::{LedgerError, Linked, answers, contents, names};
use crate::{
    Arrival, ChatRequest, Event, Headers, LinkConfig, LinkError, RequestId, SessionId, SessionTracker,
    TurnId, UserId,
};

/// The result.
pub(crate) struct ReplayResult {
    pub(crate) tracker: SessionTracker,
    /// Open sessions that could not be restored.
    pub(crate) broken: BTreeSet<SessionId>,
}

/// A recorded request of an open session.
struct RecordedRequest {
    user: UserId,
    headers: Headers,
    body: ChatRequest,
    turn: TurnId,
}

struct LinkInput {
    session: SessionId,
    what: String,
    request: Option<RequestId>,
    at: Duration,
}

/// Time as linking counts it.
pub(crate) fn since_epoch(ms: i64) -> Duration {
    Duration::from_millis(ms.try_into().unwrap_or(0))
}

/// # Errors
/// Only [`LedgerError::Storage`].
pub(crate) fn replay(connection: &Connection, link: LinkConfig) -> Result<ReplayResult, LedgerError> {
    let mut tracker = SessionTracker::new(LinkConfig { idle: Duration::MAX });
    let mut broken = BTreeSet::new();
    let Some(begin) = begin(connection)? else {
        return Ok(ReplayResult { tracker: tracker.with_config(link), broken });
    };
    // In this order: an index by session would cost a write for each input, for a query that runs once.
    let sql = "SELECT h.session, h.what, h.request, h.at_ms FROM happenings h CROSS JOIN sessions s ON s.id = h.session \
               WHERE h.place >= ?1 AND s.closed_ms IS NULL ORDER BY h.place";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        let at = since_epoch(row.get(3)?);
        Ok(LinkInput { session: row.get(0)?, what: row.get(1)?, request: row.get(2)?, at })
    };
    for input in statement.query_map([begin], read)? {
        let input = input?;
        if broken.contains(&input.session) {
            continue;
        }
        if let Some(found) = apply(connection, &mut tracker, &input)? {
            tracker.forget(found);
            tracker.forget(input.session);
            broken.insert(input.session);
        }
    }
    Ok(ReplayResult { tracker: tracker.with_config(link), broken })
}

/// Place of the first request of the first open session; `None` if no session is open.
fn begin(connection: &Connection) -> Result<Option<i64>, LedgerError> {
    let sql = "SELECT min(id) FROM sessions WHERE closed_ms IS NULL";
    let first: Option<SessionId> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    let Some(first) = first else { return Ok(None) };
    // From the end, because open sessions are recent.
    let sql =
        "SELECT place FROM happenings WHERE what = 'arrived' AND request = ?1 ORDER BY place DESC LIMIT 1";
    let place = connection.prepare_cached(sql)?.query_row([first], |row| row.get(0)).optional()?;
    Ok(place.or(Some(0)))
}

/// The session to which it was linked, if that differs from the record.
fn apply(
    connection: &Connection,
    tracker: &mut SessionTracker,
    input: &LinkInput,
) -> Result<Option<SessionId>, LedgerError> {
    let &LinkInput { session, ref what, request, at } = input;
    let events: Result<Vec<Event>, LinkError> = match (what.as_str(), request) {
        ("arrived", Some(request)) => {
            let Some(RecordedRequest { user, headers, body, turn }) = recorded_request(connection, request)?
            else {
                return Ok(Some(session));
            };
            let events =
                tracker.arrived(&Arrival { request, user: &user, headers: &headers, body: &body, at });
            let linked = events.ok().and_then(|events| Linked::of(request, &events));
            return Ok(match linked {
                Some(linked) if linked.session == session && linked.turn == turn => None,
                Some(linked) => Some(linked.session),
                None => Some(session),
            });
        }
        ("answered", Some(request)) => tracker.answered(request, &answers::replies(connection, request)?, at),
        ("failed", Some(request)) => tracker.failed(request, at),
        (_, _) => tracker.close(&owner(connection, session)?, session),
    };
    Ok(events.is_err().then_some(session))
}

/// The owner of a session.
pub(crate) fn owner(connection: &Connection, session: SessionId) -> Result<UserId, LedgerError> {
    let sql = "SELECT user FROM sessions WHERE id = ?1";
    Ok(UserId(connection.prepare_cached(sql)?.query_row([session], |row| row.get(0))?))
}

/// `None` if it is deleted or unreadable.
fn recorded_request(
    connection: &Connection,
    request: RequestId,
) -> Result<Option<RecordedRequest>, LedgerError> {
    let sql = "SELECT user, headers, body, turn FROM requests WHERE number = ?1 AND deleted_ms IS NULL";
    let read = |row: &rusqlite::Row<'_>| {
        let (user, headers): (String, String) = (row.get(0)?, row.get(1)?);
        Ok((user, headers, row.get(2)?, row.get(3)?))
    };
    let found = connection.prepare_cached(sql)?.query_row([request], read).optional()?;
    let Some((user, headers, in_row, turn)) = found else { return Ok(None) };
    let Some(body) = contents::body(connection, request, in_row)? else { return Ok(None) };
    let headers: Vec<(String, String)> = names::read_json(&headers)?;
    let body = serde_json::from_slice(&body).ok();
    let body = body.and_then(|body| ChatRequest::parse(&body).ok());
    let headers = headers.into_iter().collect();
    Ok(body.map(|body| RecordedRequest { user: UserId(user), headers, body, turn }))
}
