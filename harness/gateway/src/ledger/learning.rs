//! What is said about turns, and samples made from them, as rows.
//!
//! I1. Whatever is told twice is recorded once. I2. A sample is made only from an answer that may be trained, and at most one
//! from each. I3. What a sample is worth may change until an update takes it, and not after; one that was left
//! out as worth nothing waits again when it is worth something.

use rusqlite::{Connection, OptionalExtension, params};

use super::{LedgerError, Thing, numbers};
use crate::{RequestId, TurnId};

/// Why a sample is left out of which nobody said anything that could be learned from. One of this reason waits again when somebody does.
pub const NEUTRAL: &str = "its reward is 0 or it has none, and no teacher has a hint";

/// Number of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
pub struct SampleId(pub u64);

/// One judge's vote about a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVote {
    /// The turn.
    pub turn: TurnId,
    /// Who votes.
    pub judge: String,
    /// Which of the judge's votes about this turn, from 0. With turn and judge it names the vote.
    pub ballot: u32,
    /// -1 for bad, 1 for good, 0 for neither; or why there is none.
    pub score: Result<i8, String>,
    /// What the policy should have known, if the judge says so.
    pub hint: Option<String>,
    /// The judge's words.
    pub raw: String,
}

/// What a turn is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct NewReward {
    /// The turn.
    pub turn: TurnId,
    /// In units of reward.
    pub value: f64,
    /// From what, in words.
    pub source: String,
}

/// An answer that is to be trained.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSample {
    /// The request that was answered.
    pub request: RequestId,
    /// Which choice of the answer, from 0.
    pub choice: u32,
    /// What it is worth.
    pub reward: f64,
    /// What the policy should have known.
    pub hint: Option<String>,
}

/// Whether it is new.
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

/// The latest one counts, and its time also where it says the same as before: feedback that is older is in it.
pub(crate) fn set_reward(connection: &Connection, reward: &NewReward, at_ms: i64) -> Result<(), LedgerError> {
    check_turn(connection, reward.turn)?;
    check_finite(reward.value)?;
    let sql = "INSERT INTO rewards (turn, value, source, at_ms) VALUES (?1, ?2, ?3, ?4) \
               ON CONFLICT (turn) DO UPDATE SET value = ?2, source = ?3, at_ms = ?4";
    let mut statement = connection.prepare_cached(sql)?;
    statement.execute(params![reward.turn, reward.value, reward.source, at_ms])?;
    Ok(())
}

/// The sample of that answer, and its turn; the one that is there, if there is one, worth what is said now while it waits.
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
        statement.query_row(key, read).optional()?.ok_or(LedgerError::Unknown(Thing::Answer))?;
    if let Some(id) = sample_of(connection, sample)? {
        // What was said since may be otherwise; what is in an update stays what it was. It has waited as long as before.
        let sql = "UPDATE samples SET reward = ?2, hint = ?3 WHERE id = ?1 AND state = 'waiting'";
        let (number, NewSample { reward, hint, .. }) = (numbers::to_sql(id.0), sample);
        connection.prepare_cached(sql)?.execute(params![number, reward, hint])?;
        // What was left out because nothing was said of it is learned from when something is.
        let sql = "UPDATE samples SET reward = ?2, hint = ?3, state = 'waiting', reason = NULL, at_ms = ?4 \
                   WHERE id = ?1 AND state = 'dropped' AND reason = ?5 AND (reward <> ?2 OR hint IS NOT ?3)";
        connection.prepare_cached(sql)?.execute(params![number, reward, hint, at_ms, NEUTRAL])?;
        return Ok((id, turn));
    }
    if let Some(why) = inexact {
        return Err(LedgerError::Refused(format!("the answer cannot be trained: {why}")));
    }
    let sql = "INSERT INTO samples (user, turn, request, choice, reward, hint, state, at_ms) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'waiting', ?7)";
    let NewSample { request, choice, reward, hint } = sample;
    connection.prepare_cached(sql)?.execute(params![user, turn, request, choice, reward, hint, at_ms])?;
    Ok((SampleId(numbers::from_sql(connection.last_insert_rowid())), turn))
}

/// A sample that waits is not to be trained. Whether it waited.
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
    if is_there { Ok(()) } else { Err(LedgerError::Unknown(Thing::Turn)) }
}

fn check_finite(reward: f64) -> Result<(), LedgerError> {
    let refused = || LedgerError::Refused("a reward is a finite number".to_owned());
    reward.is_finite().then_some(()).ok_or_else(refused)
}
