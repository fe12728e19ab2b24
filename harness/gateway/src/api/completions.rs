//! `POST /v1/chat/completions` and `POST /v1/completions`.
//!
//! Chat is recorded; texts are not, since they are nobody's conversation.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use axum::response::IntoResponse;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::answering::Answering;
use super::body;
use super::error::ApiError;
use super::gateway::Gateway;
use super::places::Place;
use super::random::random;
use super::shapes::Shape;
use super::streamed::Streamed;
use super::wanted::{Form, Wanted};
use crate::recorder::NewRequest;
use crate::{Ask, ChatRequest, Headers, Prompt, RequestId, UserId};

/// Most prompts of one request for texts, times choices.
const MOST_ANSWERS: usize = 64;

pub(super) async fn chat(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    complete(gateway, user, request, Form::Chat).await
}

pub(super) async fn text(
    State(gateway): State<Arc<Gateway>>,
    Extension(user): Extension<UserId>,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    complete(gateway, user, request, Form::Text).await
}

async fn complete(
    gateway: Arc<Gateway>,
    user: UserId,
    request: Request,
    form: Form,
) -> Result<Response<Body>, ApiError> {
    let arrived = Instant::now();
    let (parts, raw) = request.into_parts();
    let raw = body::read(&gateway.settings, &parts.headers, raw).await?;
    gateway.metrics.requests.add(1);
    let place = gateway.places.take(&user)?;
    let (object, raw) = body::object(raw)?;
    let mut wanted = Wanted::parse(&object, form, random())?;
    wanted.sampling = gateway.backend.settles(&object, wanted.sampling);
    let models = gateway.backend.models();
    let usual = models.first().cloned().unwrap_or_default();
    let model = wanted.model.clone().unwrap_or(usual);
    if !models.contains(&model) {
        let known = models.iter().map(|model| format!("`{model}`")).collect::<Vec<_>>().join(", ");
        return Err(ApiError::not_found(
            "model_not_found",
            format!("there is no model `{model}`; there is {known}"),
        ));
    }
    let value = Value::Object(object);
    let chat = (form == Form::Chat).then(|| ChatRequest::parse(&value)).transpose()?;
    let Value::Object(object) = value else { return Err(ApiError::internal("an object is one")) };
    let prompts = match form {
        Form::Chat => vec![Prompt::Chat],
        Form::Text => prompts(&object)?,
    };
    if prompts.len() * wanted.choices as usize > MOST_ANSWERS {
        return Err(ApiError::field("prompt", format!("at most {MOST_ANSWERS} answers of one request")));
    }
    let body = Arc::new(object);
    let ask = |prompt: &Prompt, choice| Ask {
        user: user.clone(),
        body: Arc::clone(&body),
        prompt: prompt.clone(),
        sampling: wanted.sampling_of(choice),
    };
    let asks: Vec<Ask> = prompts
        .iter()
        .flat_map(|prompt| (0..wanted.choices).map(move |choice| ask(prompt, choice)))
        .collect();
    let refusal = asks.first().and_then(|ask| gateway.backend.refuses(ask, &wanted.demands));
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
                sampling: wanted.record(),
            };
            record(&gateway, new).await
        }
    };
    let prefix = if form == Form::Chat { "chatcmpl" } else { "cmpl" };
    let shape = Shape {
        form,
        id: recorded.map_or_else(|| format!("{prefix}-x{:016x}", random()), |id| format!("{prefix}-{id}")),
        created: jiff::Timestamp::now().as_second(),
        model,
        fingerprint: gateway.backend.version(&user).map(|version| format!("v{version}")),
        include_usage: wanted.include_usage,
    };
    let is_stream = wanted.stream;
    let answering =
        Answering { gateway: Arc::clone(&gateway), wanted, shape, user, request: recorded, arrived };
    // Whatever else has the body is let go before the answer is waited for.
    drop((body, prompts));
    match is_stream {
        true => stream(answering, asks, place).await,
        false => whole(&gateway, answering, asks, place).await,
    }
}

/// Its number, where it could be recorded.
async fn record(gateway: &Gateway, new: NewRequest) -> Option<RequestId> {
    match gateway.recorder.arrived(new).await {
        // Whether it is written is known with its answer.
        Ok(admitted) => Some(admitted.request),
        Err(error) => {
            gateway.unrecorded(&error);
            None
        }
    }
}

async fn whole(
    gateway: &Gateway,
    answering: Answering,
    asks: Vec<Ask>,
    place: Place,
) -> Result<Response<Body>, ApiError> {
    let (listener, answer) = oneshot::channel();
    gateway.answers.spawn(async move {
        answering.whole(asks, listener).await;
        drop(place);
    });
    let answer = answer.await.map_err(|_| ApiError::internal("the answer came to no end"))??;
    Ok(json(&answer))
}

async fn stream(answering: Answering, asks: Vec<Ask>, place: Place) -> Result<Response<Body>, ApiError> {
    let mut streamed = Streamed::new(answering, asks, place);
    streamed.begin().await?;
    let mut response = Response::new(Body::new(streamed));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that gather what comes would make a stream one piece.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// A JSON answer.
pub(super) fn json(value: &Value) -> Response<Body> {
    ([(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

/// As the record has them: those that are no text are nobody's that it reads.
pub(super) fn headers(headers: &HeaderMap) -> Headers {
    headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?))).collect()
}

/// The prompts of a request for texts.
fn prompts(body: &Map<String, Value>) -> Result<Vec<Prompt>, ApiError> {
    let wrong = || {
        ApiError::field(
            "prompt",
            "`prompt` is a text, an array of texts, an array of token ids, or an array of such arrays",
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
