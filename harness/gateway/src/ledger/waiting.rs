//! What waits: turns for somebody who judges them, samples for an update.
//!
//! I1. A turn is among those that wait until somebody has voted on what followed it, and again when somebody has said what they
//! think of it since it has its reward; of words alone, until there is a sample.

use rusqlite::{Connection, params};

use super::{LedgerError, numbers};
use crate::{TurnId, UserId};

/// Samples of a user that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Whose they are.
    pub user: UserId,
    /// Whether they may train what all share.
    pub shares: bool,
    /// How many there are; at least 1.
    pub samples: u64,
    /// Since when the oldest waits. Unix time in milliseconds.
    pub since_ms: i64,
}

/// Of all users that have some.
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

/// Main turns before `before` that wait to be judged, newest first.
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

/// Who shares.
pub(crate) fn sharing(connection: &Connection) -> Result<Vec<UserId>, LedgerError> {
    let mut statement = connection.prepare_cached("SELECT id FROM users WHERE shares = 1 ORDER BY id")?;
    let rows = statement.query_map([], |row| Ok(UserId(row.get(0)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
