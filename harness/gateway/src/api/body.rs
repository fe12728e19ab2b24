//! Bodies of requests: within bounds of size and time, and JSON.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::error::ApiError;
use super::settings::ServerSettings;

/// Bytes that there is room for at once, whatever a client says that it sends.
const FIRST_ROOM: usize = 64 << 10;

/// Reads a body to its end, into memory of its own: the record keeps it, and not the buffer of a connection with it.
pub(super) async fn read(
    settings: &ServerSettings,
    headers: &HeaderMap,
    body: Body,
) -> Result<Bytes, ApiError> {
    let limit = settings.body_bytes;
    let told =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    // Whoever says so has not begun to send it.
    if told.is_some_and(|told| told > limit as u64) {
        return Err(ApiError::too_large(limit));
    }
    let mut body = Limited::new(body, limit);
    let room = told.map_or(0, |told| usize::try_from(told).unwrap_or(limit).min(FIRST_ROOM));
    let mut bytes = BytesMut::with_capacity(room);
    let read = async {
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame?.into_data() {
                bytes.extend_from_slice(&data);
            }
        }
        Ok::<_, axum::BoxError>(())
    };
    match timeout(settings.body_time, read).await.map_err(|_| ApiError::slow_body())? {
        Ok(()) => Ok(bytes.freeze()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(limit)),
        Err(_) => Err(ApiError::invalid("body_cut", "the body did not come to its end")),
    }
}

/// The object in a body.
pub(super) fn object(bytes: &[u8]) -> Result<Map<String, Value>, ApiError> {
    let no_json =
        |error: serde_json::Error| ApiError::invalid("invalid_json", format!("the body is no JSON: {error}"));
    match serde_json::from_slice(bytes).map_err(no_json)? {
        Value::Object(object) => Ok(object),
        _ => Err(ApiError::invalid("invalid_json", "the body is no JSON object")),
    }
}
