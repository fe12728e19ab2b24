//! Deletion of a user's requests and answers.
//!
//! I1. Content and everything made from it is deleted: bodies, texts, tokens, log-probabilities, next states, feedback, votes, hints,
//! rewards. An empty row remains, marked as deleted, so that its number is not reused and nothing is trained on it. I2. Later turns of the
//! session are deleted, too, because their requests repeat the content. I3. What the deleted words implied about the turn before (its next
//! state, votes, reward) is deleted, too. I4. Training cannot be undone: the affected versions are reported.
//!
//! An open session is closed by it: it could not be linked again without the words.

use rusqlite::{Connection, OptionalExtension, params};

use super::{EntityKind, GIVEN_UP, LedgerError, UpdateId, contents, events, names, numbers};
use crate::{SessionId, TurnId, UserId};

/// The scope of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// A turn and all later turns of its session, whose requests repeat it.
    Turn(TurnId),
    /// A whole session.
    Session(SessionId),
    /// Everything of the user.
    All,
}

/// The result of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Turns that were not deleted before.
    pub turns: u64,
    /// Requests of these turns.
    pub requests: u64,
    /// Waiting samples that will not be trained on.
    pub samples: u64,
    /// Adapters and versions that were trained on deleted turns.
    pub versions: Vec<(String, u64)>,
    /// Running updates with deleted turns. If accepted, their versions were trained on them, too.
    pub running: Vec<UpdateId>,
}

/// Deletes, and returns the sessions that this closed.
///
/// # Errors
/// [`LedgerError::Unknown`], if the user does not own the target.
pub(crate) fn delete(
    connection: &Connection,
    user: &UserId,
    what: Deletion,
    at_ms: i64,
) -> Result<(Deleted, Vec<SessionId>), LedgerError> {
    let turns = turns(connection, user, what)?;
    let chosen = names::json(&turns)?;
    // I3: turns whose next states are deleted. A next state is of the turn's own session and user.
    let previous = numbers_of(
        connection,
        "SELECT turn FROM next_states WHERE request IN \
         (SELECT number FROM requests WHERE turn IN (SELECT value FROM json_each(?1)))",
        &chosen,
    )?;
    let touched = names::json(&turns.iter().chain(&previous).collect::<Vec<_>>())?;
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
            EntityKind::Turn,
            "SELECT session FROM turns WHERE id = ?1 AND user = ?2",
            "SELECT id FROM turns WHERE session = ?2 AND user = ?3 AND id >= ?1",
        ),
        Deletion::Session(session) => (
            session.0,
            EntityKind::Session,
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
    // With all versions made from them: later ones, and rollbacks to them.
    let sql = "WITH RECURSIVE of (adapter, version) AS ( \
               SELECT u.adapter, u.version_after FROM samples s JOIN update_samples o ON o.sample = s.id \
               JOIN updates u ON u.id = o.\"update\" WHERE s.turn IN (SELECT value FROM json_each(?1)) \
               AND (o.outcome = 'trained' OR (u.state = 'lost' AND s.reason LIKE ?2 || '%')) \
               UNION SELECT v.adapter, v.version FROM versions v JOIN of ON v.adapter = of.adapter \
               AND v.parent = of.version) SELECT adapter, version FROM of ORDER BY 1, 2";
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, numbers::from_sql(row.get(1)?)));
    // A discarded version may be restored later.
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
