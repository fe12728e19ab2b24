//! Recovery, after which ledger and checkpoint say the same.
//!
//! I1. The checkpoint is the truth: what it lists is trained; what an update had taken, or what counted as trained by a
//! later version, and is not listed, waits again. I2. Doing it twice is doing it once.

use rusqlite::{Connection, params};

use super::{LedgerError, SampleId, numbers, updates, words};

/// What recovery has changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Samples that count as trained now, and did not.
    pub trained: u64,
    /// Samples that wait again.
    pub waiting: u64,
}

/// `listed`: all that weights of `version` of `adapter` were trained on, by the manifest of their checkpoint, which is at the path.
pub(crate) fn reconcile(
    connection: &Connection,
    (adapter, version, checkpoint): (&str, u64, Option<&str>),
    listed: &[SampleId],
    at_ms: i64,
) -> Result<Reconciled, LedgerError> {
    let version = numbers::to_sql(version);
    let listed = words::json(&listed.iter().map(|id| numbers::to_sql(id.0)).collect::<Vec<_>>())?;
    // What is not in the weights.
    let lost = "SELECT o.sample FROM update_samples o JOIN updates u ON u.id = o.\"update\" WHERE u.adapter = ?1 \
                AND (o.outcome = 'taken' OR (o.outcome = 'trained' AND u.version_after > ?3)) \
                AND o.sample NOT IN (SELECT value FROM json_each(?4))";
    let before = waiting(connection)?;
    updates::wait_again(connection, lost, params![adapter, at_ms, version, listed])?;
    let waiting = waiting(connection)? - before;
    let sql = "UPDATE update_samples SET outcome = 'returned' WHERE outcome IN ('taken', 'trained') \
               AND sample IN (SELECT id FROM samples WHERE state IN ('waiting', 'dropped'))";
    connection.prepare_cached(sql)?.execute([])?;
    // What is: by the update that had it last, which has made this version at the latest.
    let sql = "UPDATE update_samples AS o SET outcome = 'trained' WHERE outcome <> 'trained' \
               AND sample IN (SELECT value FROM json_each(?2)) \
               AND sample NOT IN (SELECT sample FROM update_samples WHERE outcome = 'trained') \
               AND \"update\" = (SELECT max(i.\"update\") FROM update_samples i JOIN updates u ON u.id = i.\"update\" \
               WHERE i.sample = o.sample AND u.adapter = ?1)";
    connection.prepare_cached(sql)?.execute(params![adapter, listed])?;
    let sql = "UPDATE samples SET state = 'trained', reason = NULL, at_ms = ?2 WHERE state <> 'trained' \
               AND id IN (SELECT o.sample FROM update_samples o JOIN updates u ON u.id = o.\"update\" \
               WHERE u.adapter = ?1 AND o.outcome = 'trained')";
    let trained = connection.prepare_cached(sql)?.execute(params![adapter, at_ms])? as u64;
    end_updates(connection, (adapter, version, checkpoint), at_ms)?;
    Ok(Reconciled { trained, waiting: numbers::from_sql(waiting) })
}

/// Updates that run have made this version, or nothing; those that made later ones are lost.
fn end_updates(
    connection: &Connection,
    (adapter, version, checkpoint): (&str, i64, Option<&str>),
    at_ms: i64,
) -> Result<(), LedgerError> {
    // On the branch of the version that it was made from.
    let sql = "INSERT INTO versions (adapter, version, parent, branch, accepted, checkpoint, at_ms) \
               SELECT ?1, ?2, base, coalesce((SELECT branch FROM versions WHERE adapter = ?1 AND version = base), 0), \
               1, ?4, ?3 FROM (SELECT max(version_before) AS base FROM updates u WHERE adapter = ?1 AND state = 'running' \
               AND EXISTS (SELECT 1 FROM update_samples WHERE \"update\" = u.id AND outcome = 'trained') HAVING count(*) > 0) \
               WHERE true ON CONFLICT (adapter, version) DO UPDATE SET accepted = 1";
    connection.prepare_cached(sql)?.execute(params![adapter, version, at_ms, checkpoint])?;
    let sql = "UPDATE updates AS u SET ended_ms = ?3, \
               state = CASE WHEN EXISTS (SELECT 1 FROM update_samples WHERE \"update\" = u.id AND outcome = 'trained') \
               THEN 'accepted' ELSE 'rejected' END, \
               version_after = CASE WHEN EXISTS (SELECT 1 FROM update_samples WHERE \"update\" = u.id \
               AND outcome = 'trained') THEN ?2 END, \
               reasons = CASE WHEN EXISTS (SELECT 1 FROM update_samples WHERE \"update\" = u.id \
               AND outcome = 'trained') THEN '[]' ELSE '[\"it did not reach the checkpoint\"]' END \
               WHERE adapter = ?1 AND state = 'running'";
    connection.prepare_cached(sql)?.execute(params![adapter, version, at_ms])?;
    let sql =
        "UPDATE updates SET state = 'lost' WHERE adapter = ?1 AND state = 'accepted' AND version_after > ?2";
    connection.prepare_cached(sql)?.execute(params![adapter, version])?;
    let sql = "UPDATE versions SET accepted = 0 WHERE adapter = ?1 AND version > ?2";
    connection.prepare_cached(sql)?.execute(params![adapter, version])?;
    Ok(())
}

fn waiting(connection: &Connection) -> Result<i64, LedgerError> {
    let sql = "SELECT count(*) FROM samples WHERE state = 'waiting'";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}
