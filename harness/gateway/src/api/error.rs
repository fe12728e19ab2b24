//! Errors in OpenAI's format.
//!
//! I1. A temporary error is never 401, after which clients discard their key. I2. Temporary errors have a status that clients retry, and
//! `retry-after` if the time is known. I3. The text is for the client: it names neither files nor other users.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use clawrl_core::openai::RequestError;

use crate::BackendError;

/// An error for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApiError {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    field: Option<String>,
    message: String,
    retry_after: Option<Duration>,
}

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, code: &'static str, message: impl Into<String>) -> Self {
        let code = Some(code);
        Self { status, kind, code, field: None, message: message.into(), retry_after: None }
    }

    /// A field of the request is invalid.
    pub(super) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        let error = Self::invalid("invalid_value", message);
        Self { field: Some(field.into()), ..error }
    }

    /// The request is invalid.
    pub(super) fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", code, message)
    }

    pub(super) fn no_key() -> Self {
        let message = "invalid key: send `Authorization: Bearer KEY` with a valid key";
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", "invalid_api_key", message)
    }

    pub(super) fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "permission_error", code, message)
    }

    pub(super) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "invalid_request_error", code, message)
    }

    /// The current state does not allow the request.
    pub(super) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "invalid_request_error", code, message)
    }

    pub(super) fn wrong_method(message: impl Into<String>) -> Self {
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "invalid_request_error", "method_not_allowed", message)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        let message = format!("the body is larger than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", "body_too_large", message)
    }

    pub(super) fn slow_body() -> Self {
        let message = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid_request_error", "body_timeout", message)
    }

    pub(super) fn too_many(message: impl Into<String>) -> Self {
        let status = StatusCode::TOO_MANY_REQUESTS;
        let error = Self::new(status, "rate_limit_error", "too_many_requests", message);
        Self { retry_after: Some(Duration::from_secs(1)), ..error }
    }

    pub(super) fn unavailable(
        code: &'static str,
        message: impl Into<String>,
        retry_after: Option<Duration>,
    ) -> Self {
        let error = Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", code, message);
        Self { retry_after, ..error }
    }

    /// An internal error. The details are in the log.
    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", "internal_error", message)
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// The response body.
    pub(super) fn json(&self) -> Value {
        let Self { kind, code, field, message, .. } = self;
        json!({"error": {"message": message, "type": kind, "param": field, "code": code}})
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        let field = match error {
            RequestError::Type { field, .. } => field,
            _ => "messages",
        };
        Self::field(field, error.to_string())
    }
}

impl From<BackendError> for ApiError {
    fn from(error: BackendError) -> Self {
        let message = error.to_string();
        match error {
            BackendError::NoModel(_) => Self::not_found("model_not_found", message),
            BackendError::Refused { field, .. } => Self::field(field, message),
            BackendError::TooLong { .. } | BackendError::NoRoom(_) => {
                let error = Self::invalid("context_length_exceeded", message);
                Self { field: Some("messages".to_owned()), ..error }
            }
            BackendError::Unavailable { retry_after, .. } => {
                Self::unavailable("model_unavailable", message, retry_after)
            }
            BackendError::Broken(_) => Self::internal(message),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.json().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(wait) = self.retry_after {
            let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(millis.div_ceil(1000).max(1)));
            headers.insert("retry-after-ms", HeaderValue::from(millis));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(error: ApiError, status: u16, kind: &str, code: &str) {
        assert_eq!(error.json()["error"]["type"], kind);
        assert_eq!(error.json()["error"]["code"], code);
        let response = error.into_response();
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    }

    #[test]
    fn backend_errors_have_a_status() {
        let invalid = "invalid_request_error";
        check(BackendError::NoModel("x".to_owned()).into(), 404, invalid, "model_not_found");
        let refused = BackendError::Refused { field: "stop", message: "no".to_owned() };
        check(refused.into(), 400, invalid, "invalid_value");
        let long = BackendError::TooLong { tokens: 9, limit: 5 };
        check(long.into(), 400, invalid, "context_length_exceeded");
        let no_room = BackendError::NoRoom("too long".to_owned());
        check(no_room.into(), 400, invalid, "context_length_exceeded");
        let unavailable = BackendError::Unavailable { message: "later".to_owned(), retry_after: None };
        check(unavailable.into(), 503, "server_error", "model_unavailable");
        check(BackendError::Broken("NaN".to_owned()).into(), 500, "server_error", "internal_error");
        check(ApiError::no_key(), 401, "authentication_error", "invalid_api_key");
    }

    #[test]
    fn retry_after_has_both_units() {
        let wait = Some(Duration::from_millis(1500));
        let response = ApiError::unavailable("busy", "later", wait).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        assert_eq!(response.headers()["retry-after-ms"], "1500");
    }
}
