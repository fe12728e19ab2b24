//! What all pages have in common.
//!
//! I1. Nothing is loaded from elsewhere, and no script runs but our own file. I2. A page works without it; with it, its live part is fetched
//! again when something changes. I3. No browser keeps a page.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

use super::html::Html;
use super::login::Visitor;
use crate::api::error::ApiError;
use crate::{LedgerError, SessionId, TurnId};

/// A script that fetches the live part of a page says so.
pub(super) const PART_HEADER: &str = "x-clawrl-part";
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A page.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) title: String,
    /// The session that it is about: what changes elsewhere does not concern it.
    pub(super) session: Option<SessionId>,
    /// The turn that it is about: the same.
    pub(super) turn: Option<TurnId>,
    /// What stays: headings, forms.
    pub(super) head: Html,
    /// What is fetched again when something changes.
    pub(super) live: Html,
    /// Behind it.
    pub(super) foot: Html,
}

/// Why there is no page.
#[derive(Debug)]
pub(super) struct NoPage {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl NoPage {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// What is somebody else's, and what does not exist.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "There is nothing here.")
    }
}

impl From<LedgerError> for NoPage {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Unknown(_) => Self::not_found(),
            LedgerError::Refused(_) => Self::new(StatusCode::BAD_REQUEST, format!("Refused: {error}.")),
            LedgerError::File { .. } | LedgerError::Storage(_) | LedgerError::Lost | LedgerError::Ended => {
                tracing::error!("the ledger cannot be asked: {error}");
                let message = "The record cannot be asked; the server's log says why.";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
            }
        }
    }
}

impl From<ApiError> for NoPage {
    fn from(error: ApiError) -> Self {
        let mut characters = error.message().chars();
        let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
        Self::new(error.status(), format!("{first}{}.", characters.as_str()))
    }
}

/// The page as a whole, for whoever sees it.
pub(super) fn whole(page: &Page, visitor: Option<&Visitor>) -> Response<Body> {
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">")
        .raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>")
        .text(&page.title)
        .raw(" - ClawRL chat</title><link rel=\"icon\" href=\"data:,\"><link rel=\"stylesheet\" href=\"/style.css\">");
    if visitor.is_some() {
        html.raw("<script src=\"/script.js\" defer></script>");
    }
    html.raw("</head><body");
    if let Some(session) = page.session {
        html.raw(" data-session=\"").text(session).raw("\"");
    }
    if let Some(turn) = page.turn {
        html.raw(" data-turn=\"").text(turn).raw("\"");
    }
    html.raw("><main>\n");
    if let Some(visitor) = visitor {
        navigation(&mut html, visitor);
    }
    html.part(&page.head);
    if !page.live.is_empty() {
        html.raw("<div id=\"live\">").part(&page.live).raw("</div>\n");
    }
    html.part(&page.foot).raw("</main></body></html>\n");
    sent(StatusCode::OK, "text/html; charset=utf-8", html.into_string())
}

/// Its live part alone.
pub(super) fn live(page: Page) -> Response<Body> {
    sent(StatusCode::OK, "text/html; charset=utf-8", page.live.into_string())
}

/// A page that says why there is none.
pub(super) fn none(why: &NoPage, visitor: Option<&Visitor>) -> Response<Body> {
    let mut page = Page { title: why.message.clone(), ..Page::default() };
    page.head.raw("<h1>").text(&why.message).raw("</h1>\n<p><a href=\"/\">To the beginning</a></p>\n");
    let mut response = whole(&page, visitor);
    *response.status_mut() = why.status;
    response
}

/// To another page.
pub(super) fn to(path: &str) -> Response<Body> {
    let mut response = sent(StatusCode::SEE_OTHER, "text/plain", String::new());
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}

pub(super) fn sent(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// What every response has, whatever it is.
pub(super) fn protect(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Other sites are told nothing. To ourselves, `no-referrer` would turn the `Origin` of our own forms into `null`, by which the guard
    // turns other sites away.
    set(header::REFERRER_POLICY, "same-origin");
    set(header::CACHE_CONTROL, "no-store");
    set(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
}

/// What a form has to have.
pub(super) fn proof(html: &mut Html, visitor: &Visitor) {
    if let Some(proof) = &visitor.proof {
        html.raw("<input type=\"hidden\" name=\"proof\" value=\"").text(proof).raw("\">");
    }
}

fn navigation(html: &mut Html, visitor: &Visitor) {
    html.raw("<nav><a href=\"/\">Chats</a> <a href=\"/versions\">Versions</a><span id=\"state\" class=\"soft\"></span>")
        .raw("<form method=\"post\" action=\"/logout\">");
    proof(html, visitor);
    html.raw("<bdi class=\"soft\">")
        .text(&visitor.user)
        .raw("</bdi> <button>Log out</button></form></nav>\n");
}
