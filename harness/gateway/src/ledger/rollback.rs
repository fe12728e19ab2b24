//! Versions of adapters, and going back to an older one.
//!
//! I1. What was learned after the version that is gone back to is given up: its samples are not trained again, and its updates
//! say so. I2. Doing it twice is doing it once.

use rusqlite::{Connection, Row, params};
use serde::Serialize;

use super::{LedgerError, numbers};

/// A version of an adapter that was in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionView {
    /// Its number.
    pub version: u64,
    /// The version that it was made from; nothing for the first.
    pub parent: Option<u64>,
    /// How often training went on from an older version before.
    pub branch: u64,
    /// Whether it is in use, or leads to what is; not where it was given up.
    pub accepted: bool,
    /// Path of its checkpoint, where it had one.
    pub checkpoint: Option<String>,
    /// When it was made. Unix time in milliseconds.
    pub at_ms: i64,
}

/// An older version is gone back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollBack {
    /// The adapter.
    pub adapter: String,
    /// The version whose weights it has again; 0 for what learning began with.
    pub to: u64,
    /// The number that these have from now on.
    pub version: u64,
    /// Path of the checkpoint.
    pub checkpoint: Option<String>,
}

/// Newest first.
pub(crate) fn versions(
    connection: &Connection,
    adapter: &str,
    limit: u32,
) -> Result<Vec<VersionView>, LedgerError> {
    let sql = "SELECT version, parent, branch, accepted, checkpoint, at_ms FROM versions WHERE adapter = ?1 \
               ORDER BY version DESC LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| {
        Ok(VersionView {
            version: numbers::from_sql(row.get(0)?),
            parent: row.get::<_, Option<i64>>(1)?.map(numbers::from_sql),
            branch: numbers::from_sql(row.get(2)?),
            accepted: row.get(3)?,
            checkpoint: row.get(4)?,
            at_ms: row.get(5)?,
        })
    };
    Ok(statement.query_map(params![adapter, limit], read)?.collect::<Result<_, _>>()?)
}

pub(crate) fn roll_back(connection: &Connection, back: &RollBack, at_ms: i64) -> Result<(), LedgerError> {
    let RollBack { adapter, to, version, checkpoint } = back;
    let (to, version) = (numbers::to_sql(*to), numbers::to_sql(*version));
    let given_up = "SELECT id FROM updates WHERE adapter = ?1 AND state IN ('accepted', 'lost') AND version_after > ?2 \
                    AND version_after < ?3";
    let why = format!("given up when version {to} was gone back to");
    let sql = format!(
        "UPDATE samples SET state = 'dropped', reason = ?4, at_ms = ?5 WHERE state = 'trained' AND id IN \
         (SELECT sample FROM update_samples WHERE outcome = 'trained' AND \"update\" IN ({given_up}))"
    );
    connection.prepare_cached(&sql)?.execute(params![adapter, to, version, why, at_ms])?;
    let sql = format!(
        "UPDATE update_samples SET outcome = 'rejected' WHERE outcome = 'trained' AND \"update\" IN ({given_up})"
    );
    connection.prepare_cached(&sql)?.execute(params![adapter, to, version])?;
    let sql = "UPDATE updates SET state = 'lost' WHERE adapter = ?1 AND state = 'accepted' AND version_after > ?2 \
               AND version_after < ?3";
    connection.prepare_cached(sql)?.execute(params![adapter, to, version])?;
    let sql = "UPDATE versions SET accepted = 0 WHERE adapter = ?1 AND version > ?2 AND version < ?3";
    connection.prepare_cached(sql)?.execute(params![adapter, to, version])?;
    let sql = "INSERT INTO versions (adapter, version, parent, branch, accepted, checkpoint, at_ms) \
               SELECT ?1, ?2, ?3, coalesce(max(branch), 0) + 1, 1, ?4, ?5 FROM versions WHERE adapter = ?1 \
               ON CONFLICT (adapter, version) DO NOTHING";
    connection.prepare_cached(sql)?.execute(params![adapter, version, to, checkpoint, at_ms])?;
    Ok(())
}
