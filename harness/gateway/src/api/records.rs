//! A user's access to their own records.
//!
//! I1. Everything belongs to the key's user; entries of other users count as not found.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, Response, Uri, header};
use bytes::Bytes;
use futures_util::stream::unfold;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::error::ApiError;
use super::gateway::Gateway;
use super::{body, completions};
use crate::{
    Deleted, Deletion, FeedbackSource, FeedbackTarget, LedgerError, NewFeedback, Page, RequestId, SessionId,
    TurnId, UserId, UserView,
};

/// Default number of sessions per page.
const PAGE: u32 = 50;
/// Maximum number of sessions per page.
const MAX_PAGE: u32 = 500;
/// Maximum size of a feedback text, in bytes: it becomes part of the judge's prompt.
const MAX_TEXT_BYTES: usize = 32 << 10;

type Answer = Result<Response<Body>, ApiError>;

/// `GET /v1/sessions?limit=N&before=SESSION`.
pub(super) async fn sessions(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    uri: Uri,
) -> Answer {
    let mut page = Page { before: None, limit: PAGE };
    for pair in uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("limit", limit)) => {
                let limit = limit.parse().ok().filter(|limit| (1..=MAX_PAGE).contains(limit));
                let wrong =
                    || ApiError::field("limit", format!("`limit` must be a number from 1 to {MAX_PAGE}"));
                page.limit = limit.ok_or_else(wrong)?;
            }
            Some(("before", before)) => page.before = Some(SessionId(number("before", before)?)),
            _ => return Err(ApiError::field(pair, "unknown parameter; `limit` and `before` are supported")),
        }
    }
    let sessions = gateway.recorder.sessions(Some(&user), page).await.map_err(to_api_error)?;
    Ok(list(&sessions))
}

/// `GET /v1/sessions/N`.
pub(super) async fn session(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    Path(session): Path<String>,
) -> Answer {
    let session = SessionId(number("session", &session)?);
    respond(&gateway.recorder.session(&user, session).await.map_err(to_api_error)?)
}

/// `POST /v1/sessions/N/close`.
pub(super) async fn close(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    Path(session): Path<String>,
) -> Answer {
    let session = SessionId(number("session", &session)?);
    gateway.recorder.close_session(&user, session).await.map_err(to_api_error)?;
    Ok(completions::json(&json!({"session": session.0.0, "closed": true})))
}

/// `POST /v1/sessions/close` with the client's name of the session.
pub(super) async fn close_named(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    request: Request,
) -> Answer {
    let body = object(&gateway, request).await?;
    check_fields(&body, &["session"])?;
    let session = match named_session(&gateway, &user, &body).await? {
        Some(session) => session,
        None => {
            return Err(ApiError::field("session", "`session` must be the name or the number of a session"));
        }
    };
    gateway.recorder.close_session(&user, session).await.map_err(to_api_error)?;
    Ok(completions::json(&json!({"session": session.0.0, "closed": true})))
}

/// `DELETE /v1/sessions/N`.
pub(super) async fn delete_session(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    Path(session): Path<String>,
) -> Answer {
    let session = SessionId(number("session", &session)?);
    deleted(gateway.recorder.delete(&user, Deletion::Session(session)).await)
}

/// `GET /v1/turns/N`.
pub(super) async fn turn(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    Path(turn): Path<String>,
) -> Answer {
    let turn = TurnId(number("turn", &turn)?);
    respond(&gateway.recorder.turn(&user, turn).await.map_err(to_api_error)?)
}

/// `DELETE /v1/turns/N`: the turn, and all later turns of its session.
pub(super) async fn delete_turn(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    Path(turn): Path<String>,
) -> Answer {
    let turn = TurnId(number("turn", &turn)?);
    deleted(gateway.recorder.delete(&user, Deletion::Turn(turn)).await)
}

/// `GET /v1/user`.
pub(super) async fn user(State(gateway): State<Arc<Gateway>>, Extension(user): Extension<UserId>) -> Answer {
    match gateway.recorder.user(&user).await {
        // A user exists from the first key on, even before the first request.
        Err(LedgerError::Unknown(_)) => {
            respond(&UserView { user, created_ms: None, shares: false, shares_ms: None })
        }
        known => respond(&known.map_err(to_api_error)?),
    }
}

/// `PUT /v1/user` with `{"shares": true}`: whether their turns may train the shared adapter.
pub(super) async fn change_user(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    request: Request,
) -> Answer {
    let body = object(&gateway, request).await?;
    check_fields(&body, &["shares"])?;
    let shares = body.get("shares").and_then(Value::as_bool);
    let shares = shares.ok_or_else(|| ApiError::field("shares", "`shares` must be true or false"))?;
    gateway.recorder.set_consent(&user, shares).await.map_err(to_api_error)?;
    respond(&gateway.recorder.user(&user).await.map_err(to_api_error)?)
}

/// `DELETE /v1/user`: everything that is recorded of the user.
pub(super) async fn delete_user(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
) -> Answer {
    deleted(gateway.recorder.delete(&user, Deletion::All).await)
}

/// `GET /v1/export`: JSON Lines.
pub(super) async fn export(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
) -> Answer {
    let export = gateway.recorder.export(&user);
    let lines = unfold(Some(export), |export| async move {
        let mut export = export?;
        match export.next().await {
            Ok(Some(line)) => Some((Ok::<_, LedgerError>(Bytes::from(line + "\n")), Some(export))),
            Ok(None) => None,
            // Cuts the connection, so that a partial export is not mistaken for a complete one.
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut response = Response::new(Body::from_stream(lines));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}

/// `POST /v1/feedback`.
pub(super) async fn feedback(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    request: Request,
) -> Answer {
    let body = object(&gateway, request).await?;
    check_fields(&body, &["turn", "completion", "session", "choice", "rating", "text", "score", "source"])?;
    let target = target(&gateway, &user, &body).await?;
    let choice = present(&body, "choice")
        .map(|choice| choice.as_u64().and_then(|choice| choice.try_into().ok()).ok_or(()));
    let wrong = |()| ApiError::field("choice", "`choice` must be the index of a choice, from 0");
    let choice = choice.transpose().map_err(wrong)?;
    let thumb = match present(&body, "rating") {
        None => None,
        Some(Value::String(word)) if word == "up" => Some(1),
        Some(Value::String(word)) if word == "down" => Some(-1),
        Some(rating) => {
            let rating = rating.as_i64().and_then(|rating| i8::try_from(rating).ok());
            let rating = rating.filter(|rating| (-1..=1).contains(rating));
            let wrong = || ApiError::field("rating", "`rating` must be 1 or \"up\", -1 or \"down\", or 0");
            Some(rating.ok_or_else(wrong)?)
        }
    };
    let text = match present(&body, "text") {
        None => None,
        Some(text) => {
            let text = text.as_str().filter(|text| !text.trim().is_empty() && text.len() <= MAX_TEXT_BYTES);
            let wrong = || {
                let message = format!("`text` must be a non-empty string of at most {MAX_TEXT_BYTES} bytes");
                ApiError::field("text", message)
            };
            Some(text.ok_or_else(wrong)?.to_owned())
        }
    };
    let score = present(&body, "score").map(|score| score.as_f64().ok_or(()));
    let score = score.transpose().map_err(|()| ApiError::field("score", "`score` must be a number"))?;
    let source = match present(&body, "source").map(Value::as_str) {
        None | Some(Some("api")) => FeedbackSource::Api,
        Some(Some("extension")) => FeedbackSource::Extension,
        Some(_) => return Err(ApiError::field("source", "`source` must be \"api\" or \"extension\"")),
    };
    if thumb.is_none() && text.is_none() && score.is_none() {
        return Err(ApiError::field("rating", "feedback needs a `rating`, a `text` or a `score`"));
    }
    let new = NewFeedback { target, choice, source, thumb, text, score };
    let id = gateway.recorder.feedback(&user, new).await.map_err(to_api_error)?;
    Ok(completions::json(&json!({"feedback": id.0})))
}

/// The target of feedback; exactly one.
async fn target(
    gateway: &Gateway,
    user: &UserId,
    body: &Map<String, Value>,
) -> Result<FeedbackTarget, ApiError> {
    let named: Vec<&str> =
        ["turn", "completion", "session"].into_iter().filter(|name| present(body, name).is_some()).collect();
    let &[name] = named.as_slice() else {
        let message = "feedback needs one of `turn` (a number), `completion` (the `id` of an answer) and `session` (a name or number, for \
                       its last answer)";
        return Err(ApiError::field("turn", message));
    };
    let wrong = |message: &str| ApiError::field(name, message);
    match name {
        "turn" => {
            let turn = body["turn"].as_u64().ok_or_else(|| wrong("`turn` must be the number of a turn"))?;
            Ok(FeedbackTarget::Turn(TurnId(RequestId(turn))))
        }
        "completion" => {
            let id = body["completion"].as_str().and_then(|id| id.strip_prefix("chatcmpl-")?.parse().ok());
            let id = id.ok_or_else(|| {
                wrong("`completion` must be the `id` of a recorded answer, such as chatcmpl-12")
            })?;
            Ok(FeedbackTarget::Request(RequestId(id)))
        }
        _ => {
            let session = named_session(gateway, user, body).await?;
            let session =
                session.ok_or_else(|| wrong("`session` must be the name or the number of a session"))?;
            Ok(FeedbackTarget::Latest(session))
        }
    }
}

/// The session in a body, by the client's name or by number.
async fn named_session(
    gateway: &Gateway,
    user: &UserId,
    body: &Map<String, Value>,
) -> Result<Option<SessionId>, ApiError> {
    match present(body, "session") {
        Some(Value::String(name)) => {
            gateway.recorder.session_named(user, name).await.map(Some).map_err(to_api_error)
        }
        Some(number) => Ok(number.as_u64().map(|number| SessionId(RequestId(number)))),
        None => Ok(None),
    }
}

pub(super) async fn object(gateway: &Gateway, request: Request) -> Result<Map<String, Value>, ApiError> {
    let (parts, body) = request.into_parts();
    let bytes = body::read(&gateway.settings, &parts.headers, body).await?;
    Ok(body::object(bytes)?.0)
}

fn present<'a>(body: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    body.get(field).filter(|value| !value.is_null())
}

/// These requests are ClawRL's own: an unknown field is a mistake.
pub(super) fn check_fields(body: &Map<String, Value>, known: &[&str]) -> Result<(), ApiError> {
    match body.keys().find(|field| !known.contains(&field.as_str())) {
        Some(field) => {
            let known = known.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
            Err(ApiError::field(field.as_str(), format!("unknown field `{field}`; known are {known}")))
        }
        None => Ok(()),
    }
}

fn number(field: &str, text: &str) -> Result<RequestId, ApiError> {
    let number = text.parse().map_err(|_| ApiError::field(field, format!("`{field}` must be a number")))?;
    Ok(RequestId(number))
}

fn list<T: Serialize>(entries: &[T]) -> Response<Body> {
    completions::json(&json!({"object": "list", "data": entries}))
}

fn respond<T: Serialize>(view: &T) -> Answer {
    let value =
        serde_json::to_value(view).map_err(|_| ApiError::internal("failed to serialize the record"))?;
    Ok(completions::json(&value))
}

fn deleted(deleted: Result<Deleted, LedgerError>) -> Answer {
    let Deleted { turns, requests, samples, versions, running } = deleted.map_err(to_api_error)?;
    let versions: Vec<Value> =
        versions.iter().map(|(adapter, version)| json!({"adapter": adapter, "version": version})).collect();
    let running: Vec<u64> = running.iter().map(|update| update.0).collect();
    let deleted = json!({
        "turns": turns, "requests": requests, "samples": samples, "trained_versions": versions, "updates_under_way": running,
    });
    Ok(completions::json(&json!({"deleted": deleted})))
}

/// The error for the client.
pub(super) fn to_api_error(error: LedgerError) -> ApiError {
    match error {
        LedgerError::Unknown(_) => ApiError::not_found("not_found", error.to_string()),
        LedgerError::Refused(_) => ApiError::invalid("refused", error.to_string()),
        LedgerError::File { .. } | LedgerError::Storage(_) | LedgerError::Lost | LedgerError::Ended => {
            tracing::error!("failed to read the ledger: {error}");
            ApiError::unavailable(
                "record_unavailable",
                "the ledger is unavailable; see the server's log",
                None,
            )
        }
    }
}
