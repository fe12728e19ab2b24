//! Turns that wait for a judge, and samples that wait for an update.
//!
//! I1. A turn waits until a judge has voted on its next state, and again after feedback that is newer than its reward; after feedback of
//! text alone, until it has a sample.

use rusqlite::{Connection, params};

use super::{LedgerError, numbers};
use crate::{TurnId, UserId};

/// Waiting samples of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Owner.
    pub user: UserId,
    /// Whether the user's turns may train the shared adapter.
    pub shares: bool,
    /// Number of samples; at least 1.
    pub samples: u64,
    /// When the oldest sample was made. Unix time in milliseconds.
    pub since_ms: i64,
}

/// All users with waiting samples.
pub(crate) fn waiting(connection: &Connection) -> Result<Vec<Waiting>, LedgerError> {
    let sql = "SELECT s.user, u.shares, count(*), min(s.at_ms) FROM samples s JOIN users u ON u.id = s.user \
               WHERE s.state = 'waiting' GROUP BY s.user ORDER BY s.user";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([], |row| {
        let (user, shares, since_ms) = (UserId(row.get(0)?), row.get(1)?, row.get(3)?);
        Ok(Waiting { user, shares, samples: numbers::from_sql(row.get(2)?), since_ms })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Main turns before `before` that wait for a judge, newest first.
pub(crate) fn unjudged(
    connection: &Connection,
    before: Option<TurnId>,
    limit: u32,
) -> Result<Vec<(UserId, TurnId)>, LedgerError> {
    let sql = "SELECT t.user, t.id FROM turns t WHERE (?2 IS NULL OR t.id < ?2) AND t.kind = 'main' AND t.state = 'answered' AND t.deleted_ms IS NULL \
               AND ((EXISTS (SELECT 1 FROM next_states n WHERE n.turn = t.id) \
               AND NOT EXISTS (SELECT 1 FROM votes v WHERE v.turn = t.id)) \
               OR EXISTS (SELECT 1 FROM feedback f WHERE f.turn = t.id AND f.deleted_ms IS NULL \
               AND (f.thumb IS NOT NULL OR f.score IS NOT NULL OR NOT EXISTS (SELECT 1 FROM samples s WHERE s.turn = t.id)) \
               AND f.at_ms >= coalesce((SELECT r.at_ms FROM rewards r WHERE r.turn = t.id), 0))) \
               ORDER BY t.id DESC LIMIT ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![limit, before], |row| Ok((UserId(row.get(0)?), row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Users whose turns may train the shared adapter.
pub(crate) fn sharing(connection: &Connection) -> Result<Vec<UserId>, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT id FROM users WHERE shares = 1 ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok(UserId(row.get(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
