//! Rows of answers, and of requests that end without one.

use rusqlite::{Connection, OptionalExtension, params};

use super::contents::StoredPrompt;
use super::requests::{Linked, StoredRequest};
use super::{EntityKind, LedgerError, names, numbers};
use crate::{Reply, ReplyCall, RequestId, SessionId, TurnId, UserId};

/// An answer, ready to be stored.
#[derive(Debug)]
pub(crate) struct StoredAnswer {
    pub(crate) choices: Vec<StoredChoice>,
    pub(crate) prompt: Option<StoredPrompt>,
    pub(crate) adapter: Option<String>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) top_k: Option<u32>,
    pub(crate) seed: Option<u64>,
    pub(crate) prompt_tokens: u64,
    pub(crate) completion_tokens: u64,
    pub(crate) first_token_after_ms: Option<u64>,
}

/// One choice of an answer.
#[derive(Debug)]
pub(crate) struct StoredChoice {
    pub(crate) text: String,
    pub(crate) reasoning: Option<String>,
    pub(crate) calls: Vec<ReplyCall>,
    pub(crate) calls_json: String,
    pub(crate) finish_reason: String,
    pub(crate) redacted: String,
    pub(crate) sampled_ids: Option<Vec<u8>>,
    pub(crate) logprobs: Option<Vec<u8>>,
    pub(crate) versions: String,
    pub(crate) inexact: Option<String>,
}

impl StoredChoice {
    /// As linking sees it.
    pub(crate) fn reply(&self) -> Reply {
        Reply { text: self.text.clone(), calls: self.calls.clone() }
    }
}

/// A request that has no answer yet.
#[derive(Debug)]
pub(crate) struct EndedRequest {
    pub(crate) user: UserId,
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    /// Why no answer to it can be trained on.
    unfit: Option<String>,
    is_redacted: bool,
    pub(crate) is_deleted: bool,
}

impl EndedRequest {
    /// Whether the prompt's tokens are stored: those of a redacted request would reveal the redacted text.
    pub(crate) fn keeps_prompt(&self) -> bool {
        !self.is_deleted && !self.is_redacted
    }
}

impl EndedRequest {
    /// Of a request that has just arrived.
    pub(crate) fn of(stored: &StoredRequest, linked: &Linked) -> Self {
        let (kind, mark) = names::kind(&linked.kind);
        let Linked { session, turn, .. } = *linked;
        Self::new((stored.user.clone(), session, turn), (kind, &mark.unwrap_or_default()), &stored.redacted)
    }

    fn new(
        (user, session, turn): (UserId, SessionId, TurnId),
        (kind, mark): (&str, &str),
        redacted: &str,
    ) -> Self {
        let is_redacted = redacted != "{}";
        let unfit = match kind {
            "main" if is_redacted => Some("the request was redacted".to_owned()),
            "main" => None,
            "side" => Some(format!("a side turn: {mark}")),
            _ => Some(format!("not known to be a main turn: {mark}")),
        };
        Self { user, session, turn, unfit, is_redacted, is_deleted: false }
    }
}

/// # Errors
/// [`LedgerError::Unknown`], if the request does not exist, or has ended.
pub(crate) fn waiting(connection: &Connection, request: RequestId) -> Result<EndedRequest, LedgerError> {
    let sql = "SELECT user, session, turn, kind, mark, redacted, deleted_ms IS NOT NULL FROM requests \
               WHERE number = ?1 AND state = 'waiting'";
    let read = |row: &rusqlite::Row<'_>| {
        let (kind, mark): (String, Option<String>) = (row.get(3)?, row.get(4)?);
        let place = (UserId(row.get(0)?), row.get(1)?, row.get(2)?);
        let ended = EndedRequest::new(place, (&kind, &mark.unwrap_or_default()), &row.get::<_, String>(5)?);
        Ok(EndedRequest { is_deleted: row.get(6)?, ..ended })
    };
    let found = connection.prepare_cached(sql)?.query_row([request], read).optional()?;
    found.ok_or(LedgerError::Unknown(EntityKind::Request))
}

/// Stores an answer to `ended`, except for a long prompt; of a deleted request only that it was answered.
pub(crate) fn add(
    connection: &Connection,
    (request, ended): (RequestId, &EndedRequest),
    stored: &StoredAnswer,
    is_visible: bool,
    at_ms: i64,
) -> Result<(), LedgerError> {
    let sql = "UPDATE requests SET state = ?2, ended_ms = ?3, first_token_after_ms = ?4, prompt_tokens = ?5, \
               completion_tokens = ?6, prompt_ids = ?7 WHERE number = ?1";
    let prompt = stored.prompt.as_ref().filter(|_| ended.keeps_prompt());
    connection.prepare_cached(sql)?.execute(params![
        request,
        if is_visible { "answered" } else { "empty" },
        at_ms,
        stored.first_token_after_ms.map(numbers::to_sql),
        numbers::to_sql(stored.prompt_tokens),
        numbers::to_sql(stored.completion_tokens),
        prompt.and_then(StoredPrompt::in_row),
    ])?;
    if ended.is_deleted {
        return Ok(());
    }
    for (place, choice) in stored.choices.iter().enumerate() {
        let sql = "INSERT INTO answers (request, choice, text, reasoning, calls, finish_reason, redacted, sampled_ids, \
                   logprobs, versions, adapter, temperature, top_p, top_k, seed, exact, inexact) VALUES (?1, ?2, ?3, \
                   ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
        let inexact = ended.unfit.as_ref().or(choice.inexact.as_ref());
        connection.prepare_cached(sql)?.execute(params![
            request,
            numbers::to_sql(place as u64),
            choice.text,
            choice.reasoning,
            choice.calls_json,
            choice.finish_reason,
            choice.redacted,
            choice.sampled_ids,
            choice.logprobs,
            choice.versions,
            stored.adapter,
            stored.temperature,
            stored.top_p,
            stored.top_k,
            stored.seed.map(u64::cast_signed),
            inexact.is_none(),
            inexact,
        ])?;
    }
    Ok(())
}

/// Stores that a request failed.
pub(crate) fn fail(
    connection: &Connection,
    request: RequestId,
    why: &str,
    at_ms: i64,
) -> Result<(), LedgerError> {
    let sql = "UPDATE requests SET state = 'failed', reason = ?2, ended_ms = ?3 WHERE number = ?1";
    connection.prepare_cached(sql)?.execute(params![request, why, at_ms])?;
    Ok(())
}

/// The replies to a request, as linking sees them.
pub(crate) fn replies(connection: &Connection, request: RequestId) -> Result<Vec<Reply>, LedgerError> {
    let sql = "SELECT text, calls FROM answers WHERE request = ?1 ORDER BY choice";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([request], |row| {
        Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?))
    })?;
    let mut replies = Vec::new();
    for row in rows {
        let (text, calls) = row?;
        let calls = calls.as_deref().map_or(Ok(Vec::new()), read_calls)?;
        replies.push(Reply { text: text.unwrap_or_default(), calls });
    }
    Ok(replies)
}

fn read_calls(json: &str) -> Result<Vec<ReplyCall>, LedgerError> {
    let calls: Vec<serde_json::Value> = super::names::read_json(json)?;
    let field = |call: &serde_json::Value, name: &str| call[name].as_str().unwrap_or_default().to_owned();
    let read = |call: &serde_json::Value| ReplyCall {
        id: field(call, "id"),
        name: field(call, "name"),
        arguments: field(call, "arguments"),
    };
    Ok(calls.iter().map(read).collect())
}
