//! Queries.
//!
//! I1. Queries for a user read only that user's rows; entries of other users count as unknown.

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use serde_json::Value;

use super::views::{
    AnswerView, FeedbackView, NextStateView, Page, RequestView, RewardView, SampleView, SessionView,
    TurnLine, TurnView, UpdateView, UserView, VoteView,
};
use super::{EntityKind, LedgerError, SampleId, UpdateId, blobs, contents, names, numbers};
use crate::cut::prefix;
use crate::{RequestId, SessionId, TurnId, UserId};

/// Maximum size of a page.
const LIMIT: u32 = 500;
const SESSION: &str = "SELECT id, user, evidence, opened_ms, closed_ms, why, epoch, \
                       (SELECT count(*) FROM turns WHERE session = sessions.id), \
                       coalesce((SELECT said FROM turns WHERE session = sessions.id AND said IS NOT NULL AND kind = 'main' \
                       ORDER BY id LIMIT 1), (SELECT said FROM turns WHERE session = sessions.id AND said IS NOT NULL \
                       ORDER BY id LIMIT 1)), \
                       (SELECT max(received_ms) FROM requests WHERE turn = (SELECT max(id) FROM turns \
                       WHERE session = sessions.id)) FROM sessions";
/// Characters of a session's title.
const TITLE: usize = 80;
/// Characters of a text in an outline.
const EXCERPT: u32 = 300;
const LINE: &str =
    "id, epoch, parent, sibling, kind, mark, state, ended_without_next_state, deleted_ms, said";

/// How much of a turn is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Whole,
    /// Without bodies, calls, reasoning, tokens and log-probabilities, and with the beginning of texts only.
    Outline,
}

/// Newest first.
pub(crate) fn sessions(
    connection: &Connection,
    user: Option<&UserId>,
    page: Page,
) -> Result<Vec<SessionView>, LedgerError> {
    let sql = format!(
        "{SESSION} WHERE (?1 IS NULL OR user = ?1) AND (?2 IS NULL OR id < ?2) ORDER BY id DESC LIMIT ?3"
    );
    let user = user.map(|user| &user.0);
    many(connection, &sql, params![user, page.before, page.limit.min(LIMIT)], session_view)
}

pub(crate) fn session(
    connection: &Connection,
    user: &UserId,
    session: SessionId,
) -> Result<SessionView, LedgerError> {
    let sql = format!("{SESSION} WHERE id = ?1 AND user = ?2");
    let found = one(connection, &sql, params![session, user.0], session_view)?;
    let mut found = found.ok_or(LedgerError::Unknown(EntityKind::Session))?;
    let sql = format!("SELECT {LINE} FROM turns WHERE session = ?1 ORDER BY id");
    found.turns = many(connection, &sql, params![session], turn_line)?;
    Ok(found)
}

/// A session without its list of turns, and outlines of those before `before`, newest first.
pub(crate) fn outline(
    connection: &Connection,
    user: &UserId,
    session: SessionId,
    (before, limit): (Option<TurnId>, u32),
) -> Result<(SessionView, Vec<TurnView>), LedgerError> {
    let sql = format!("{SESSION} WHERE id = ?1 AND user = ?2");
    let found = one(connection, &sql, params![session, user.0], session_view)?;
    let found = found.ok_or(LedgerError::Unknown(EntityKind::Session))?;
    let sql = "SELECT id FROM turns WHERE session = ?1 AND (?2 IS NULL OR id < ?2) ORDER BY id DESC LIMIT ?3";
    let ids: Vec<TurnId> =
        many(connection, sql, params![session, before, limit.min(LIMIT)], |row| row.get(0))?;
    let turns = ids.into_iter().map(|id| view(connection, user, id, Depth::Outline));
    Ok((found, turns.collect::<Result<_, _>>()?))
}

/// The stored body of a user's request; `None` if deleted.
pub(crate) fn body(
    connection: &Connection,
    user: &UserId,
    request: RequestId,
) -> Result<Option<String>, LedgerError> {
    let sql = "SELECT body FROM requests WHERE number = ?1 AND user = ?2";
    let found = one(connection, sql, params![request, user.0], |row| row.get::<_, Option<Vec<u8>>>(0))?;
    let Some(in_row) = found else { return Ok(None) };
    let body = contents::body(connection, request, in_row)?;
    Ok(body.map(|body| String::from_utf8_lossy(&body).into_owned()))
}

pub(crate) fn user(connection: &Connection, user: &UserId) -> Result<UserView, LedgerError> {
    let sql = "SELECT id, created_ms, shares, shares_ms FROM users WHERE id = ?1";
    let read = |row: &Row<'_>| {
        Ok(UserView {
            user: UserId(row.get(0)?),
            created_ms: row.get(1)?,
            shares: row.get(2)?,
            shares_ms: row.get(3)?,
        })
    };
    one(connection, sql, params![user.0], read)?.ok_or(LedgerError::Unknown(EntityKind::User))
}

/// Owner and session of a turn.
pub(crate) fn turn_owner(connection: &Connection, turn: TurnId) -> Result<(UserId, SessionId), LedgerError> {
    let sql = "SELECT user, session FROM turns WHERE id = ?1";
    let found = one(connection, sql, params![turn], |row| Ok((UserId(row.get(0)?), row.get(1)?)))?;
    found.ok_or(LedgerError::Unknown(EntityKind::Turn))
}

/// The user's first turn after `after`, deleted turns included.
pub(crate) fn turn_after(
    connection: &Connection,
    user: &UserId,
    after: TurnId,
) -> Result<Option<TurnId>, LedgerError> {
    let sql = "SELECT id FROM turns WHERE user = ?1 AND id > ?2 ORDER BY id LIMIT 1";
    one(connection, sql, params![user.0, after], |row| row.get(0))
}

pub(crate) fn turn(connection: &Connection, user: &UserId, turn: TurnId) -> Result<TurnView, LedgerError> {
    view(connection, user, turn, Depth::Whole)
}

fn view(connection: &Connection, user: &UserId, turn: TurnId, depth: Depth) -> Result<TurnView, LedgerError> {
    let sql = format!("SELECT {LINE}, session, user, evidence FROM turns WHERE id = ?1 AND user = ?2");
    let read = |row: &Row<'_>| {
        let (session, user, evidence) = (row.get(10)?, UserId(row.get(11)?), row.get(12)?);
        Ok((turn_line(row)?, session, user, evidence))
    };
    let found = one(connection, &sql, params![turn, user.0], read)?;
    let (line, session, user, evidence) = found.ok_or(LedgerError::Unknown(EntityKind::Turn))?;
    let next = "SELECT answered, choice, request, found_by, messages, aside, calls_without_result FROM next_states \
                WHERE turn = ?1";
    let feedback = "SELECT id, source, thumb, text, score, reaction, at_ms, deleted_ms, answered, choice FROM feedback \
                    WHERE turn = ?1 ORDER BY id";
    let votes = "SELECT judge, ballot, score, reason, hint, raw, at_ms FROM votes WHERE turn = ?1 \
                 ORDER BY judge, ballot";
    let reward = "SELECT value, source, at_ms FROM rewards WHERE turn = ?1";
    let samples =
        "SELECT id, request, choice, reward, hint, state, reason FROM samples WHERE turn = ?1 ORDER BY id";
    let updates = "SELECT u.id, s.id, o.outcome, u.adapter, u.objective, u.version_before, u.version_after, u.state, \
                   u.reasons, u.metrics FROM samples s JOIN update_samples o ON o.sample = s.id \
                   JOIN updates u ON u.id = o.\"update\" WHERE s.turn = ?1 ORDER BY u.id, s.id";
    let key: [&dyn ToSql; 1] = [&turn];
    Ok(TurnView {
        session,
        user,
        line,
        evidence,
        requests: requests(connection, turn, depth)?,
        next_state: one(connection, next, &key, next_state)?,
        feedback: many(connection, feedback, &key, feedback_view)?,
        votes: many(connection, votes, &key, vote)?,
        reward: one(connection, reward, &key, |row| {
            Ok(RewardView { value: row.get(0)?, source: row.get(1)?, at_ms: row.get(2)? })
        })?,
        samples: many(connection, samples, &key, sample)?,
        updates: many(connection, updates, &key, update)?,
    })
}

fn one<T>(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>, LedgerError> {
    Ok(connection.prepare_cached(sql)?.query_row(values, read).optional()?)
}

fn many<T>(
    connection: &Connection,
    sql: &str,
    values: &[&dyn ToSql],
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, LedgerError> {
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map(values, read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(numbers::from_sql)
}

/// JSON that this program wrote; null if absent.
fn json(row: &Row<'_>, column: usize) -> rusqlite::Result<Value> {
    let text: Option<String> = row.get(column)?;
    let read = |text: String| {
        let broken = |error: serde_json::Error| {
            rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
        };
        serde_json::from_str(&text).map_err(broken)
    };
    text.map_or(Ok(Value::Null), read)
}

fn session_view(row: &Row<'_>) -> rusqlite::Result<SessionView> {
    Ok(SessionView {
        session: row.get(0)?,
        user: UserId(row.get(1)?),
        evidence: row.get(2)?,
        title: row.get::<_, Option<String>>(8)?.map(|said| title(&said)),
        opened_ms: row.get(3)?,
        last_ms: row.get(9)?,
        closed_ms: row.get(4)?,
        why: row.get(5)?,
        epoch: number(row, 6)?,
        turn_count: number(row, 7)?,
        turns: Vec::new(),
    })
}

/// The title in one line.
fn title(said: &str) -> String {
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    match prefix(&words, TITLE) {
        (_, false) => words,
        (title, true) => format!("{}\u{2026}", title.trim_end()),
    }
}

fn turn_line(row: &Row<'_>) -> rusqlite::Result<TurnLine> {
    Ok(TurnLine {
        turn: row.get(0)?,
        epoch: number(row, 1)?,
        parent: row.get(2)?,
        sibling: row.get(3)?,
        kind: row.get(4)?,
        mark: row.get(5)?,
        state: row.get(6)?,
        ended_without_next_state: row.get(7)?,
        deleted_ms: row.get(8)?,
        said: row.get(9)?,
    })
}

fn requests(connection: &Connection, turn: TurnId, depth: Depth) -> Result<Vec<RequestView>, LedgerError> {
    let [body, prompt_ids] = match depth {
        Depth::Whole => ["body", "prompt_ids"],
        Depth::Outline => ["NULL", "NULL"],
    };
    let sql = format!(
        "SELECT number, endpoint, received_ms, headers, {body}, redacted, model, sampling, kind, mark, is_retry, \
         state, reason, first_token_after_ms, ended_ms, prompt_tokens, completion_tokens, {prompt_ids} \
         FROM requests WHERE turn = ?1 ORDER BY number"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([turn])?;
    let mut requests = Vec::new();
    while let Some(row) = rows.next()? {
        let request: RequestId = row.get(0)?;
        let headers: Option<String> = row.get(3)?;
        let (body, prompt_ids) = match depth {
            Depth::Whole => (
                contents::body(connection, request, row.get(4)?)?,
                contents::prompt(connection, request, row.get(17)?)?,
            ),
            Depth::Outline => (None, Vec::new()),
        };
        requests.push(RequestView {
            request,
            endpoint: row.get(1)?,
            received_ms: row.get(2)?,
            headers: headers.as_deref().map_or(Ok(Vec::new()), names::read_json)?,
            body: body.map(|body| String::from_utf8_lossy(&body).into_owned()),
            redacted: json(row, 5)?,
            model: row.get(6)?,
            sampling: json(row, 7)?,
            kind: row.get(8)?,
            mark: row.get(9)?,
            is_retry: row.get(10)?,
            state: row.get(11)?,
            reason: row.get(12)?,
            first_token_after_ms: row.get(13)?,
            ended_ms: row.get(14)?,
            prompt_tokens: row.get(15)?,
            completion_tokens: row.get(16)?,
            prompt_ids,
            answers: answers(connection, request, depth)?,
        });
    }
    Ok(requests)
}

fn ids(row: &Row<'_>, column: usize) -> Result<Vec<u32>, LedgerError> {
    let blob: Option<Vec<u8>> = row.get(column)?;
    blob.map_or(Ok(Vec::new()), |blob| blobs::read_ids(&blob))
}

fn answers(
    connection: &Connection,
    request: RequestId,
    depth: Depth,
) -> Result<Vec<AnswerView>, LedgerError> {
    let words = match depth {
        Depth::Whole => "text, reasoning, calls, finish_reason, redacted, sampled_ids, logprobs".to_owned(),
        Depth::Outline => {
            format!("substr(text, 1, {EXCERPT}), NULL, NULL, finish_reason, redacted, NULL, NULL")
        }
    };
    let sql = format!(
        "SELECT choice, {words}, versions, adapter, temperature, top_p, top_k, seed, exact, inexact \
         FROM answers WHERE request = ?1 ORDER BY choice"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([request])?;
    let mut answers = Vec::new();
    while let Some(row) = rows.next()? {
        answers.push(AnswerView {
            choice: row.get(0)?,
            text: row.get(1)?,
            reasoning: row.get(2)?,
            calls: json(row, 3)?,
            finish_reason: row.get(4)?,
            redacted: json(row, 5)?,
            sampled_ids: ids(row, 6)?,
            logprobs: row.get::<_, Option<Vec<u8>>>(7)?.as_deref().map_or(Vec::new(), blobs::read_logprobs),
            versions: json(row, 8)?,
            adapter: row.get(9)?,
            temperature: row.get(10)?,
            top_p: row.get(11)?,
            top_k: row.get(12)?,
            seed: row.get::<_, Option<i64>>(13)?.map(i64::cast_unsigned),
            exact: row.get(14)?,
            inexact: row.get(15)?,
        });
    }
    Ok(answers)
}

fn next_state(row: &Row<'_>) -> rusqlite::Result<NextStateView> {
    Ok(NextStateView {
        answered: row.get(0)?,
        choice: row.get(1)?,
        request: row.get(2)?,
        found_by: row.get(3)?,
        messages: json(row, 4)?,
        aside: json(row, 5)?,
        calls_without_result: number(row, 6)?,
    })
}

fn feedback_view(row: &Row<'_>) -> rusqlite::Result<FeedbackView> {
    Ok(FeedbackView {
        feedback: number(row, 0)?,
        answered: row.get(8)?,
        choice: row.get(9)?,
        source: row.get(1)?,
        thumb: row.get(2)?,
        text: row.get(3)?,
        score: row.get(4)?,
        reaction: json(row, 5)?,
        at_ms: row.get(6)?,
        deleted_ms: row.get(7)?,
    })
}

fn vote(row: &Row<'_>) -> rusqlite::Result<VoteView> {
    Ok(VoteView {
        judge: row.get(0)?,
        ballot: row.get(1)?,
        score: row.get(2)?,
        reason: row.get(3)?,
        hint: row.get(4)?,
        raw: row.get(5)?,
        at_ms: row.get(6)?,
    })
}

fn sample(row: &Row<'_>) -> rusqlite::Result<SampleView> {
    Ok(SampleView {
        sample: SampleId(number(row, 0)?),
        request: row.get(1)?,
        choice: row.get(2)?,
        reward: row.get(3)?,
        hint: row.get(4)?,
        state: row.get(5)?,
        reason: row.get(6)?,
    })
}

fn update(row: &Row<'_>) -> rusqlite::Result<UpdateView> {
    Ok(UpdateView {
        update: UpdateId(number(row, 0)?),
        sample: SampleId(number(row, 1)?),
        outcome: row.get(2)?,
        adapter: row.get(3)?,
        objective: row.get(4)?,
        version_before: number(row, 5)?,
        version_after: row.get::<_, Option<i64>>(6)?.map(numbers::from_sql),
        state: row.get(7)?,
        reasons: json(row, 8)?,
        metrics: json(row, 9)?,
    })
}
