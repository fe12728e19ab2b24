//! The frame that all pages share, and their response headers.
//!
//! I1. Nothing is loaded from other sites, and no script runs but `script.js`. I2. Pages work without scripts; with scripts, the live part is
//! fetched again when something changes. I3. Browsers do not cache pages.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;
use serde_json::json;

use super::login::Visitor;
use super::render::render;
use crate::api::error::ApiError;
use crate::{LedgerError, SessionId, TurnId};

/// Marks requests of the script for the live part of a page.
pub(super) const PART_HEADER: &str = "x-clawrl-part";
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// A rendered page.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) title: String,
    /// The page's session: changes of other sessions do not refresh it.
    pub(super) session: Option<SessionId>,
    /// The page's turn: changes of other turns do not refresh it.
    pub(super) turn: Option<TurnId>,
    /// Before the live part, and not refreshed: headings, forms.
    pub(super) head: String,
    /// Fetched again after a change.
    pub(super) live: String,
    /// After the live part, and not refreshed.
    pub(super) foot: String,
}

impl Page {
    /// Renders a template.
    ///
    /// # Errors
    /// 500 if the template fails, which is a bug.
    pub(super) fn new(
        title: impl Into<String>,
        template: &str,
        context: &impl Serialize,
    ) -> Result<Self, PageError> {
        let [head, live, foot] = render(template, ["head", "live", "foot"], context).map_err(broken)?;
        Ok(Self { title: title.into(), session: None, turn: None, head, live, foot })
    }
}

/// Why there is no page.
#[derive(Debug)]
pub(super) struct PageError {
    pub(super) status: StatusCode,
    pub(super) message: String,
}

impl PageError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The page does not exist, or belongs to another user.
    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not found.")
    }
}

impl From<LedgerError> for PageError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Unknown(_) => Self::not_found(),
            LedgerError::Refused(_) => Self::new(StatusCode::BAD_REQUEST, format!("Refused: {error}.")),
            LedgerError::File { .. } | LedgerError::Storage(_) | LedgerError::Lost | LedgerError::Ended => {
                tracing::error!("failed to read the ledger: {error}");
                let message = "The ledger cannot be read; see the server's log.";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
            }
        }
    }
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        let mut characters = error.message().chars();
        let first = characters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
        Self::new(error.status(), format!("{first}{}.", characters.as_str()))
    }
}

fn broken(error: minijinja::Error) -> PageError {
    tracing::error!("failed to render a page: {error:#}");
    PageError::new(StatusCode::INTERNAL_SERVER_ERROR, "The page cannot be rendered; see the server's log.")
}

/// The whole page, for a visitor who is logged in or not.
pub(super) fn whole(page: Page, visitor: Option<&Visitor>) -> Response<Body> {
    let Page { title, session, turn, head, live, foot } = page;
    let context = json!({
        "title": title, "session": session, "turn": turn, "head": head, "live": live, "foot": foot,
        "user": visitor.map(|visitor| &visitor.user),
        "proof": visitor.and_then(|visitor| visitor.proof.as_deref()),
    });
    match render("layout", ["layout"], &context) {
        Ok([html]) => response(StatusCode::OK, "text/html; charset=utf-8", html),
        Err(error) => {
            let error = broken(error);
            response(error.status, "text/plain; charset=utf-8", error.message)
        }
    }
}

/// The live part of a page alone.
pub(super) fn live(page: Page) -> Response<Body> {
    response(StatusCode::OK, "text/html; charset=utf-8", page.live)
}

/// A page with the reason why there is no other one.
pub(super) fn error_page(error: &PageError, visitor: Option<&Visitor>) -> Response<Body> {
    let page = Page::new(&*error.message, "error", &json!({"message": error.message}));
    let mut response = whole(page.unwrap_or_default(), visitor);
    *response.status_mut() = error.status;
    response
}

/// A redirect after a form was submitted.
pub(super) fn redirect(path: &str) -> Response<Body> {
    let mut response = response(StatusCode::SEE_OTHER, "text/plain", String::new());
    if let Ok(path) = HeaderValue::from_str(path) {
        response.headers_mut().insert(header::LOCATION, path);
    }
    response
}

pub(super) fn response(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Adds the headers that every response has.
pub(super) fn protect(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_SECURITY_POLICY, POLICY);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Other sites get no referrer. With `no-referrer`, our own forms would send `Origin: null`, which the guard refuses as another site's.
    set(header::REFERRER_POLICY, "same-origin");
    set(header::CACHE_CONTROL, "no-store");
    set(header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
}
