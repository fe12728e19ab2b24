//! Actions of forms.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use serde_json::json;

use super::document::{self, Page, PageError};
use super::form::Form;
use super::login::Visitor;
use super::routes::number;
use crate::api::body;
use crate::api::gateway::Gateway;
use crate::{Deleted, Deletion, FeedbackSource, FeedbackTarget, NewFeedback, SessionId, TurnId};

/// The login page, with the error of the last attempt.
pub(super) fn login_page(error: Option<PageError>) -> Response<Body> {
    let context = json!({"error": error.as_ref().map(|error| &error.message)});
    let mut response = match Page::new("Log in", "login", &context) {
        Ok(page) => document::whole(page, None),
        Err(error) => return document::error_page(&error, None),
    };
    *response.status_mut() = error.map_or(StatusCode::OK, |error| error.status);
    response
}

/// `POST /login`.
pub(super) async fn login(State(gateway): State<Arc<Gateway>>, request: Request) -> Response<Body> {
    match logged_in(&gateway, request).await {
        Ok(cookie) => with_cookie(&cookie, "/"),
        Err(wrong) => login_page(Some(wrong)),
    }
}

async fn logged_in(gateway: &Gateway, request: Request) -> Result<String, PageError> {
    let origin = request.headers().get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    // The guard has accepted this origin as ours.
    let is_secret = origin.is_some_and(|origin| origin.starts_with("https://"));
    let form = form(gateway, request).await?;
    let key = form.get("key").unwrap_or_default().trim();
    let wrong = || PageError::new(StatusCode::FORBIDDEN, "This key is unknown.");
    let user = gateway.keys.user(&format!("Bearer {key}")).ok_or_else(wrong)?;
    gateway.logins.open(user, is_secret).map_err(|error| {
        tracing::error!("failed to create a login token: {error}");
        PageError::new(StatusCode::INTERNAL_SERVER_ERROR, "Login is unavailable; see the server's log.")
    })
}

/// `POST /logout`.
pub(super) async fn logout(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Response<Body> {
    let headers: HeaderMap = request.headers().clone();
    match submitted(&gateway, &visitor, request).await {
        Ok(_) => with_cookie(&gateway.logins.close(&headers), "/login"),
        Err(why) => document::error_page(&why, Some(&visitor)),
    }
}

/// `POST /turns/N/feedback`.
pub(super) async fn feedback(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    Path(turn): Path<String>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let turn = TurnId(number(&turn)?);
        let form = submitted(&gateway, &visitor, request).await?;
        let thumb = match form.get("rating") {
            Some("up") => Some(1),
            Some("down") => Some(-1),
            _ => None,
        };
        // Browsers send line ends as CRLF.
        let text = form.get("text").unwrap_or_default().replace("\r\n", "\n");
        let text = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        if thumb.is_none() && text.is_none() {
            return Err(PageError::new(StatusCode::BAD_REQUEST, "Feedback needs a rating or a text."));
        }
        let target = FeedbackTarget::Turn(turn);
        let new = NewFeedback { target, choice: None, source: FeedbackSource::Api, thumb, text, score: None };
        gateway.recorder.feedback(&visitor.user, new).await?;
        Ok(document::redirect(&format!("/turns/{turn}#feedback")))
    };
    page_or_error(done.await, &visitor)
}

/// `POST /sessions/N/close`.
pub(super) async fn close(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    Path(session): Path<String>,
    request: Request,
) -> Response<Body> {
    let done = async {
        let session = SessionId(number(&session)?);
        submitted(&gateway, &visitor, request).await?;
        gateway.recorder.close_session(&visitor.user, session).await?;
        Ok(document::redirect(&format!("/sessions/{session}")))
    };
    page_or_error(done.await, &visitor)
}

/// `POST /sessions/N/delete`.
pub(super) async fn delete_session(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    Path(session): Path<String>,
    request: Request,
) -> Response<Body> {
    let what = number(&session).map(|session| Deletion::Session(SessionId(session)));
    delete(&gateway, &visitor, request, what).await
}

/// `POST /turns/N/delete`.
pub(super) async fn delete_turn(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    Path(turn): Path<String>,
    request: Request,
) -> Response<Body> {
    let what = number(&turn).map(|turn| Deletion::Turn(TurnId(turn)));
    delete(&gateway, &visitor, request, what).await
}

async fn delete(
    gateway: &Gateway,
    visitor: &Visitor,
    request: Request,
    what: Result<Deletion, PageError>,
) -> Response<Body> {
    let done = async {
        let what = what?;
        submitted(gateway, visitor, request).await?;
        let deleted = gateway.recorder.delete(&visitor.user, what).await?;
        Ok(document::whole(deleted_page(&deleted)?, Some(visitor)))
    };
    page_or_error(done.await, visitor)
}

/// What was deleted, and which versions keep what they learned from it.
fn deleted_page(deleted: &Deleted) -> Result<Page, PageError> {
    let context = json!({
        "turns": deleted.turns,
        "requests": deleted.requests,
        "samples": deleted.samples,
        "versions": deleted.versions,
        "running": deleted.running.len(),
    });
    Page::new("Deleted", "deleted", &context)
}

/// The submitted form, if it has the proof of this login.
pub(super) async fn submitted(
    gateway: &Gateway,
    visitor: &Visitor,
    request: Request,
) -> Result<Form, PageError> {
    let form = form(gateway, request).await?;
    if visitor.has_proof(form.get("proof")) {
        return Ok(form);
    }
    let message = "This form belongs to another login. Go back, reload the page, and try again.";
    Err(PageError::new(StatusCode::FORBIDDEN, message))
}

async fn form(gateway: &Gateway, request: Request) -> Result<Form, PageError> {
    let (parts, body) = request.into_parts();
    let bytes = body::read(&gateway.settings, &parts.headers, body).await;
    let bytes = bytes.map_err(|error| PageError::new(StatusCode::BAD_REQUEST, error.message()))?;
    Ok(Form::read(&bytes))
}

pub(super) fn page_or_error(done: Result<Response<Body>, PageError>, visitor: &Visitor) -> Response<Body> {
    done.unwrap_or_else(|why| document::error_page(&why, Some(visitor)))
}

fn with_cookie(cookie: &str, path: &str) -> Response<Body> {
    let mut response = document::redirect(path);
    // Letters, digits and punctuation of ours.
    if let Ok(cookie) = cookie.parse() {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
