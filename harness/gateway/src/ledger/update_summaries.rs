//! Updates with a user's turns, and their metrics, for the dashboard.
//!
//! I1. Users see the updates that have, or had, their samples, and only their own turns in them.

use rusqlite::{Connection, params};

use super::{LedgerError, UpdateId, names, numbers};
use crate::{TurnId, UserId};

/// Maximum number of listed turns.
const TURNS: u32 = 200;

/// An update, as one of its users sees it.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct UpdateSummary {
    pub(crate) update: UpdateId,
    pub(crate) adapter: String,
    pub(crate) objective: String,
    pub(crate) version_before: u64,
    pub(crate) version_after: Option<u64>,
    /// `running`, `accepted`, `rejected` or `lost`.
    pub(crate) state: String,
    /// Why it was rejected.
    pub(crate) reasons: Vec<String>,
    /// Metrics by name.
    pub(crate) metrics: serde_json::Map<String, serde_json::Value>,
    pub(crate) began_ms: i64,
    pub(crate) ended_ms: Option<i64>,
    /// Number of rollbacks before its version; `None` without a version.
    pub(crate) branch: Option<u64>,
    /// The first of the user's turns, with the outcome of each sample.
    pub(crate) turns: Vec<(TurnId, String)>,
    /// Number of the user's turns.
    pub(crate) turn_count: u64,
}

/// Updates before `before`, newest first.
pub(crate) fn update_summaries(
    connection: &Connection,
    user: &UserId,
    before: Option<UpdateId>,
    limit: u32,
) -> Result<Vec<UpdateSummary>, LedgerError> {
    let sql = "SELECT u.id, u.adapter, u.objective, u.version_before, u.version_after, u.state, u.reasons, u.metrics, \
               u.began_ms, u.ended_ms, v.branch, count(*) FROM updates u \
               JOIN update_samples o ON o.\"update\" = u.id JOIN samples s ON s.id = o.sample \
               LEFT JOIN versions v ON v.adapter = u.adapter AND v.version = u.version_after \
               WHERE s.user = ?1 AND (?2 IS NULL OR u.id < ?2) GROUP BY u.id ORDER BY u.id DESC LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let before = before.map(|before| numbers::to_sql(before.0));
    let mut rows = statement.query(params![user.0, before, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        found.push(UpdateSummary {
            update: UpdateId(numbers::from_sql(id)),
            adapter: row.get(1)?,
            objective: row.get(2)?,
            version_before: numbers::from_sql(row.get(3)?),
            version_after: row.get::<_, Option<i64>>(4)?.map(numbers::from_sql),
            state: row.get(5)?,
            reasons: names::read_json(&row.get::<_, String>(6)?)?,
            metrics: names::read_json(&row.get::<_, String>(7)?)?,
            began_ms: row.get(8)?,
            ended_ms: row.get(9)?,
            branch: row.get::<_, Option<i64>>(10)?.map(numbers::from_sql),
            turns: turns(connection, user, id)?,
            turn_count: numbers::from_sql(row.get(11)?),
        });
    }
    Ok(found)
}

/// Metrics of an update.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UpdateMetrics {
    pub(crate) update: UpdateId,
    pub(crate) adapter: String,
    /// Whether its version is in use or an ancestor of the version in use.
    pub(crate) is_accepted: bool,
    /// By name.
    pub(crate) metrics: serde_json::Map<String, serde_json::Value>,
}

/// Metrics of the newest ended updates with the user's turns, oldest first.
pub(crate) fn update_metrics(
    connection: &Connection,
    user: &UserId,
    limit: u32,
) -> Result<Vec<UpdateMetrics>, LedgerError> {
    let sql = "SELECT id, adapter, state = 'accepted', metrics FROM updates WHERE ended_ms IS NOT NULL AND id IN \
               (SELECT o.\"update\" FROM update_samples o JOIN samples s ON s.id = o.sample WHERE s.user = ?1) \
               ORDER BY id DESC LIMIT ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![user.0, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(UpdateMetrics {
            update: UpdateId(numbers::from_sql(row.get(0)?)),
            adapter: row.get(1)?,
            is_accepted: row.get(2)?,
            metrics: names::read_json(&row.get::<_, String>(3)?)?,
        });
    }
    found.reverse();
    Ok(found)
}

fn turns(connection: &Connection, user: &UserId, update: i64) -> Result<Vec<(TurnId, String)>, LedgerError> {
    let sql = "SELECT s.turn, o.outcome FROM update_samples o JOIN samples s ON s.id = o.sample \
               WHERE o.\"update\" = ?1 AND s.user = ?2 ORDER BY s.id LIMIT ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(params![update, user.0, TURNS], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
