//! Deletion of what a user said and was answered.
//!
//! I1. Content goes, and what was made from it: bodies, texts, tokens, log-probabilities, next states, feedback, votes,
//! hints, rewards. A row without content stays, marked as deleted, so that numbers are not used again and nothing is trained
//! on it. I2. A client sends the whole conversation with each request: so the turns behind a deleted one in its session go
//! with it, because their requests repeat it. I3. What was said about the turn before on account of the deleted words (its
//! next state, votes about that, its reward) goes too. I4. What was trained cannot be taken back: the versions are told.
//!
//! A session that is open ends with it: linking could not be made again without the words.

use rusqlite::{Connection, OptionalExtension, params};

use super::{GIVEN_UP, LedgerError, Thing, UpdateId, contents, events, numbers, words};
use crate::{SessionId, TurnId, UserId};

/// What is to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// A turn, and those behind it in its session: their requests repeat it.
    Turn(TurnId),
    /// All of a session.
    Session(SessionId),
    /// Everything of the user.
    All,
}

/// What was deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Turns that are deleted now and were not before.
    pub turns: u64,
    /// Their requests.
    pub requests: u64,
    /// Samples that waited and will not be trained.
    pub samples: u64,
    /// Adapters and their versions that have what was learned from what is deleted.
    pub versions: Vec<(String, u64)>,
    /// Updates that are being made from it. If they are accepted, their versions were trained on it, too.
    pub running: Vec<UpdateId>,
}

/// Deletes, and says which sessions were open and are over now.
///
/// # Errors
/// [`LedgerError::Unknown`], if the user has no such thing.
pub(crate) fn delete(
    connection: &Connection,
    user: &UserId,
    what: Deletion,
    at_ms: i64,
) -> Result<(Deleted, Vec<SessionId>), LedgerError> {
    let turns = turns(connection, user, what)?;
    let chosen = words::json(&turns)?;
    // I3: turns whose next states are in what is deleted. A next state is of the turn's own session and user.
    let told = numbers_of(
        connection,
        "SELECT turn FROM next_states WHERE request IN \
         (SELECT number FROM requests WHERE turn IN (SELECT value FROM json_each(?1)))",
        &chosen,
    )?;
    let touched = words::json(&turns.iter().chain(&told).collect::<Vec<_>>())?;
    let run = |sql: &str, chosen: &str| connection.prepare_cached(sql)?.execute(params![chosen, at_ms]);
    let deleted = Deleted {
        versions: versions(connection, &touched)?,
        running: numbers_of(
            connection,
            "SELECT DISTINCT u.id FROM samples s JOIN update_samples o ON o.sample = s.id \
             JOIN updates u ON u.id = o.\"update\" \
             WHERE s.turn IN (SELECT value FROM json_each(?1)) AND o.outcome = 'taken'",
            &touched,
        )?
        .into_iter()
        .map(|id| UpdateId(numbers::from_sql(id)))
        .collect(),
        samples: run(
            "UPDATE samples SET state = 'dropped', reason = 'deleted', at_ms = ?2 \
             WHERE turn IN (SELECT value FROM json_each(?1)) AND state = 'waiting'",
            &touched,
        )? as u64,
        requests: run(
            "UPDATE requests SET headers = NULL, body = NULL, body_sha256 = NULL, model = NULL, sampling = NULL, \
             prompt_ids = NULL, mark = NULL, reason = NULL, deleted_ms = ?2 \
             WHERE turn IN (SELECT value FROM json_each(?1)) AND deleted_ms IS NULL",
            &chosen,
        )? as u64,
        turns: run(
            "UPDATE turns SET mark = NULL, said = NULL, deleted_ms = ?2 \
             WHERE id IN (SELECT value FROM json_each(?1)) AND deleted_ms IS NULL",
            &chosen,
        )? as u64,
    };
    contents::make_whole::<u8>(connection, &chosen)?;
    contents::make_whole::<u32>(connection, &chosen)?;
    for sql in [
        "DELETE FROM bodies WHERE request IN \
         (SELECT number FROM requests WHERE turn IN (SELECT value FROM json_each(?1)))",
        "DELETE FROM prompts WHERE request IN \
         (SELECT number FROM requests WHERE turn IN (SELECT value FROM json_each(?1)))",
    ] {
        connection.prepare_cached(sql)?.execute([&chosen])?;
    }
    run(
        "UPDATE answers SET text = NULL, reasoning = NULL, calls = NULL, sampled_ids = NULL, logprobs = NULL, \
         exact = 0, inexact = 'deleted', deleted_ms = ?2 WHERE deleted_ms IS NULL AND request IN \
         (SELECT number FROM requests WHERE turn IN (SELECT value FROM json_each(?1)))",
        &chosen,
    )?;
    run(
        "UPDATE feedback SET thumb = NULL, text = NULL, score = NULL, reaction = NULL, deleted_ms = ?2 \
         WHERE deleted_ms IS NULL AND (turn IN (SELECT value FROM json_each(?1)) OR request IN \
         (SELECT number FROM requests WHERE turn IN (SELECT value FROM json_each(?1))))",
        &chosen,
    )?;
    for sql in [
        "UPDATE samples SET hint = NULL WHERE turn IN (SELECT value FROM json_each(?1))",
        "DELETE FROM votes WHERE turn IN (SELECT value FROM json_each(?1))",
        "DELETE FROM rewards WHERE turn IN (SELECT value FROM json_each(?1))",
    ] {
        connection.prepare_cached(sql)?.execute([&touched])?;
    }
    let sql = "DELETE FROM next_states WHERE turn IN (SELECT value FROM json_each(?1)) OR request IN \
               (SELECT number FROM requests WHERE turn IN (SELECT value FROM json_each(?1)))";
    connection.prepare_cached(sql)?.execute([&chosen])?;
    Ok((deleted, close_sessions(connection, &chosen, at_ms)?))
}

fn turns(connection: &Connection, user: &UserId, what: Deletion) -> Result<Vec<i64>, LedgerError> {
    let (number, thing, session, sql) = match what {
        Deletion::Turn(turn) => (
            turn.0,
            Thing::Turn,
            "SELECT session FROM turns WHERE id = ?1 AND user = ?2",
            "SELECT id FROM turns WHERE session = ?2 AND user = ?3 AND id >= ?1",
        ),
        Deletion::Session(session) => (
            session.0,
            Thing::Session,
            "SELECT id FROM sessions WHERE id = ?1 AND user = ?2",
            "SELECT id FROM turns WHERE session = ?2 AND user = ?3 AND ?1 = ?1",
        ),
        Deletion::All => {
            let mut statement = connection.prepare_cached("SELECT id FROM turns WHERE user = ?1")?;
            let turns = statement.query_map([&user.0], |row| row.get(0))?.collect::<Result<_, _>>()?;
            return Ok(turns);
        }
    };
    let mut statement = connection.prepare_cached(session)?;
    let session: Option<i64> = statement.query_row(params![number, user.0], |row| row.get(0)).optional()?;
    let session = session.ok_or(LedgerError::Unknown(thing))?;
    let mut statement = connection.prepare_cached(sql)?;
    let turns = statement.query_map(params![number, session, user.0], |row| row.get(0))?;
    Ok(turns.collect::<Result<_, _>>()?)
}

fn numbers_of(connection: &Connection, sql: &str, chosen: &str) -> Result<Vec<i64>, LedgerError> {
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_map([chosen], |row| row.get(0))?;
    Ok(found.collect::<Result<_, _>>()?)
}

fn versions(connection: &Connection, touched: &str) -> Result<Vec<(String, u64)>, LedgerError> {
    // With all that was made from them: what was learned on top, and what they were gone back to as.
    let sql = "WITH RECURSIVE of (adapter, version) AS ( \
               SELECT u.adapter, u.version_after FROM samples s JOIN update_samples o ON o.sample = s.id \
               JOIN updates u ON u.id = o.\"update\" WHERE s.turn IN (SELECT value FROM json_each(?1)) \
               AND (o.outcome = 'trained' OR (u.state = 'lost' AND s.reason LIKE ?2 || '%')) \
               UNION SELECT v.adapter, v.version FROM versions v JOIN of ON v.adapter = of.adapter \
               AND v.parent = of.version) SELECT adapter, version FROM of ORDER BY 1, 2";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, numbers::from_sql(row.get(1)?)));
    // What was given up may be gone back to.
    Ok(statement.query_map([touched, GIVEN_UP], read)?.collect::<Result<_, _>>()?)
}

fn close_sessions(connection: &Connection, chosen: &str, at_ms: i64) -> Result<Vec<SessionId>, LedgerError> {
    let sql = "SELECT DISTINCT s.id FROM turns t JOIN sessions s ON s.id = t.session \
               WHERE t.id IN (SELECT value FROM json_each(?1)) AND s.closed_ms IS NULL";
    let mut statement = connection.prepare_cached(sql)?;
    let open: Vec<SessionId> = statement.query_map([chosen], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for session in &open {
        events::close(connection, *session, "deleted", at_ms)?;
    }
    Ok(open)
}
