//! Messages for failed requests, with advice.

use std::time::Duration;

use clawrl_remote::ApiError;

/// Advice for a refused key.
pub(super) const KEY_HELP: &str =
    "name a file of keys with `--key-file`, or set CLAWRL_KEY; `clawrl serve` tells where its keys are";

/// Advice for a missing server.
pub(super) const START_HELP: &str = "start one with `clawrl serve FOLDER`, with the folder of a model, or `clawrl serve policy.yaml`, in front of \
                                     another server; `--base-url` says where it is";

/// One-line message for an error.
pub(super) fn sentence(error: &ApiError) -> String {
    match error {
        ApiError::Refused { status, code, message, retry_after } => {
            refused(*status, code.as_deref(), message, *retry_after)
        }
        ApiError::Ended(message) => format!("the server broke the answer off: {message}; /retry asks again"),
        ApiError::Trouble { code: "server-unreachable", message } => {
            let message = message.split("; ").next().unwrap_or(message);
            format!("{message}; is the server still there? /retry asks again")
        }
        ApiError::Trouble { message, .. } => format!("{message}; /retry asks again"),
    }
}

fn refused(status: u16, code: Option<&str>, message: &str, retry_after: Option<Duration>) -> String {
    let again = || match retry_after {
        Some(wait) => format!("ask again in {} s, with /retry", wait.as_millis().div_ceil(1_000).max(1)),
        None => "/retry asks again".to_owned(),
    };
    match (status, code) {
        (_, Some("context_length_exceeded")) => {
            format!("the conversation has become too long for the model ({message}); /new begins another")
        }
        (_, Some("model_not_found")) => format!("{message}; /model tells the models, /model NAME takes one"),
        (401, _) => format!("the server refuses the key ({message}); {KEY_HELP}"),
        (404 | 405, _) => {
            format!(
                "the server has nothing there ({status}: {message}); the base URL usually ends with `/v1`"
            )
        }
        (429, _) => format!("the server takes no more requests for now ({message}); {}", again()),
        (408 | 409 | 500.., _) => format!("the server cannot answer now ({status}: {message}); {}", again()),
        _ => format!("the server refuses the request ({status}: {message})"),
    }
}

/// Whether the server does not have the requested resource.
pub(super) fn is_missing(error: &ApiError) -> bool {
    match error {
        ApiError::Refused { status: 404 | 405 | 501, .. } => true,
        ApiError::Trouble { code, .. } => *code == "url-wrong",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, code: Option<&str>, wait: Option<u64>) -> ApiError {
        let retry_after = wait.map(Duration::from_millis);
        ApiError::Refused { status, code: code.map(str::to_owned), message: "so".to_owned(), retry_after }
    }

    #[test]
    fn every_trouble_says_what_to_do() {
        let check = |error: ApiError, expected: &str| assert_eq!(sentence(&error), expected);
        check(
            refusal(429, None, Some(1_500)),
            "the server takes no more requests for now (so); ask again in 2 s, with /retry",
        );
        check(
            refusal(503, Some("model_unavailable"), None),
            "the server cannot answer now (503: so); /retry asks again",
        );
        check(refusal(400, None, None), "the server refuses the request (400: so)");
        check(
            refusal(404, Some("model_not_found"), None),
            "so; /model tells the models, /model NAME takes one",
        );
        check(
            refusal(404, None, None),
            "the server has nothing there (404: so); the base URL usually ends with `/v1`",
        );
        let long = refusal(400, Some("context_length_exceeded"), None);
        check(long, "the conversation has become too long for the model (so); /new begins another");
        check(refusal(401, None, None), &format!("the server refuses the key (so); {KEY_HELP}"));
        check(ApiError::Ended("so".to_owned()), "the server broke the answer off: so; /retry asks again");
        let trouble = |code, message: &str| ApiError::Trouble { code, message: message.to_owned() };
        check(
            trouble("server-unreachable", "no connection to h (refused); check that it runs"),
            "no connection to h (refused); is the server still there? /retry asks again",
        );
        check(trouble("stream-cut", "it was cut"), "it was cut; /retry asks again");
    }

    #[test]
    fn what_is_missing_is_not_what_is_broken() {
        assert!(is_missing(&refusal(404, None, None)));
        assert!(!is_missing(&refusal(503, None, None)));
    }
}
