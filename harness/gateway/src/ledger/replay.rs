//! The open sessions, linked again from what is recorded.
//!
//! I1. The same calls in the same order make the same state (I6 of `linking/lineages.rs`), and what one session does changes
//! nothing that is said of another (I5 there): so only open sessions are linked again. No rows are written. I2. None of them
//! was idle for too long, whatever that is set to now. I3. A session that does not come out as it is recorded (another version
//! of this program may link otherwise) is told, and not linked any further: its rows stay true.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension};

use super::{LedgerError, Linked, answers, contents, words};
use crate::{
    Arrival, ChatRequest, Event, Headers, Lineages, LinkConfig, LinkError, RequestId, SessionId, TurnId,
    UserId,
};

/// What came out.
pub(crate) struct Replayed {
    pub(crate) lineages: Lineages,
    /// Sessions that are open in the ledger and could not be linked again.
    pub(crate) broken: BTreeSet<SessionId>,
}

/// What a request of an open session said.
struct Said {
    user: UserId,
    headers: Headers,
    body: ChatRequest,
    turn: TurnId,
}

struct Happening {
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
/// [`LedgerError::Storage`] alone.
pub(crate) fn replay(connection: &Connection, link: LinkConfig) -> Result<Replayed, LedgerError> {
    let mut lineages = Lineages::new(LinkConfig { idle: Duration::MAX });
    let mut broken = BTreeSet::new();
    let Some(begin) = begin(connection)? else {
        return Ok(Replayed { lineages: lineages.with_config(link), broken });
    };
    // In this order: an index by session would have to be written for each happening, for a question that is asked once.
    let sql = "SELECT h.session, h.what, h.request, h.at_ms FROM happenings h CROSS JOIN sessions s ON s.id = h.session \
               WHERE h.place >= ?1 AND s.closed_ms IS NULL ORDER BY h.place";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        let at = since_epoch(row.get(3)?);
        Ok(Happening { session: row.get(0)?, what: row.get(1)?, request: row.get(2)?, at })
    };
    for happening in statement.query_map([begin], read)? {
        let happening = happening?;
        if broken.contains(&happening.session) {
            continue;
        }
        if let Some(found) = tell(connection, &mut lineages, &happening)? {
            lineages.forget(found);
            lineages.forget(happening.session);
            broken.insert(happening.session);
        }
    }
    Ok(Replayed { lineages: lineages.with_config(link), broken })
}

/// The place at which the first open session was opened, by the request that it is named by; nothing where none is open.
fn begin(connection: &Connection) -> Result<Option<i64>, LedgerError> {
    let sql = "SELECT min(id) FROM sessions WHERE closed_ms IS NULL";
    let first: Option<SessionId> = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    let Some(first) = first else { return Ok(None) };
    // From the end, as far as need be.
    let sql =
        "SELECT place FROM happenings WHERE what = 'arrived' AND request = ?1 ORDER BY place DESC LIMIT 1";
    let place = connection.prepare_cached(sql)?.query_row([first], |row| row.get(0)).optional()?;
    Ok(place.or(Some(0)))
}

/// The session in which it came out, if that is not as recorded.
fn tell(
    connection: &Connection,
    lineages: &mut Lineages,
    happening: &Happening,
) -> Result<Option<SessionId>, LedgerError> {
    let &Happening { session, ref what, request, at } = happening;
    let told: Result<Vec<Event>, LinkError> = match (what.as_str(), request) {
        ("arrived", Some(request)) => {
            let Some(Said { user, headers, body, turn }) = said(connection, request)? else {
                return Ok(Some(session));
            };
            let events =
                lineages.arrived(&Arrival { request, user: &user, headers: &headers, body: &body, at });
            let linked = events.ok().and_then(|events| Linked::of(request, &events));
            return Ok(match linked {
                Some(linked) if linked.session == session && linked.turn == turn => None,
                Some(linked) => Some(linked.session),
                None => Some(session),
            });
        }
        ("answered", Some(request)) => {
            lineages.answered(request, &answers::replies(connection, request)?, at)
        }
        ("failed", Some(request)) => lineages.failed(request, at),
        (_, _) => lineages.close(&owner(connection, session)?, session),
    };
    Ok(told.is_err().then_some(session))
}

/// Whose a session is.
pub(crate) fn owner(connection: &Connection, session: SessionId) -> Result<UserId, LedgerError> {
    let sql = "SELECT user FROM sessions WHERE id = ?1";
    Ok(UserId(connection.prepare_cached(sql)?.query_row([session], |row| row.get(0))?))
}

/// Nothing, if it is deleted or cannot be read any more.
fn said(connection: &Connection, request: RequestId) -> Result<Option<Said>, LedgerError> {
    let sql = "SELECT user, headers, body, turn FROM requests WHERE number = ?1 AND deleted_ms IS NULL";
    let read = |row: &rusqlite::Row<'_>| {
        let (user, headers): (String, String) = (row.get(0)?, row.get(1)?);
        Ok((user, headers, row.get(2)?, row.get(3)?))
    };
    let found = connection.prepare_cached(sql)?.query_row([request], read).optional()?;
    let Some((user, headers, in_row, turn)) = found else { return Ok(None) };
    let Some(body) = contents::body(connection, request, in_row)? else { return Ok(None) };
    let headers: Vec<(String, String)> = words::read_json(&headers)?;
    let body = serde_json::from_slice(&body).ok();
    let body = body.and_then(|body| ChatRequest::parse(&body).ok());
    let headers = headers.into_iter().collect();
    Ok(body.map(|body| Said { user: UserId(user), headers, body, turn }))
}
