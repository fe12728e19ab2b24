//! `POST /v1/chat/completions` and `POST /v1/completions`.
//!
//! Chats are recorded; text completions are not, since they belong to no conversation.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::answer_stream::AnswerStream;
use super::body;
use super::completion_params::{CompletionKind, CompletionParams};
use super::concurrency::Permit;
use super::error::ApiError;
use super::gateway::Gateway;
use super::pending_answer::PendingAnswer;
use super::random::random;
use super::response::ResponseEnvelope;
use crate::recorder::NewRequest;
use crate::{AnswerRequest, ChatRequest, Headers, Prompt, RequestId, UserId};

/// Maximum number of prompts times choices.
const MAX_ANSWERS: usize = 64;

pub(super) async fn chat(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    complete(gateway, user, request, CompletionKind::Chat).await
}

pub(super) async fn text(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    complete(gateway, user, request, CompletionKind::Text).await
}

async fn complete(
    gateway: Arc<Gateway>,
    user: UserId,
    request: Request,
    kind: CompletionKind,
) -> Result<Response<Body>, ApiError> {
    let arrived = Instant::now();
    let (parts, raw) = request.into_parts();
    let raw = body::read(&gateway.settings, &parts.headers, raw).await?;
    gateway.metrics.requests.add(1);
    let permit = gateway.answer_limit.acquire(&user)?;
    let (object, raw) = body::object(raw)?;
    let mut params = CompletionParams::parse(&object, kind, random())?;
    params.sampling = gateway.backend.effective_sampling(&object, params.sampling);
    let models = gateway.backend.models();
    let usual = models.first().cloned().unwrap_or_default();
    let model = params.model.clone().unwrap_or(usual);
    if !models.contains(&model) {
        let known = models.iter().map(|model| format!("`{model}`")).collect::<Vec<_>>().join(", ");
        return Err(ApiError::not_found(
            "model_not_found",
            format!("there is no model `{model}`; there is {known}"),
        ));
    }
    let value = Value::Object(object);
    let chat = (kind == CompletionKind::Chat).then(|| ChatRequest::parse(&value)).transpose()?;
    let Value::Object(object) = value else { return Err(ApiError::internal("unexpected body")) };
    let prompts = match kind {
        CompletionKind::Chat => vec![Prompt::Chat],
        CompletionKind::Text => prompts(&object)?,
    };
    if prompts.len() * params.choices as usize > MAX_ANSWERS {
        return Err(ApiError::field("prompt", format!("prompts times `n` must be at most {MAX_ANSWERS}")));
    }
    let body = Arc::new(object);
    let ask = |prompt: &Prompt, choice| AnswerRequest {
        user: user.clone(),
        body: Arc::clone(&body),
        prompt: prompt.clone(),
        sampling: params.sampling_of(choice),
    };
    let requests: Vec<AnswerRequest> = prompts
        .iter()
        .flat_map(|prompt| (0..params.choices).map(move |choice| ask(prompt, choice)))
        .collect();
    let refusal = requests.first().and_then(|ask| gateway.backend.refusal(ask, &params.unsupported));
    if let Some(refusal) = refusal {
        return Err(ApiError::field(refusal.field, refusal.message));
    }
    let recorded = match chat {
        None => {
            drop(raw);
            None
        }
        Some(chat) => {
            let new = NewRequest {
                user: user.clone(),
                endpoint: "/v1/chat/completions",
                headers: headers(&parts.headers),
                raw,
                body: Arc::new(chat),
                model: model.clone(),
                sampling: params.record(),
            };
            record(&gateway, new).await
        }
    };
    let prefix = if kind == CompletionKind::Chat { "chatcmpl" } else { "cmpl" };
    let envelope = ResponseEnvelope {
        kind,
        id: recorded.map_or_else(|| format!("{prefix}-x{:016x}", random()), |id| format!("{prefix}-{id}")),
        created: jiff::Timestamp::now().as_second(),
        model,
        fingerprint: gateway.backend.version(&user).map(|version| format!("v{version}")),
        include_usage: params.include_usage,
    };
    let is_stream = params.stream;
    let pending =
        PendingAnswer { gateway: Arc::clone(&gateway), params, envelope, user, request: recorded, arrived };
    // Releases the body before the answer is awaited.
    drop((body, prompts));
    match is_stream {
        true => stream(pending, requests, permit).await,
        false => whole(&gateway, pending, requests, permit).await,
    }
}

/// The number of the recorded request; `None` if recording failed.
async fn record(gateway: &Gateway, new: NewRequest) -> Option<RequestId> {
    match gateway.recorder.arrived(new).await {
        // The answer's commit confirms that it is written.
        Ok(admitted) => Some(admitted.request),
        Err(error) => {
            gateway.unrecorded(&error);
            None
        }
    }
}

async fn whole(
    gateway: &Gateway,
    pending: PendingAnswer,
    requests: Vec<AnswerRequest>,
    permit: Permit,
) -> Result<Response<Body>, ApiError> {
    let (listener, answer) = oneshot::channel();
    gateway.answers.spawn(async move {
        pending.whole(requests, listener).await;
        drop(permit);
    });
    let answer = answer.await.map_err(|_| ApiError::internal("the answer was interrupted"))??;
    Ok(json(&answer))
}

async fn stream(
    pending: PendingAnswer,
    requests: Vec<AnswerRequest>,
    permit: Permit,
) -> Result<Response<Body>, ApiError> {
    let mut streamed = AnswerStream::new(pending, requests, permit);
    streamed.start().await?;
    let mut response = Response::new(Body::new(streamed));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Prevents proxies from buffering the stream.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// A JSON response.
pub(super) fn json(value: &Value) -> Response<Body> {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// The headers as recorded; values that are not text are dropped.
pub(super) fn headers(headers: &HeaderMap) -> Headers {
    headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect()
}

/// The prompts of a text completion.
fn prompts(body: &Map<String, Value>) -> Result<Vec<Prompt>, ApiError> {
    let wrong = || {
        ApiError::field(
            "prompt",
            "`prompt` must be a string, an array of strings, an array of token ids, or an array of such arrays",
        )
    };
    let ids = |value: &Value| -> Option<Vec<u32>> {
        let ids = value.as_array()?.iter().map(|id| u32::try_from(id.as_u64()?).ok());
        ids.collect::<Option<Vec<u32>>>().filter(|ids| !ids.is_empty())
    };
    let text = |value: &Value| value.as_str().map(|text| Prompt::Text(text.to_owned()));
    let prompt = body.get("prompt").ok_or_else(wrong)?;
    if let Some(prompt) = text(prompt).or_else(|| ids(prompt).map(Prompt::Ids)) {
        return Ok(vec![prompt]);
    }
    let several = prompt.as_array().filter(|several| !several.is_empty()).ok_or_else(wrong)?;
    let each = several.iter().map(|prompt| text(prompt).or_else(|| ids(prompt).map(Prompt::Ids)));
    each.collect::<Option<_>>().ok_or_else(wrong)
}
