//! Routes of the pages, and access to them.
//!
//! I1. Without a key or a login, only the login page, the style sheet and the script are served. I2. A form is accepted only with the proof of
//! its login.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};

use super::document::{self, PART_HEADER, Page, PageError};
use super::form::Form;
use super::login::Visitor;
use super::{actions, events, overview, policy_actions, session, turn, versions};
use crate::api::gateway::Gateway;
use crate::api::routes::Routes;
use crate::{RequestId, SessionId, TurnId};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Paths that need neither a key nor a login.
const OPEN: [&str; 3] = ["/login", "/style.css", "/script.js"];

pub(in crate::api) fn router(gateway: &Arc<Gateway>) -> Router<Arc<Gateway>> {
    routes().into_router().layer(from_fn_with_state(Arc::clone(gateway), enter))
}

pub(in crate::api) fn routes() -> Routes {
    Routes::default()
        .get("/", chats)
        .get("/sessions/{session}", one_session)
        .get("/turns/{turn}", one_turn)
        .get("/versions", all_versions)
        .get("/events", events::events)
        .get("/login", login)
        .post("/login", actions::login)
        .post("/logout", actions::logout)
        .post("/turns/{turn}/feedback", actions::feedback)
        .post("/turns/{turn}/delete", actions::delete_turn)
        .post("/sessions/{session}/close", actions::close)
        .post("/sessions/{session}/delete", actions::delete_session)
        .post("/policy/train", policy_actions::train)
        .post("/policy/pause", policy_actions::pause)
        .post("/policy/resume", policy_actions::resume)
        .post("/policy/rollback", policy_actions::roll_back)
        .get("/style.css", async || document::response(StatusCode::OK, "text/css; charset=utf-8", STYLE))
        .get("/script.js", async || {
            document::response(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT)
        })
}

/// Whether a path needs neither a key nor a login.
pub(in crate::api) fn is_open(path: &str) -> bool {
    OPEN.contains(&path)
}

/// Authenticates a request.
async fn enter(State(gateway): State<Arc<Gateway>>, mut request: Request, next: Next) -> Response<Body> {
    let path = request.uri().path();
    let is_open = is_open(path);
    let is_page = request.method() == Method::GET && path != "/events" && !is_part(request.headers());
    // First: nothing is read of a request from another site's page.
    let guarded = gateway.guard.check(request.headers());
    let mut response = if let Err(error) = guarded {
        document::error_page(&PageError::new(StatusCode::FORBIDDEN, error.message()), None)
    } else if let Some(visitor) = visitor(&gateway, request.headers()) {
        request.extensions_mut().insert(visitor);
        next.run(request).await
    } else if is_open {
        next.run(request).await
    } else if is_page {
        document::redirect("/login")
    } else {
        let message = "You are not logged in.";
        document::error_page(&PageError::new(StatusCode::UNAUTHORIZED, message), None)
    };
    if response.status().is_client_error() {
        gateway.metrics.refused.add(1);
    }
    document::protect(&mut response);
    response
}

/// The visitor, by key or by login.
fn visitor(gateway: &Gateway, headers: &HeaderMap) -> Option<Visitor> {
    match headers.get(header::AUTHORIZATION) {
        Some(authorization) => {
            let user = gateway.keys.user(authorization.to_str().ok()?)?;
            Some(Visitor::with_key(user.clone()))
        }
        None => gateway.logins.visitor(headers),
    }
}

fn is_part(headers: &HeaderMap) -> bool {
    headers.contains_key(PART_HEADER)
}

async fn chats(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    uri: Uri,
) -> Response<Body> {
    let before = query(&uri).number("before").map(|before| SessionId(RequestId(before)));
    respond(overview::page(&gateway, &visitor, before).await, &visitor, &headers)
}

async fn one_session(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    Path(session): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Response<Body> {
    let before = query(&uri).number("before").map(|before| TurnId(RequestId(before)));
    let page = async { session::page(&gateway, &visitor, SessionId(number(&session)?), before).await };
    respond(page.await, &visitor, &headers)
}

async fn one_turn(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    Path(turn): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Response<Body> {
    let upto = query(&uri).number("upto").and_then(|upto| usize::try_from(upto).ok());
    let page = async { turn::page(&gateway, &visitor, TurnId(number(&turn)?), upto).await };
    respond(page.await, &visitor, &headers)
}

async fn all_versions(
    State(gateway): State<Arc<Gateway>>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    uri: Uri,
) -> Response<Body> {
    let before = query(&uri).number("before").map(crate::UpdateId);
    respond(versions::page(&gateway, &visitor, before).await, &visitor, &headers)
}

async fn login(visitor: Option<Extension<Visitor>>) -> Response<Body> {
    if visitor.is_some() { document::redirect("/") } else { actions::login_page(None) }
}

fn respond(page: Result<Page, PageError>, visitor: &Visitor, headers: &HeaderMap) -> Response<Body> {
    match page {
        Ok(page) if is_part(headers) => document::live(page),
        Ok(page) => document::whole(page, Some(visitor)),
        Err(why) => document::error_page(&why, Some(visitor)),
    }
}

fn query(uri: &Uri) -> Form {
    Form::read(uri.query().unwrap_or_default().as_bytes())
}

/// The number in a path; 404 for anything else.
pub(super) fn number(text: &str) -> Result<RequestId, PageError> {
    text.parse().map(RequestId).map_err(|_| PageError::not_found())
}
