//! Recovery: makes the ledger agree with a checkpoint.
//!
//! I1. The checkpoint is the truth: the samples that it lists are trained on; samples of a running update or a later version that it does
//! not list wait again. I2. A repeated recovery has no effect.

use rusqlite::{Connection, params};

use super::{LedgerError, SampleId, names, numbers, updates};

/// Changes of a recovery.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Samples that are newly marked as trained on.
    pub trained: u64,
    /// Samples that wait again.
    pub waiting: u64,
}

/// `listed`: all samples that `version` of `adapter` was trained on, by the manifest of its checkpoint.
pub(crate) fn reconcile(
    connection: &Connection,
    (adapter, version, checkpoint): (&str, u64, Option<&str>),
    listed: &[SampleId],
    at_ms: i64,
) -> Result<Reconciled, LedgerError> {
    let version = numbers::to_sql(version);
    let listed = names::json(&listed.iter().map(|id| numbers::to_sql(id.0)).collect::<Vec<_>>())?;
    // Samples that are not in the weights.
    let lost = "SELECT o.sample FROM update_samples o JOIN updates u ON u.id = o.\"update\" WHERE u.adapter = ?1 \
                AND (o.outcome = 'taken' OR (o.outcome = 'trained' AND u.version_after > ?3)) \
                AND o.sample NOT IN (SELECT value FROM json_each(?4))";
    let before = waiting(connection)?;
    updates::wait_again(connection, lost, params![adapter, at_ms, version, listed])?;
    let waiting = waiting(connection)? - before;
    let sql = "UPDATE update_samples SET outcome = 'returned' WHERE outcome IN ('taken', 'trained') \
               AND sample IN (SELECT id FROM samples WHERE state IN ('waiting', 'dropped'))";
    connection.prepare_cached(sql)?.execute([])?;
    // Samples that are, by their last update up to this version.
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

/// Running updates made this version or nothing; updates of later versions are lost.
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
