//! Reads request bodies, with limits of size and time, and parses them as JSON.
//!
//! I1. The result is valid JSON for every reader: lone surrogates, which some clients leave when they cut a text, become U+FFFD.

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use clawrl_core::{utf8_text, without_lone_surrogates};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::error::ApiError;
use super::settings::ServerSettings;

/// Maximum initial capacity, whatever size the client announces.
const FIRST_ROOM: usize = 64 << 10;

/// Reads a whole body into its own memory: the record keeps it, without the connection's buffer.
pub(super) async fn read(
    settings: &ServerSettings,
    headers: &HeaderMap,
    body: Body,
) -> Result<Bytes, ApiError> {
    let limit = settings.body_bytes;
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    // The client has announced the size and sent nothing yet.
    if announced.is_some_and(|announced| announced > limit as u64) {
        return Err(ApiError::too_large(limit));
    }
    let mut body = Limited::new(body, limit);
    let room = announced.map_or(0, |announced| usize::try_from(announced).unwrap_or(limit).min(FIRST_ROOM));
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
        Err(_) => Err(ApiError::invalid("body_cut", "the body was cut off")),
    }
}

/// The parsed object, and the body (I1).
pub(super) fn object(body: Bytes) -> Result<(Map<String, Value>, Bytes), ApiError> {
    let (value, body) = match serde_json::from_slice(&body) {
        Ok(value) => (value, body),
        Err(error) => without_halves(&body)
            .and_then(|text| Some((serde_json::from_str(&text).ok()?, Bytes::from(text))))
            .ok_or_else(|| {
                ApiError::invalid("invalid_json", format!("the body is not valid JSON: {error}"))
            })?,
    };
    match value {
        Value::Object(object) => Ok((object, body)),
        _ => Err(ApiError::invalid("invalid_json", "the body is not a JSON object")),
    }
}

/// The text with lone surrogates replaced; `None` if it is not UTF-8 otherwise.
fn without_halves(body: &[u8]) -> Option<String> {
    let text = utf8_text(body).ok()?;
    Some(without_lone_surrogates(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_object_replaces_only_lone_surrogates() {
        let check = |body: &'static [u8], expected: Option<&[u8]>| {
            let read = object(Bytes::from_static(body)).ok();
            assert_eq!(read.as_ref().map(|(_, body)| &body[..]), expected, "{body:?}");
            if let Some((object, body)) = read {
                assert_eq!(serde_json::from_slice::<Map<String, Value>>(&body).unwrap(), object);
            }
        };
        let whole = "{\"a\": \"\\ud83d\\ude00 é\"}".as_bytes();
        check(whole, Some(whole));
        check(br#"{"a": "\ud83d b"}"#, Some(br#"{"a": "\ufffd b"}"#));
        check(b"{\"a\": \"\xed\xa0\xbd\"}", Some("{\"a\": \"\u{fffd}\"}".as_bytes()));
        for none in [&b"{\"a\": \"\xe9\"}"[..], br#"{"a": "\ud83d"#, br#"["\ud83d"]"#, b""] {
            check(none, None);
        }
    }
}
