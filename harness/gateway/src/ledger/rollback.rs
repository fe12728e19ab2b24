//! Versions of adapters, and rollback to an older one.
//!
//! I1. Later versions, and those of other branches, are discarded: their samples are not trained on again, and their updates say so. I2. A
//! repeated rollback has no effect. I3. Rolling back to a discarded version restores it and its ancestors.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use super::{LedgerError, numbers};
use crate::UserId;

/// Prefix of the reasons of discarded samples, by which a later rollback recognises them.
pub(crate) const GIVEN_UP: &str = "given up when version ";

/// A version of an adapter that was in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionView {
    /// Number.
    pub version: u64,
    /// The version that it was made from; `None` for the first.
    pub parent: Option<u64>,
    /// Number of rollbacks before it.
    pub branch: u64,
    /// Whether it is in use or an ancestor of the version in use; false if discarded.
    pub accepted: bool,
    /// Turns of its update; 0 after a rollback.
    pub turns: u64,
    /// Path of its checkpoint, if it had one. Not shown to clients.
    #[serde(skip)]
    pub checkpoint: Option<String>,
    /// Time of creation. Unix time in milliseconds.
    pub at_ms: i64,
}

/// A rollback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollBack {
    /// Adapter.
    pub adapter: String,
    /// The version whose weights are copied; 0 for the weights from before training.
    pub to: u64,
    /// Number of the new version.
    pub version: u64,
    /// Path of its checkpoint.
    pub checkpoint: Option<String>,
}

/// Newest first.
pub(crate) fn versions(
    connection: &Connection,
    adapter: &str,
    limit: u32,
) -> Result<Vec<VersionView>, LedgerError> {
    // A lost version's number may be reused: the last update with it counts.
    let sql = "SELECT version, parent, branch, accepted, checkpoint, at_ms, \
               (SELECT count(*) FROM update_samples o JOIN samples s ON s.id = o.sample \
               WHERE (o.outcome = 'trained' OR s.reason LIKE ?3 || '%') AND o.\"update\" = \
               (SELECT max(u.id) FROM updates u WHERE u.adapter = v.adapter AND u.version_after = v.version)) \
               FROM versions v WHERE adapter = ?1 ORDER BY version DESC LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        Ok(VersionView {
            version: numbers::from_sql(row.get(0)?),
            parent: row.get::<_, Option<i64>>(1)?.map(numbers::from_sql),
            branch: numbers::from_sql(row.get(2)?),
            accepted: row.get(3)?,
            checkpoint: row.get(4)?,
            at_ms: row.get(5)?,
            turns: numbers::from_sql(row.get(6)?),
        })
    };
    Ok(statement.query_map(params![adapter, limit, GIVEN_UP], read)?.collect::<Result<_, _>>()?)
}

/// # Errors
/// [`LedgerError::Refused`], if the number belongs to another version.
pub(crate) fn roll_back(connection: &Connection, back: &RollBack, at_ms: i64) -> Result<(), LedgerError> {
    let RollBack { adapter, to, version, checkpoint } = back;
    let (to, version) = (numbers::to_sql(*to), numbers::to_sql(*version));
    // I2: numbers rise, so a version in use with this number or a later one includes the rollback.
    let known = "SELECT version, parent FROM versions WHERE adapter = ?1 AND version >= ?2 AND accepted = 1 \
                 ORDER BY version LIMIT 1";
    let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Option<i64>>(1)?));
    match connection.prepare_cached(known)?.query_row(params![adapter, version], read).optional()? {
        Some((number, parent)) if number == version && parent != Some(to) => {
            return Err(LedgerError::Refused(format!("{adapter} has another version of that number")));
        }
        Some(_) => return Ok(()),
        None => {}
    }
    give_up(connection, (adapter, to, version), at_ms)?;
    put_back(connection, adapter, to, at_ms)?;
    // A lost version's number may be reused.
    let sql = "INSERT INTO versions (adapter, version, parent, branch, accepted, checkpoint, at_ms) \
               SELECT ?1, ?2, ?3, coalesce(max(branch), 0) + 1, 1, ?4, ?5 FROM versions WHERE adapter = ?1 \
               ON CONFLICT (adapter, version) DO UPDATE \
               SET parent = ?3, branch = excluded.branch, accepted = 1, checkpoint = ?4, at_ms = ?5";
    connection.prepare_cached(sql)?.execute(params![adapter, version, to, checkpoint, at_ms])?;
    Ok(())
}

/// Users whose turns train, or have trained, an adapter.
pub(crate) fn learners(connection: &Connection, adapter: &str) -> Result<Vec<UserId>, LedgerError> {
    let sql = "SELECT DISTINCT s.user FROM updates u JOIN update_samples o ON o.\"update\" = u.id \
               JOIN samples s ON s.id = o.sample WHERE u.adapter = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let users = statement.query_map([adapter], |row| Ok(UserId(row.get(0)?)))?;
    Ok(users.collect::<Result<_, _>>()?)
}

/// `line`: a version and its ancestors.
const LINE: &str = "WITH RECURSIVE line (version) AS (SELECT ?2 UNION SELECT v.parent FROM versions v \
                    JOIN line l ON v.version = l.version WHERE v.adapter = ?1 AND v.parent IS NOT NULL)";

/// Discards what was learned before a version's number and is not an ancestor of the target.
fn give_up(
    connection: &Connection,
    (adapter, to, version): (&str, i64, i64),
    at_ms: i64,
) -> Result<(), LedgerError> {
    let updates = "SELECT id FROM updates WHERE adapter = ?1 AND state = 'accepted' AND version_after < ?3 \
                   AND version_after NOT IN (SELECT version FROM line)";
    let why = format!("{GIVEN_UP}{to} was gone back to");
    let sql = format!(
        "{LINE} UPDATE samples SET state = 'dropped', reason = ?4, at_ms = ?5 WHERE state = 'trained' AND id IN \
         (SELECT sample FROM update_samples WHERE outcome = 'trained' AND \"update\" IN ({updates}))"
    );
    connection.prepare_cached(&sql)?.execute(params![adapter, to, version, why, at_ms])?;
    let sql = format!(
        "{LINE} UPDATE update_samples SET outcome = 'rejected' WHERE outcome = 'trained' AND \"update\" IN ({updates})"
    );
    connection.prepare_cached(&sql)?.execute(params![adapter, to, version])?;
    let sql = format!("{LINE} UPDATE updates SET state = 'lost' WHERE id IN ({updates})");
    connection.prepare_cached(&sql)?.execute(params![adapter, to, version])?;
    let sql = format!(
        "{LINE} UPDATE versions SET accepted = 0 WHERE adapter = ?1 AND version < ?3 \
         AND version NOT IN (SELECT version FROM line)"
    );
    connection.prepare_cached(&sql)?.execute(params![adapter, to, version])?;
    Ok(())
}

/// I3: a version and its ancestors are accepted again.
fn put_back(connection: &Connection, adapter: &str, to: i64, at_ms: i64) -> Result<(), LedgerError> {
    let lost = "adapter = ?1 AND state = 'lost' AND version_after IN (SELECT version FROM line)";
    let sql = format!(
        "{LINE} UPDATE update_samples SET outcome = 'trained' WHERE outcome = 'rejected' \
         AND \"update\" IN (SELECT id FROM updates WHERE {lost}) \
         AND sample IN (SELECT id FROM samples WHERE state = 'dropped' AND reason LIKE ?3 || '%')"
    );
    connection.prepare_cached(&sql)?.execute(params![adapter, to, GIVEN_UP])?;
    let sql = format!(
        "{LINE} UPDATE updates SET state = 'accepted' WHERE {lost} AND EXISTS \
         (SELECT 1 FROM update_samples o WHERE o.\"update\" = updates.id AND o.outcome = 'trained')"
    );
    connection.prepare_cached(&sql)?.execute(params![adapter, to])?;
    let sql = "UPDATE samples SET state = 'trained', reason = NULL, at_ms = ?2 WHERE state = 'dropped' AND id IN \
               (SELECT o.sample FROM update_samples o JOIN updates u ON u.id = o.\"update\" \
               WHERE u.adapter = ?1 AND o.outcome = 'trained')";
    connection.prepare_cached(sql)?.execute(params![adapter, at_ms])?;
    let sql = format!(
        "{LINE} UPDATE versions SET accepted = 1 WHERE adapter = ?1 AND version IN (SELECT version FROM line)"
    );
    connection.prepare_cached(&sql)?.execute(params![adapter, to])?;
    Ok(())
}
