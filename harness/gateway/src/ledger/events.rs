//! Rows of events. Each event is written once, when it happens; a replay after a restart writes none.

use rusqlite::{Connection, params};
use serde_json::json;

use super::{LedgerError, names, numbers};
use crate::{Change, Event, NextState, Reaction, RequestId, SessionId, Thumb, TurnId, UserId};

/// Records an input of linking.
pub(crate) fn add_link_input(
    connection: &Connection,
    session: SessionId,
    what: &str,
    request: Option<RequestId>,
    at_ms: i64,
) -> Result<(), LedgerError> {
    let sql = "INSERT INTO happenings (session, what, request, at_ms) VALUES (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![session, what, request, at_ms])?;
    Ok(())
}

/// `user`: owner of the sessions.
pub(crate) fn add_all(
    connection: &Connection,
    user: &UserId,
    events: &[Event],
    at_ms: i64,
) -> Result<(), LedgerError> {
    events.iter().try_for_each(|event| add(connection, user, event, at_ms))
}

/// `event` concerns a recorded session. `user` is not needed for a closed session.
fn add(connection: &Connection, user: &UserId, event: &Event, at_ms: i64) -> Result<(), LedgerError> {
    let run = |sql: &str, values: &[&dyn rusqlite::ToSql]| connection.prepare_cached(sql)?.execute(values);
    match event {
        Event::SessionOpened { session, evidence } => {
            let sql =
                "INSERT INTO sessions (id, user, evidence, opened_ms, epoch) VALUES (?1, ?2, ?3, ?4, 0)";
            run(sql, params![session, user.0, names::evidence(*evidence), at_ms])?;
        }
        Event::TurnOpened { turn, session, epoch, evidence, kind, parent } => {
            let (kind, mark) = names::kind(kind);
            let epoch = numbers::to_sql(*epoch);
            let sql = "INSERT INTO turns (id, session, user, epoch, evidence, parent, kind, mark, state) \
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'waiting')";
            let evidence = names::evidence(*evidence);
            run(sql, params![turn, session, user.0, epoch, evidence, parent, kind, mark])?;
            run("UPDATE sessions SET epoch = ?2 WHERE id = ?1 AND epoch <> ?2", params![session, epoch])?;
        }
        Event::Retry { turn, .. } => {
            run("UPDATE turns SET state = 'waiting' WHERE id = ?1 AND state = 'unanswered'", params![turn])?;
        }
        Event::Branched { turn, sibling, .. } => {
            run("UPDATE turns SET sibling = ?2 WHERE id = ?1", params![turn, sibling])?;
        }
        Event::TurnAnswered { turn, .. } => set_answered(connection, *turn, true)?,
        Event::TurnUnanswered { turn, .. } => set_answered(connection, *turn, false)?,
        Event::NextState(next) => add_next_state(connection, next)?,
        Event::Feedback { session, request, reaction, latest } => {
            let thumb = match (reaction.change, reaction.thumb()) {
                // A withdrawn reaction is neutral.
                (Change::Removed, _) => Some(0),
                (Change::Added, thumb) => thumb.map(|thumb| if thumb == Thumb::Up { 1 } else { -1 }),
            };
            let sql = "INSERT INTO feedback (user, session, turn, request, source, thumb, reaction, at_ms) \
                       VALUES (?1, ?2, ?3, ?4, 'reaction', ?5, ?6, ?7)";
            run(sql, params![user.0, session, latest, request, thumb, written(reaction), at_ms])?;
        }
        Event::EpochClosed { session, epoch, request, why } => {
            let sql = "INSERT INTO epochs (session, epoch, request, why, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)";
            let epoch = numbers::to_sql(*epoch);
            run(sql, params![session, epoch, request, names::epoch_end(*why), at_ms])?;
        }
        Event::SessionClosed { session, why, without_next_state } => {
            close(connection, *session, names::closing(*why), at_ms)?;
            for turn in without_next_state {
                run("UPDATE turns SET ended_without_next_state = 1 WHERE id = ?1", params![turn])?;
            }
        }
    }
    Ok(())
}

/// An answered turn stays answered.
pub(crate) fn set_answered(connection: &Connection, turn: TurnId, is: bool) -> Result<(), LedgerError> {
    let sql = "UPDATE turns SET state = CASE WHEN ?2 OR state = 'answered' THEN 'answered' ELSE 'unanswered' END \
               WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![turn, is])?;
    Ok(())
}

/// Closes a session, if it is open.
pub(crate) fn close(
    connection: &Connection,
    session: SessionId,
    why: &str,
    at_ms: i64,
) -> Result<(), LedgerError> {
    let sql = "UPDATE sessions SET closed_ms = ?2, why = ?3 WHERE id = ?1 AND closed_ms IS NULL";
    connection.prepare_cached(sql)?.execute(params![session, at_ms, why])?;
    Ok(())
}

fn add_next_state(connection: &Connection, next: &NextState) -> Result<(), LedgerError> {
    let messages = next.messages.iter().map(|message| {
        let (kind, call) = names::message(message.kind);
        (message.index, kind, call)
    });
    let sql = "INSERT INTO next_states (turn, answered, choice, request, found_by, messages, aside, \
               calls_without_result) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    connection.prepare_cached(sql)?.execute(params![
        next.turn,
        next.answered,
        numbers::to_sql(next.choice as u64),
        next.request,
        names::found_by(next.by),
        names::json(&messages.collect::<Vec<_>>())?,
        names::json(&next.aside)?,
        numbers::to_sql(next.calls_without_result as u64),
    ])?;
    Ok(())
}

fn written(reaction: &Reaction) -> String {
    let change = match reaction.change {
        Change::Added => "added",
        Change::Removed => "removed",
    };
    let Reaction { channel, emoji, by, message, at, .. } = reaction;
    json!({"channel": channel, "change": change, "emoji": emoji, "by": by, "message": message, "at": at})
        .to_string()
}
