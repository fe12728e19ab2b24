//! Rows of votes, rewards and training samples.
//!
//! I1. A repeated call is recorded once. I2. A sample is made only from an answer that can be trained on, and at most one per answer. I3.
//! The reward of a sample may change until an update takes it; a sample that was dropped as neutral waits again when it gets a signal.

use rusqlite::{Connection, OptionalExtension, params};

use super::{EntityKind, LedgerError, numbers};
use crate::{RequestId, TurnId};

/// Why a sample without a signal is dropped. Such a sample waits again when it gets one.
pub const NEUTRAL: &str = "its reward is 0 or it has none, and no teacher has a hint";

/// Number of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct SampleId(pub u64);

/// A judge's vote on a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVote {
    /// The turn.
    pub turn: TurnId,
    /// Name of the judge.
    pub judge: String,
    /// Index of the vote among the judge's votes on this turn, from 0. Turn, judge and index identify the vote.
    pub ballot: u32,
    /// -1 for bad, 1 for good, 0 for neutral; or why there is no score.
    pub score: Result<i8, String>,
    /// A hint: what the policy should have known.
    pub hint: Option<String>,
    /// The judge's reply.
    pub raw: String,
}

/// The reward of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReward {
    /// The turn.
    pub turn: TurnId,
    /// In reward units.
    pub value: f64,
    /// Where the reward comes from.
    pub source: String,
}

/// An answer to train on.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSample {
    /// The answered request.
    pub request: RequestId,
    /// Index of the choice, from 0.
    pub choice: u32,
    /// Reward.
    pub reward: f64,
    /// A hint: what the policy should have known.
    pub hint: Option<String>,
}

/// Returns whether the vote is new.
pub(crate) fn add_vote(connection: &Connection, vote: &NewVote, at_ms: i64) -> Result<bool, LedgerError> {
    check_turn(connection, vote.turn)?;
    let (score, reason) = match &vote.score {
        Ok(score) => (Some(score), None),
        Err(reason) => (None, Some(reason)),
    };
    let sql = "INSERT INTO votes (turn, judge, ballot, score, reason, hint, raw, at_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO NOTHING";
    let mut statement = connection.prepare_cached(sql)?;
    let NewVote { turn, judge, ballot, hint, raw, .. } = vote;
    Ok(statement.execute(params![turn, judge, ballot, score, reason, hint, raw, at_ms])? > 0)
}

/// The latest reward counts. Its time is updated even if the value is the same, because it includes all earlier feedback.
pub(crate) fn set_reward(connection: &Connection, reward: &NewReward, at_ms: i64) -> Result<(), LedgerError> {
    check_turn(connection, reward.turn)?;
    check_finite(reward.value)?;
    let sql = "INSERT INTO rewards (turn, value, source, at_ms) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (turn) DO UPDATE SET value = ?2, source = ?3, at_ms = ?4";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute(params![reward.turn, reward.value, reward.source, at_ms])?;
    Ok(())
}

/// The sample of the answer, and its turn. An existing sample gets the new reward while it waits.
pub(crate) fn add_sample(
    connection: &Connection,
    sample: &NewSample,
    at_ms: i64,
) -> Result<(SampleId, TurnId), LedgerError> {
    check_finite(sample.reward)?;
    let sql = "SELECT r.user, r.turn, a.inexact FROM answers a JOIN requests r ON r.number = a.request \
               WHERE a.request = ?1 AND a.choice = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok((row.get::<_, String>(0)?, row.get::<_, TurnId>(1)?, row.get::<_, Option<String>>(2)?))
    };
    let key = params![sample.request, sample.choice];
    let (user, turn, inexact) =
        statement.query_row(key, read).optional()?.ok_or(LedgerError::Unknown(EntityKind::Answer))?;
    if let Some(id) = sample_of(connection, sample)? {
        // Only a waiting sample changes; one in an update does not. Its waiting time does not restart.
        let sql = "UPDATE samples SET reward = ?2, hint = ?3 WHERE id = ?1 AND state = 'waiting'";
        let (number, NewSample { reward, hint, .. }) = (numbers::to_sql(id.0), sample);
        connection.prepare_cached(sql)?.execute(params![number, reward, hint])?;
        // A sample that was dropped as neutral waits again when it has a signal.
        let sql = "UPDATE samples SET reward = ?2, hint = ?3, state = 'waiting', reason = NULL, at_ms = ?4 \
                   WHERE id = ?1 AND state = 'dropped' AND reason = ?5 AND (reward <> ?2 OR hint IS NOT ?3)";
        connection.prepare_cached(sql)?.execute(params![number, reward, hint, at_ms, NEUTRAL])?;
        return Ok((id, turn));
    }
    if let Some(why) = inexact {
        return Err(LedgerError::Refused(format!("the answer cannot be trained on: {why}")));
    }
    let sql = "INSERT INTO samples (user, turn, request, choice, reward, hint, state, at_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'waiting', ?7)";
    let NewSample { request, choice, reward, hint } = sample;
    connection.prepare_cached(sql)?.execute(params![user, turn, request, choice, reward, hint, at_ms])?;
    Ok((SampleId(numbers::from_sql(connection.last_insert_rowid())), turn))
}

/// Drops a waiting sample. Returns whether it was waiting.
pub(crate) fn drop_sample(
    connection: &Connection,
    sample: SampleId,
    why: &str,
    at_ms: i64,
) -> Result<bool, LedgerError> {
    let sql =
        "UPDATE samples SET state = 'dropped', reason = ?2, at_ms = ?3 WHERE id = ?1 AND state = 'waiting'";
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.execute(params![numbers::to_sql(sample.0), why, at_ms])? > 0)
}

fn sample_of(connection: &Connection, sample: &NewSample) -> Result<Option<SampleId>, LedgerError> {
    let sql = "SELECT id FROM samples WHERE request = ?1 AND choice = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let id = statement.query_row(params![sample.request, sample.choice], |row| row.get(0)).optional()?;
    Ok(id.map(|id| SampleId(numbers::from_sql(id))))
}

fn check_turn(connection: &Connection, turn: TurnId) -> Result<(), LedgerError> {
    let sql = "SELECT 1 FROM turns WHERE id = ?1 AND deleted_ms IS NULL";
    let is_there = connection.prepare_cached(sql)?.exists([turn])?;
    if is_there { Ok(()) } else { Err(LedgerError::Unknown(EntityKind::Turn)) }
}

fn check_finite(reward: f64) -> Result<(), LedgerError> {
    let refused = || LedgerError::Refused("a reward must be a finite number".to_owned());
    reward.is_finite().then_some(()).ok_or_else(refused)
}
