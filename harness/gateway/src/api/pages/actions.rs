//! What forms ask to be done.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};

use super::document::{self, NoPage, Page};
use super::form::Form;
use super::html::{Html, counted};
use super::login::Visitor;
use super::routes::number;
use crate::api::body;
use crate::api::gateway::Gateway;
use crate::{Deleted, Deletion, FeedbackSource, FeedbackTarget, NewFeedback, SessionId, TurnId};

/// The page to log in, with what was wrong the last time.
pub(super) fn login_page(wrong: Option<NoPage>) -> Response<Body> {
    let mut page = Page { title: "Log in".to_owned(), ..Page::default() };
    page.head.raw("<h1>ClawRL chat</h1>\n");
    if let Some(wrong) = &wrong {
        page.head.raw("<p class=\"warning\" role=\"alert\">").text(&wrong.message).raw("</p>\n");
    }
    page.head.raw(
        "<form method=\"post\" action=\"/login\" class=\"login\"><label for=\"key\">A key of this server</label>\
         <input id=\"key\" name=\"key\" type=\"password\" autocomplete=\"current-password\" required autofocus>\
         <button>Log in</button></form>\n<p class=\"soft\">It is the key that your chat client has: the second word of a \
         line of the file <code>keys</code>. The browser keeps a cookie, and not the key.</p>\n",
    );
    let mut response = document::whole(&page, None);
    *response.status_mut() = wrong.map_or(StatusCode::OK, |wrong| wrong.status);
    response
}

/// `POST /login`.
pub(super) async fn login(State(gateway): State<Arc<Gateway>>, request: Request) -> Response<Body> {
    match logged_in(&gateway, request).await {
        Ok(cookie) => with_cookie(&cookie, "/"),
        Err(wrong) => login_page(Some(wrong)),
    }
}

async fn logged_in(gateway: &Gateway, request: Request) -> Result<String, NoPage> {
    let origin = request.headers().get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    // The guard has let it in: it is a name of ours, as the browser sees it.
    let is_secret = origin.is_some_and(|origin| origin.starts_with("https://"));
    let form = form(gateway, request).await?;
    let key = form.get("key").unwrap_or_default().trim();
    let wrong = || NoPage::new(StatusCode::FORBIDDEN, "This is no key of this server.");
    let user = gateway.keys.user(&format!("Bearer {key}")).ok_or_else(wrong)?;
    gateway.logins.open(user, is_secret).map_err(|error| {
        tracing::error!("nobody can log in: {error}");
        NoPage::new(StatusCode::INTERNAL_SERVER_ERROR, "Nobody can log in now; the server's log says why.")
    })
}

/// `POST /logout`.
pub(super) async fn logout(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Response<Body> {
    let headers: HeaderMap = request.headers().clone();
    match asked(&gateway, &visitor, request).await {
        Ok(_) => with_cookie(&gateway.logins.close(&headers), "/login"),
        Err(why) => document::none(&why, Some(&visitor)),
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
        let form = asked(&gateway, &visitor, request).await?;
        let thumb = match form.get("rating") {
            Some("up") => Some(1),
            Some("down") => Some(-1),
            _ => None,
        };
        // Browsers send the ends of lines as mail has them.
        let text = form.get("text").unwrap_or_default().replace("\r\n", "\n");
        let text = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        if thumb.is_none() && text.is_none() {
            return Err(NoPage::new(StatusCode::BAD_REQUEST, "Feedback has a thumb or a text."));
        }
        let target = FeedbackTarget::Turn(turn);
        let new = NewFeedback { target, choice: None, source: FeedbackSource::Api, thumb, text, score: None };
        gateway.recorder.feedback(&visitor.user, new).await?;
        Ok(document::to(&format!("/turns/{turn}#feedback")))
    };
    shown(done.await, &visitor)
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
        asked(&gateway, &visitor, request).await?;
        gateway.recorder.close_session(&visitor.user, session).await?;
        Ok(document::to(&format!("/sessions/{session}")))
    };
    shown(done.await, &visitor)
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
    what: Result<Deletion, NoPage>,
) -> Response<Body> {
    let done = async {
        let what = what?;
        asked(gateway, visitor, request).await?;
        let deleted = gateway.recorder.delete(&visitor.user, what).await?;
        Ok(document::whole(&told(&deleted), Some(visitor)))
    };
    shown(done.await, visitor)
}

/// What was deleted, and what cannot be taken back.
fn told(deleted: &Deleted) -> Page {
    let mut page = Page { title: "Deleted".to_owned(), ..Page::default() };
    let html: &mut Html = &mut page.head;
    html.raw("<h1>Deleted</h1>\n<p>").text(counted(deleted.turns, "turn", "turns")).raw(" and ");
    html.text(counted(deleted.requests, "request", "requests")).raw(" are deleted. ");
    html.text(counted(deleted.samples, "sample", "samples")).raw(" that waited will not be trained.</p>\n");
    if deleted.versions.is_empty() && deleted.running.is_empty() {
        html.raw("<p>No version was trained on it.</p>\n");
    }
    if !deleted.versions.is_empty() {
        html.raw("<p class=\"warning\">These versions were trained on it, and stay what they are:</p>\n<ul>");
        for (adapter, version) in &deleted.versions {
            html.raw("<li>version ").text(version).raw(" of <bdi>").text(adapter).raw("</bdi></li>");
        }
        html.raw("</ul>\n");
    }
    if !deleted.running.is_empty() {
        let running = counted(deleted.running.len() as u64, "update", "updates");
        html.raw("<p class=\"warning\">").text(running);
        html.raw(" under way have it. If they are accepted, their versions were trained on it, too.</p>\n");
    }
    html.raw("<p><a href=\"/\">To the chats</a></p>\n");
    page
}

/// The form, if this visitor asks for what is in it.
pub(super) async fn asked(gateway: &Gateway, visitor: &Visitor, request: Request) -> Result<Form, NoPage> {
    let form = form(gateway, request).await?;
    if visitor.is_asked(form.get("proof")) {
        return Ok(form);
    }
    let message = "This form is of another login. Go back, load its page again, and try once more.";
    Err(NoPage::new(StatusCode::FORBIDDEN, message))
}

async fn form(gateway: &Gateway, request: Request) -> Result<Form, NoPage> {
    let (parts, body) = request.into_parts();
    let bytes = body::read(&gateway.settings, &parts.headers, body).await;
    let bytes = bytes.map_err(|error| NoPage::new(StatusCode::BAD_REQUEST, error.message()))?;
    Ok(Form::read(&bytes))
}

pub(super) fn shown(done: Result<Response<Body>, NoPage>, visitor: &Visitor) -> Response<Body> {
    done.unwrap_or_else(|why| document::none(&why, Some(visitor)))
}

fn with_cookie(cookie: &str, path: &str) -> Response<Body> {
    let mut response = document::to(path);
    // It has nothing in it but letters, numbers and signs of ours.
    if let Ok(cookie) = cookie.parse() {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
