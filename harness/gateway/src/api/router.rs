//! Routes of the API, and authentication.
//!
//! I1. Only `/healthz`, `/readyz`, `/openapi.json` and the login page need no key; pages have their own router, and their login is not
//! valid for the API. I2. Unknown paths are refused in OpenAI's format, and OpenAI endpoints that this server lacks by name.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, Method, Response, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::completions;
use super::error::ApiError;
use super::gateway::Gateway;
use super::learning;
use super::openapi;
use super::pages;
use super::random::random;
use super::records;
use super::routes::Routes;
use crate::UserId;

/// Header name as in OpenAI's API.
const REQUEST_ID: &str = "x-request-id";

/// OpenAI endpoints under `/v1/` that this server lacks.
const NOT_HERE: [&str; 22] = [
    "assistants",
    "audio",
    "batches",
    "containers",
    "conversations",
    "embeddings",
    "evals",
    "files",
    "fine_tuning",
    "images",
    "messages",
    "moderations",
    "organization",
    "realtime",
    "rerank",
    "responses",
    "score",
    "skills",
    "threads",
    "uploads",
    "vector_stores",
    "videos",
];

/// Paths that need no key.
const OPEN: [&str; 3] = ["/healthz", "/readyz", openapi::PATH];

pub(super) fn router(gateway: &Arc<Gateway>) -> Router {
    routes()
        .into_router()
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(gateway), enter))
        .merge(pages::router(gateway))
        .layer(from_fn(name))
        .with_state(Arc::clone(gateway))
}

/// All routes except pages.
pub(super) fn routes() -> Routes {
    Routes::default()
        .get("/healthz", health)
        .get("/readyz", ready)
        .get(openapi::PATH, openapi::document)
        .get("/metrics", metrics)
        .get("/v1/models", models)
        .get("/v1/models/{*model}", model)
        .post("/v1/chat/completions", completions::chat)
        .post("/v1/completions", completions::text)
        .post("/v1/feedback", records::feedback)
        .get("/v1/sessions", records::sessions)
        .post("/v1/sessions/close", records::close_named)
        .get("/v1/sessions/{session}", records::session)
        .delete("/v1/sessions/{session}", records::delete_session)
        .post("/v1/sessions/{session}/close", records::close)
        .get("/v1/turns/{turn}", records::turn)
        .delete("/v1/turns/{turn}", records::delete_turn)
        .get("/v1/export", records::export)
        .get("/v1/user", records::user)
        .put("/v1/user", records::change_user)
        .delete("/v1/user", records::delete_user)
        .get("/v1/policy", learning::policy)
        .post("/v1/policy/train", learning::train)
        .post("/v1/policy/pause", learning::pause)
        .post("/v1/policy/resume", learning::resume)
        .post("/v1/policy/rollback", learning::roll_back)
}

/// Whether a path needs no key.
pub(super) fn is_open(path: &str) -> bool {
    OPEN.contains(&path)
}

/// Gives a request an id, which the response has as `x-request-id`, and which the log has with server errors.
async fn name(request: Request, next: Next) -> Response<Body> {
    let id = format!("req-{:016x}", random());
    let mut response = next.run(request).await;
    if response.status().is_server_error() {
        tracing::warn!(%id, status = response.status().as_u16(), "request failed");
    }
    // Letters and digits are a valid header.
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Authenticates a request.
async fn enter(State(gateway): State<Arc<Gateway>>, mut request: Request, next: Next) -> Response<Body> {
    let response = match admit(&gateway, &mut request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    if response.status().is_client_error() {
        gateway.metrics.refused.add(1);
    }
    response
}

fn admit(gateway: &Gateway, request: &mut Request) -> Result<(), ApiError> {
    gateway.guard.check(request.headers())?;
    if is_open(request.uri().path()) {
        return Ok(());
    }
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let user =
        authorization.and_then(|value| gateway.keys.user(value)).cloned().ok_or_else(ApiError::no_key)?;
    request.extensions_mut().insert(user);
    Ok(())
}

async fn health() -> Response<Body> {
    completions::json(&json!({"status": "ok"}))
}

/// Whether requests can be answered and recorded.
async fn ready(State(gateway): State<Arc<Gateway>>) -> Response<Body> {
    let mut wrong = Vec::new();
    if gateway.is_draining.load(Ordering::Relaxed) {
        wrong.push("the server is shutting down".to_owned());
    }
    if gateway.is_record_broken.load(Ordering::Relaxed) {
        wrong.push("chats are not recorded; see the server's log".to_owned());
    }
    if let Err(why) = gateway.backend.ready().await {
        wrong.push(why);
    }
    if wrong.is_empty() {
        return completions::json(&json!({"status": "ready"}));
    }
    let mut response = completions::json(&json!({"status": "not ready", "reasons": wrong}));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

async fn metrics(State(gateway): State<Arc<Gateway>>) -> Response<Body> {
    let text = gateway.metrics.text(gateway.answer_limit.in_use());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

async fn models(State(gateway): State<Arc<Gateway>>, Extension(user): Extension<UserId>) -> Response<Body> {
    let models: Vec<Value> =
        gateway.backend.models().iter().map(|name| model_json(&gateway, &user, name)).collect();
    completions::json(&json!({"object": "list", "data": models}))
}

async fn model(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    Path(name): Path<String>,
) -> Result<Response<Body>, ApiError> {
    if !gateway.backend.models().contains(&name) {
        return Err(ApiError::not_found("model_not_found", format!("there is no model `{name}`")));
    }
    Ok(completions::json(&model_json(&gateway, &user, &name)))
}

fn model_json(gateway: &Gateway, user: &UserId, name: &str) -> Value {
    // Clients require `created`, and the time is unknown.
    let version = gateway.backend.version(user);
    json!({"id": name, "object": "model", "created": 0, "owned_by": "clawrl", "policy_version": version, "max_model_len": gateway.backend.context()})
}

async fn not_found(uri: Uri) -> ApiError {
    let path = uri.path();
    let first = path.strip_prefix("/v1/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if NOT_HERE.contains(&first) {
        let message = format!("`/v1/{first}` is not supported; chat is at `/v1/chat/completions`");
        return ApiError::not_found("endpoint_not_served", message);
    }
    ApiError::not_found("not_found", "unknown path")
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError::wrong_method(format!("`{}` does not support {method}", uri.path()))
}
