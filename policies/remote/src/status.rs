//! What an answer with another status than 200 means.
//!
//! The words of error messages differ from server to server; they decide only between two errors that are both
//! permanent, or whether a 429 is about money.
//!
//! Pure; nothing to cancel.

use std::time::Duration;

use hyper::StatusCode;

use crate::secret::Secret;
use crate::server_text::{error_names, server_text};
use crate::trouble::Trouble;

/// An answer that is an error.
pub(crate) struct Refusal<'a> {
    pub(crate) status: StatusCode,
    /// The beginning of it.
    pub(crate) body: &'a str,
    /// What was asked for, without anything secret.
    pub(crate) url: &'a str,
    pub(crate) model: &'a str,
    pub(crate) retry_after: Option<Duration>,
}

/// What it means.
pub(crate) fn trouble_of(refusal: &Refusal<'_>, key: Option<&Secret>) -> Trouble {
    let Refusal { status, body, url, model, retry_after } = refusal;
    let text = server_text(body, key);
    let told = if text.is_empty() { format!("{status}") } else { format!("{status}: {text}") };
    let said = if text.is_empty() { told.clone() } else { text };
    let lower = body.to_lowercase();
    match status.as_u16() {
        401 | 403 => {
            let help = match key {
                Some(_) => "check the key and what it may use",
                None => "no key was sent; put it into the environment variable that `key_env` names",
            };
            Trouble::permanent("key-refused", format!("the server refuses the key ({told}); {help}"))
        }
        402 => quota(&told),
        404 | 410 if lower.contains("model") => model_unknown(model, &told),
        404 | 405 | 410 | 421 => url_wrong(url, &told),
        300..=399 => url_wrong(url, &format!("{status}, which leads elsewhere and is not followed")),
        429 if error_names(body).contains("insufficient_quota") => quota(&told),
        429 => Trouble { retry_after: *retry_after, ..Trouble::later("rate-limited", limited(&told)) },
        408 | 409 | 425 | 500 | 502..=504 | 506..=599 => {
            let message = format!("the server answers {told}");
            Trouble { retry_after: *retry_after, ..Trouble::later("server-error", message) }
        }
        413 => too_long(&told, said),
        _ if is_about_length(&lower) => too_long(&told, said),
        _ if is_about_model(&lower) => model_unknown(model, &told),
        _ => {
            let help = "the settings of the policy may ask for something that this server does not have";
            let message = format!("the server refuses the request ({told}); {help}");
            Trouble { told: Some(said), ..Trouble::permanent("request-refused", message) }
        }
    }
}

fn limited(told: &str) -> String {
    format!(
        "the server allows no more requests for now ({told}); a lower `concurrency` asks for less at once"
    )
}

fn quota(told: &str) -> Trouble {
    Trouble::permanent("quota-used-up", format!("the account has nothing left to spend ({told})"))
}

fn too_long(told: &str, said: String) -> Trouble {
    let help = "the model's context is too short for this conversation";
    Trouble { told: Some(said), ..Trouble::permanent("context-too-long", format!("{help} ({told})")) }
}

pub(crate) fn model_unknown(model: &str, told: &str) -> Trouble {
    let message = format!("the server has no model `{model}` ({told}); its GET models lists those it has");
    Trouble::permanent("model-unknown", message)
}

pub(crate) fn url_wrong(url: &str, told: &str) -> Trouble {
    let help = "the base URL usually ends with `/v1`";
    Trouble::permanent("url-wrong", format!("nothing that we know is at {url} ({told}); {help}"))
}

fn is_about_length(lower: &str) -> bool {
    [
        "context length",
        "context_length",
        "context window",
        "context size",
        "too many tokens",
        "prompt is too long",
    ]
    .iter()
    .any(|words| lower.contains(words))
}

fn is_about_model(lower: &str) -> bool {
    lower.contains("model")
        && ["not found", "does not exist", "not exist", "unknown model", "invalid model", "not a valid model"]
            .iter()
            .any(|words| lower.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trouble::Remedy;

    fn check(status: u16, body: &str, code: &str, remedy: Remedy) {
        let refusal = Refusal {
            status: StatusCode::from_u16(status).unwrap(),
            body,
            url: "http://host/v1/chat/completions",
            model: "m",
            retry_after: Some(Duration::from_secs(3)),
        };
        let trouble = trouble_of(&refusal, None);
        assert_eq!((trouble.code, trouble.remedy), (code, remedy), "{status} {body}: {trouble}");
        let waits = matches!(code, "rate-limited" | "server-error");
        assert_eq!(trouble.retry_after.is_some(), waits, "{status} {body}");
    }

    #[test]
    fn every_status_has_a_meaning() {
        check(401, "", "key-refused", Remedy::None);
        check(403, "", "key-refused", Remedy::None);
        check(402, "", "quota-used-up", Remedy::None);
        check(404, r#"{"detail":"Not Found"}"#, "url-wrong", Remedy::None);
        check(404, r#"{"error":{"message":"The model `m` does not exist."}}"#, "model-unknown", Remedy::None);
        check(405, "", "url-wrong", Remedy::None);
        check(301, "", "url-wrong", Remedy::None);
        check(413, "", "context-too-long", Remedy::None);
        check(400, r#"{"error":{"code":"context_length_exceeded"}}"#, "context-too-long", Remedy::None);
        check(400, r#"{"error":"invalid model name"}"#, "model-unknown", Remedy::None);
        check(400, r#"{"error":"this model takes no tools"}"#, "request-refused", Remedy::None);
        check(400, r#"{"error":"model 'x' not found"}"#, "model-unknown", Remedy::None);
        check(422, r#"{"detail":"extra field"}"#, "request-refused", Remedy::None);
        check(501, "", "request-refused", Remedy::None);
        check(429, "", "rate-limited", Remedy::Later);
        check(429, r#"{"error":{"code":"insufficient_quota"}}"#, "quota-used-up", Remedy::None);
        check(408, "", "server-error", Remedy::Later);
        check(500, "", "server-error", Remedy::Later);
        check(503, "", "server-error", Remedy::Later);
        check(529, "", "server-error", Remedy::Later);
    }
}
