//! Updates of an adapter, and their samples.
//!
//! I1. A sample is in at most one update at a time, and trained on at most once: a unique index enforces it. I2. Every update records its
//! samples, and every sample its updates. I3. A repeated call with the same key or number has no effect. I4. Samples of deleted turns, and
//! of users who do not share, are not used for the shared adapter. I5. In an update of the shared adapter, users have equal numbers of
//! samples, as far as they have enough.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::{EntityKind, LedgerError, SampleId, blobs, contents, names, numbers};
use crate::{RequestId, TurnId, UserId, VersionSegment};

/// Number of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct UpdateId(pub u64);

/// An adapter to train.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Name.
    pub name: String,
    /// The user whose turns train it; `None` for the shared adapter, which all sharing users train.
    pub owner: Option<UserId>,
}

/// A new update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUpdate {
    /// Key by which the trainer finds it after a crash.
    pub key: String,
    /// The adapter.
    pub adapter: Adapter,
    /// Name of the objective.
    pub objective: String,
    /// Version of the weights that it starts from.
    pub version: u64,
    /// Maximum number of samples.
    pub limit: u32,
}

/// An update and its samples.
#[derive(Debug, Clone, PartialEq)]
pub struct Taken {
    /// The update.
    pub update: UpdateId,
    /// Oldest first. If empty, the update is to be rejected.
    pub samples: Vec<TakenSample>,
}

/// A sample with all data for training.
#[derive(Debug, Clone, PartialEq)]
pub struct TakenSample {
    /// The sample.
    pub sample: SampleId,
    /// The turn.
    pub turn: TurnId,
    /// The answered request.
    pub request: RequestId,
    /// Index of the choice, from 0.
    pub choice: u32,
    /// Reward.
    pub reward: f64,
    /// A hint: what the policy should have known.
    pub hint: Option<String>,
    /// Token ids of the prompt.
    pub prompt_ids: Vec<u32>,
    /// Sampled token ids.
    pub sampled_ids: Vec<u32>,
    /// Log-probability of each at sampling, in nats.
    pub logprobs: Vec<f32>,
    /// The versions that sampled them.
    pub versions: Vec<VersionSegment>,
    /// Owner.
    pub user: UserId,
    /// Body of the request, JSON.
    pub body: String,
    /// Sampling temperature.
    pub temperature: f64,
    /// Whether a limit cut the answer.
    pub is_cut: bool,
    /// The adapter that answered; `None` for the base model.
    pub adapter: Option<String>,
}

/// The end of an update.
#[derive(Debug, Clone, PartialEq)]
pub enum Finish {
    /// Its version is in use, and its samples are trained on.
    Accepted {
        /// The new version.
        version: u64,
        /// Number of rollbacks before it.
        branch: u64,
        /// Path of the checkpoint, if there is one.
        checkpoint: Option<String>,
        /// Metrics by name.
        metrics: BTreeMap<String, f64>,
    },
    /// It failed the acceptance test. Its samples are not tried again.
    Rejected {
        /// The reasons.
        reasons: Vec<String>,
        /// Metrics by name.
        metrics: BTreeMap<String, f64>,
    },
    /// It was aborted. Its samples wait again.
    Returned {
        /// The reasons.
        reasons: Vec<String>,
    },
}

/// Starts an update with waiting samples, or returns the one with the same key.
pub(crate) fn take(connection: &Connection, new: &NewUpdate, at_ms: i64) -> Result<Taken, LedgerError> {
    let known = "SELECT id FROM updates WHERE key = ?1";
    let known: Option<i64> =
        connection.prepare_cached(known)?.query_row([&new.key], |row| row.get(0)).optional()?;
    if let Some(id) = known {
        return taken(connection, id);
    }
    let sql = "INSERT INTO updates (key, adapter, objective, version_before, state, reasons, metrics, began_ms) \
               VALUES (?1, ?2, ?3, ?4, 'running', '[]', '{}', ?5)";
    let NewUpdate { key, adapter, objective, version, limit } = new;
    let version = numbers::to_sql(*version);
    connection.prepare_cached(sql)?.execute(params![key, adapter.name, objective, version, at_ms])?;
    let id = connection.last_insert_rowid();
    let sql = "INSERT INTO update_samples (\"update\", sample, outcome) \
               SELECT ?1, id, 'taken' FROM (SELECT s.id AS id, row_number() OVER (PARTITION BY s.user ORDER BY s.id) AS place \
               FROM samples s JOIN turns t ON t.id = s.turn JOIN users u ON u.id = s.user \
               WHERE s.state = 'waiting' AND t.deleted_ms IS NULL \
               AND (s.user = ?2 OR (?2 IS NULL AND u.shares = 1))) ORDER BY place, id LIMIT ?3";
    let owner = adapter.owner.as_ref().map(|owner| &owner.0);
    connection.prepare_cached(sql)?.execute(params![id, owner, limit])?;
    set_samples(connection, id, "taken", at_ms)?;
    taken(connection, id)
}

/// Gives samples with the outcome `state` the same state, except for dropped ones, which keep their reason.
fn set_samples(connection: &Connection, update: i64, state: &str, at_ms: i64) -> Result<(), LedgerError> {
    let sql = "UPDATE samples SET state = ?2, at_ms = ?3 WHERE state <> 'dropped' AND id IN \
               (SELECT sample FROM update_samples WHERE \"update\" = ?1 AND outcome = ?2)";
    connection.prepare_cached(sql)?.execute(params![update, state, at_ms])?;
    Ok(())
}

fn taken(connection: &Connection, update: i64) -> Result<Taken, LedgerError> {
    let sql = "SELECT s.id, s.turn, s.request, s.choice, s.reward, s.hint, r.prompt_ids, a.sampled_ids, a.logprobs, \
               a.versions, s.user, r.body, a.temperature, a.finish_reason, a.adapter \
               FROM update_samples o JOIN samples s ON s.id = o.sample \
               JOIN requests r ON r.number = s.request \
               JOIN answers a ON a.request = s.request AND a.choice = s.choice \
               WHERE o.\"update\" = ?1 AND o.outcome = 'taken' AND a.exact = 1 ORDER BY s.id";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([update])?;
    let mut samples = Vec::new();
    while let Some(row) = rows.next()? {
        let blob =
            |column: usize| Ok::<_, LedgerError>(row.get::<_, Option<Vec<u8>>>(column)?.unwrap_or_default());
        let ids = |blob: Vec<u8>| if blob.is_empty() { Ok(Vec::new()) } else { blobs::read_ids(&blob) };
        let request = row.get(2)?;
        let versions: Vec<(usize, u64)> = names::read_json(&row.get::<_, String>(9)?)?;
        samples.push(TakenSample {
            sample: SampleId(numbers::from_sql(row.get(0)?)),
            turn: row.get(1)?,
            request,
            choice: row.get(3)?,
            reward: row.get(4)?,
            hint: row.get(5)?,
            prompt_ids: contents::prompt(connection, request, row.get(6)?)?,
            sampled_ids: ids(blob(7)?)?,
            logprobs: blobs::read_logprobs(&blob(8)?),
            versions: versions
                .into_iter()
                .map(|(first, version)| VersionSegment { first, version })
                .collect(),
            user: UserId(row.get(10)?),
            body: String::from_utf8_lossy(
                &contents::body(connection, request, row.get(11)?)?.unwrap_or_default(),
            )
            .into_owned(),
            temperature: row.get::<_, Option<f64>>(12)?.unwrap_or(1.0),
            is_cut: matches!(row.get::<_, String>(13)?.as_str(), "length" | "content_filter"),
            adapter: row.get(14)?,
        });
    }
    Ok(Taken { update: UpdateId(numbers::from_sql(update)), samples })
}

/// Drops samples from a running update, each with a reason.
pub(crate) fn leave_out(
    connection: &Connection,
    update: UpdateId,
    samples: &[(SampleId, String)],
    at_ms: i64,
) -> Result<(), LedgerError> {
    let id = numbers::to_sql(update.0);
    let of_update = "UPDATE update_samples SET outcome = 'rejected' WHERE \"update\" = ?1 AND sample = ?2 \
                     AND outcome = 'taken'";
    let own = "UPDATE samples SET state = 'dropped', reason = ?2, at_ms = ?3 WHERE id = ?1";
    for (sample, why) in samples {
        let sample = numbers::to_sql(sample.0);
        if connection.prepare_cached(of_update)?.execute(params![id, sample])? > 0 {
            connection.prepare_cached(own)?.execute(params![sample, why, at_ms])?;
        }
    }
    Ok(())
}

/// Owners of the update's samples.
pub(crate) fn users_of(connection: &Connection, update: UpdateId) -> Result<Vec<UserId>, LedgerError> {
    let sql = "SELECT DISTINCT s.user FROM update_samples o JOIN samples s ON s.id = o.sample WHERE o.\"update\" = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let users = statement.query_map([numbers::to_sql(update.0)], |row| Ok(UserId(row.get(0)?)))?;
    Ok(users.collect::<Result<_, _>>()?)
}

/// # Errors
/// [`LedgerError::Unknown`]; [`LedgerError::Refused`], if the update ended otherwise, or another update made the version.
pub(crate) fn finish(
    connection: &Connection,
    update: UpdateId,
    finish: &Finish,
    at_ms: i64,
) -> Result<(), LedgerError> {
    let id = numbers::to_sql(update.0);
    let sql = "SELECT state, version_after, adapter, version_before FROM updates WHERE id = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        let version = row.get::<_, Option<i64>>(1)?;
        Ok((row.get::<_, String>(0)?, version, row.get::<_, String>(2)?, row.get::<_, i64>(3)?))
    };
    let found = connection.prepare_cached(sql)?.query_row([id], read).optional()?;
    let (state, known, adapter, before) = found.ok_or(LedgerError::Unknown(EntityKind::Update))?;
    let (wanted, outcome, version, reasons, metrics) = match finish {
        Finish::Accepted { version, metrics, .. } => {
            ("accepted", "trained", Some(numbers::to_sql(*version)), &Vec::new(), metrics)
        }
        Finish::Rejected { reasons, metrics } => ("rejected", "rejected", None, reasons, metrics),
        Finish::Returned { reasons } => ("rejected", "returned", None, reasons, &BTreeMap::new()),
    };
    if state == wanted && known == version {
        return Ok(());
    }
    if state != "running" {
        return Err(LedgerError::Refused(format!("the update {} is {state} already", update.0)));
    }
    if let Finish::Accepted { branch, checkpoint, .. } = finish {
        let sql = "INSERT INTO versions (adapter, version, parent, branch, accepted, checkpoint, at_ms) \
                   VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6) ON CONFLICT (adapter, version) DO UPDATE \
                   SET parent = ?3, branch = ?4, accepted = 1, checkpoint = ?5, at_ms = ?6 WHERE accepted = 0";
        let branch = numbers::to_sql(*branch);
        let mut statement = connection.prepare_cached(sql)?;
        if statement.execute(params![adapter, version, before, branch, checkpoint, at_ms])? == 0 {
            return Err(LedgerError::Refused(format!("{adapter} has another version of that number")));
        }
    }
    let sql = "UPDATE updates SET state = ?2, version_after = ?3, reasons = ?4, metrics = ?5, ended_ms = ?6 \
               WHERE id = ?1";
    let (reasons, metrics) = (names::json(reasons)?, names::json(metrics)?);
    connection.prepare_cached(sql)?.execute(params![id, wanted, version, reasons, metrics, at_ms])?;
    let sql = "UPDATE update_samples SET outcome = ?2 WHERE \"update\" = ?1 AND outcome = 'taken'";
    connection.prepare_cached(sql)?.execute(params![id, outcome])?;
    if outcome == "returned" {
        wait_again(connection, "SELECT sample FROM update_samples WHERE \"update\" = ?1", params![id, at_ms])
    } else {
        set_samples(connection, id, outcome, at_ms)
    }
}

/// Returns the samples of an update to waiting, except for those of deleted turns. The second parameter is the time.
pub(crate) fn wait_again(
    connection: &Connection,
    samples: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<(), LedgerError> {
    let is_deleted = "(SELECT deleted_ms IS NOT NULL FROM turns WHERE turns.id = samples.turn)";
    let sql = format!(
        "UPDATE samples SET at_ms = ?2, state = CASE WHEN {is_deleted} THEN 'dropped' ELSE 'waiting' END, \
         reason = CASE WHEN {is_deleted} THEN 'deleted' END \
         WHERE state IN ('taken', 'trained') AND id IN ({samples})"
    );
    connection.prepare_cached(&sql)?.execute(values)?;
    Ok(())
}
