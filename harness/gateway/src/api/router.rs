//! Which path is answered by whom, and who may come in.
//!
//! I1. Nothing but `/healthz`, `/readyz` and the page to log in is answered without a key; pages have a router of their own, and what
//! lets somebody see them lets nobody use the API. I2. What is not here is refused in OpenAI's shape, and what OpenAI
//! has and this server has not, by its name.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderValue, Method, Response, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::completions;
use super::error::ApiError;
use super::gateway::Gateway;
use super::learning;
use super::pages;
use super::random::random;
use super::records;
use crate::UserId;

/// As OpenAI has it.
const REQUEST_ID: &str = "x-request-id";

/// What OpenAI's interface has under `/v1/` and this server has not.
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

pub(super) fn router(gateway: &Arc<Gateway>) -> Router {
    Router::new()
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(models))
        .route("/v1/models/{*model}", get(model))
        .route("/v1/chat/completions", post(completions::chat))
        .route("/v1/completions", post(completions::text))
        .route("/v1/feedback", post(records::feedback))
        .route("/v1/sessions", get(records::sessions))
        .route("/v1/sessions/close", post(records::close_named))
        .route("/v1/sessions/{session}", get(records::session).delete(records::delete_session))
        .route("/v1/sessions/{session}/close", post(records::close))
        .route("/v1/turns/{turn}", get(records::turn).delete(records::delete_turn))
        .route("/v1/export", get(records::export))
        .route("/v1/user", get(records::user).put(records::change_user).delete(records::delete_user))
        .route("/v1/policy", get(learning::policy))
        .route("/v1/policy/train", post(learning::train))
        .route("/v1/policy/pause", post(learning::pause))
        .route("/v1/policy/resume", post(learning::resume))
        .route("/v1/policy/rollback", post(learning::roll_back))
        .fallback(not_found)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(gateway), enter))
        .merge(pages::router(gateway))
        .layer(from_fn(name))
        .with_state(Arc::clone(gateway))
}

/// Gives a request a name, which its answer has as `x-request-id`, and the log with what went wrong here.
async fn name(request: Request, next: Next) -> Response<Body> {
    let id = format!("req-{:016x}", random());
    let mut response = next.run(request).await;
    if response.status().is_server_error() {
        tracing::warn!(%id, status = response.status().as_u16(), "a request was not answered");
    }
    // Letters and digits are a header.
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Lets a request in, or says why not.
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
    if ["/healthz", "/readyz"].contains(&request.uri().path()) {
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

/// Whether requests can be answered, and recorded.
async fn ready(State(gateway): State<Arc<Gateway>>) -> Response<Body> {
    let mut wrong = Vec::new();
    if gateway.is_draining.load(Ordering::Relaxed) {
        wrong.push("the server is ending".to_owned());
    }
    if gateway.is_record_broken.load(Ordering::Relaxed) {
        wrong.push("chat is not recorded; the server's log says why".to_owned());
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
    let text = gateway.metrics.text(gateway.places.running());
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
    // `created` is required by clients, and nothing is known of it.
    let version = gateway.backend.version(user);
    json!({"id": name, "object": "model", "created": 0, "owned_by": "clawrl", "policy_version": version, "max_model_len": gateway.backend.context()})
}

async fn not_found(uri: Uri) -> ApiError {
    let path = uri.path();
    let first = path.strip_prefix("/v1/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if NOT_HERE.contains(&first) {
        let message = format!("`/v1/{first}` is not served here; chat is at `/v1/chat/completions`");
        return ApiError::not_found("endpoint_not_served", message);
    }
    ApiError::not_found("not_found", "there is nothing at this path")
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    ApiError::wrong_method(format!("`{}` has no {method}", uri.path()))
}
