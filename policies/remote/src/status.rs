//! Classifies a server's errors: a status other than 200, or an error in a response that began with 200.
//!
//! The texts of errors differ from server to server. They decide between two permanent errors, whether a 429 is about
//! billing, and whether a conversation is too long: servers report that with any status, and a retry does not help.
//!
//! Pure; nothing to cancel.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::Value;

use crate::secret::Secret;
use crate::server_text::{error_names, error_words, message_in, server_text};
use crate::trouble::Trouble;

/// An error response.
pub(crate) struct Refusal<'a> {
    pub(crate) status: StatusCode,
    /// Beginning of the body.
    pub(crate) body: &'a str,
    /// Requested URL, without secrets.
    pub(crate) url: &'a str,
    pub(crate) model: &'a str,
    pub(crate) retry_after: Option<Duration>,
}

/// Classifies an error response.
pub(crate) fn trouble_of(refusal: &Refusal<'_>, key: Option<&Secret>) -> Trouble {
    let Refusal { status, body, url, model, retry_after } = refusal;
    let text = server_text(body, key);
    let told = if text.is_empty() { format!("{status}") } else { format!("{status}: {text}") };
    let said = if text.is_empty() { told.clone() } else { text };
    let lower = body.to_lowercase();
    let words = error_words(body);
    match status.as_u16() {
        401 | 403 => {
            let help = match key {
                Some(_) => "check the key and what it may use",
                None => "no key was sent; put it into the environment variable that `key_env` names",
            };
            Trouble::permanent("key-refused", format!("the server refuses the key ({told}); {help}"))
        }
        402 => quota(&told),
        429 if is_too_large_for_any_minute(&words) => too_long(&told, said),
        404 | 410 if lower.contains("model") => model_unknown(model, &told),
        404 | 405 | 410 | 421 => url_wrong(url, &told),
        300..=399 => url_wrong(url, &format!("{status}, which leads elsewhere and is not followed")),
        429 if error_names(body).contains("insufficient_quota") => quota(&told),
        429 => Trouble { retry_after: *retry_after, ..Trouble::later("rate-limited", limited(&told)) },
        413 => too_long(&told, said),
        _ if is_about_length(&words) => too_long(&told, said),
        408 | 409 | 425 | 500 | 502..=504 | 506..=599 => {
            let message = format!("the server answers {told}");
            Trouble { retry_after: *retry_after, ..Trouble::later("server-error", message) }
        }
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

/// Classifies an error in place of a response or in its middle: the JSON of an event or of a response with status 200. The
/// text may still contain the key.
pub(crate) fn broken_off(error: &str) -> Trouble {
    let said = serde_json::from_str(error).map_or_else(
        |_| error.trim().to_owned(),
        |value: Value| message_in(&value).unwrap_or_else(|| "an error".to_owned()),
    );
    let names = error_names(error);
    let told = format!("the server broke off its answer: {said}");
    let words = error_words(error);
    if is_about_length(&words) || is_too_large_for_any_minute(&words) {
        too_long(&told, said)
    } else if names.contains("insufficient_quota") {
        quota(&told)
    } else if names.contains("rate_limit") {
        Trouble::later("rate-limited", told)
    } else {
        Trouble::later("server-error", told)
    }
}

/// Whether a JSON object is an error: by its `error` field or its type.
pub(crate) fn is_error(object: &Value) -> bool {
    let says_so = |key: &str| object.get(key).is_some_and(|kind| kind == "error");
    let is_nothing = |error: &Value| match error {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    object.get("error").is_some_and(|error| !is_nothing(error)) || says_so("object") || says_so("type")
}

/// Names of the context window.
const CONTEXT: &[&str] = &[
    "context length",
    "context_length",
    "contextlength",
    "context window",
    "context_window",
    "contextwindow",
    "context size",
    "context_size",
    "context limit",
    "context overflow",
    "maximum context",
    "maximum model length",
    "model token limit",
    "range of input length",
    "max tokens allowed",
    "token limit exceeded",
    "too many tokens",
];
/// Names of a conversation.
const CONVERSATION: &[&str] = &["prompt", "input", "message", "conversation"];
/// Words for its length. A bare `long` may refer to time.
const MEASURE: &[&str] = &[
    "token",
    "length",
    "is too long",
    "are too long",
    "prompt too long",
    "input too long",
    "_too_long",
    "too large",
    "too_large",
    "超长",
];
/// Words for exceeding a limit.
const EXCESS: &[&str] = &[
    "exceed",
    "too long",
    "too_long",
    "too large",
    "too_large",
    "longer than",
    "larger than",
    "maximum",
    "must be <=",
    "must have less",
    "reduce the",
    "over the limit",
    "超长",
];
/// Validation errors of fields, which contain the words above as well.
const CHECKED: &[&str] = &["input validation error", "invalid input", "input should"];
/// Words for rate limits and account limits.
const PACE: &[&str] = &[
    "per minute",
    "per min",
    "per day",
    "per hour",
    "(tpm)",
    "(rpm)",
    "(tpd)",
    "rate limit",
    "rate_limit",
    "quota",
];

/// Whether an error text, in lower case, says that a conversation exceeds the model's context. The wordings differ; all say
/// that some measure of a conversation or context exceeds a limit.
fn is_about_length(words: &str) -> bool {
    let has = |text: &str, parts: &[&str]| parts.iter().any(|part| text.contains(part));
    if has(words, PACE) {
        return false;
    }
    // A string with its own limit is a name or an id, unless it is message content.
    if has(
        words,
        &["string too long", "string_too_long", "string should have at most", "string_above_max_length"],
    ) {
        return words.contains("content'");
    }
    if has(words, CONTEXT) {
        return true;
    }
    let told = CHECKED.iter().fold(words.to_owned(), |told, part| told.replace(part, ""));
    has(&told, CONVERSATION) && has(&told, MEASURE) && has(&told, EXCESS)
}

/// Whether a token rate limit is smaller than this single request, so that waiting does not help.
fn is_too_large_for_any_minute(words: &str) -> bool {
    words.contains("request too large") && words.contains("reduce")
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

    /// Messages of servers about a conversation that is too long.
    const TOO_LONG: &[&str] = &[
        // OpenAI, vLLM, SGLang, llama.cpp, Ollama, LM Studio, text-generation-inference, TensorRT-LLM, DS4.
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens. Please reduce the length of the messages.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens. Please reduce the length of the messages.",
        "Invalid 'messages[1].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1540820 instead.",
        "The decoder prompt (length 9000) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens. For image inputs, the number of image tokens depends on the number of images and their aspect ratios as well.",
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
        "The input (9001 tokens) is longer than the model's context length (8192 tokens).",
        "Requested token count exceeds the model's maximum context length of 8192 tokens.",
        "Context size has been exceeded.",
        "the request exceeds the available context size, try increasing it",
        "prompt too long; exceeded max context length by 12 tokens",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 20 `max_new_tokens`",
        "Input validation error: `inputs` must have less than 1024 tokens. Given: 5000",
        "Prompt length (5000) exceeds maximum input length (4096).",
        "Prompt has 5000 tokens, but the configured context size is 4096 tokens",
        // Anthropic, Bedrock, Gemini, xAI, Mistral, Moonshot, Qwen, MiniMax, Zhipu, Copilot, Groq, Together, LiteLLM.
        "prompt is too long: 213462 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
        "Input is too long for requested model.",
        "The input token count (1050000) exceeds the maximum number of tokens allowed (1048576).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Prompt contains 66385 tokens, too large for model with 32768 maximum context length",
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)",
        "tokens in request more than max tokens allowed",
        "Range of input length should be [1, 30720]",
        "invalid params, context window exceeds limit",
        "Prompt 超长",
        "prompt token count of 133000 exceeds the limit of 128000",
        "Please reduce the length of the messages or completion.",
        "ContextWindowExceededError: the prompt does not fit",
        "Prompt too large for this model",
    ];

    /// Messages of servers about other errors.
    const NOT_TOO_LONG: &[&str] = &[
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
        "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for this model",
        "Input validation error: `max_new_tokens` must be <= 512. Given: 1000",
        "Range of max_tokens should be [1, 8192]",
        "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 61 instead.",
        "Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got a string with length 70 instead.",
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 200 instead.",
        "messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
        "messages.0.content.0.pdf: A maximum of 100 PDF pages may be provided",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "thinking.budget_tokens: Input should be greater than or equal to 1024",
        "This request would exceed your organization's rate limit of 30,000 input tokens per minute",
        "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
        "You exceeded your current quota, please check your plan",
        "CUDA out of memory",
        "The message took too long to process",
        "The answer to your prompt took longer than the maximum of 60 seconds",
        "upstream connect error or disconnect/reset before headers",
        "",
    ];

    #[test]
    fn a_conversation_that_is_too_long_is_known_whatever_the_server_says() {
        for text in TOO_LONG {
            for body in [
                serde_json::json!({"error": {"message": text, "type": "e", "code": null}}),
                serde_json::json!({"error": text}),
                serde_json::json!({"detail": text}),
                serde_json::json!([{"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}]),
                serde_json::json!({"error": {"message": "Provider returned error", "metadata": {"raw": text}}}),
            ] {
                for status in [400, 413, 422, 500, 503] {
                    check(status, &body.to_string(), "context-too-long", Remedy::None);
                }
                let trouble = broken_off(&body.to_string());
                assert_eq!((trouble.code, trouble.remedy), ("context-too-long", Remedy::None), "{body}");
                assert!(trouble.told.is_some_and(|told| told.ends_with(text)), "{body}");
            }
        }
    }

    #[test]
    fn other_limits_are_not_taken_for_that_of_a_conversation() {
        for text in NOT_TOO_LONG {
            let body =
                serde_json::json!({"error": {"message": text, "type": "invalid_request_error"}}).to_string();
            check(400, &body, "request-refused", Remedy::None);
            check(500, &body, "server-error", Remedy::Later);
            check(429, &body, "rate-limited", Remedy::Later);
            assert_eq!(broken_off(&body).code, "server-error", "{text}");
        }
        // Text repeated from the request is not the server's.
        let flaw = serde_json::json!({"detail": [{"msg": "Field required", "input": "the context length is exceeded"}]});
        check(422, &flaw.to_string(), "request-refused", Remedy::None);
    }

    #[test]
    fn a_request_that_no_minute_has_room_for_is_too_long() {
        let text = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41210. The input or output tokens must be reduced in order to run successfully.";
        let body =
            serde_json::json!({"error": {"message": text, "type": "tokens", "code": "rate_limit_exceeded"}})
                .to_string();
        check(429, &body, "context-too-long", Remedy::None);
        check(413, &body, "context-too-long", Remedy::None);
        assert_eq!(broken_off(&body).code, "context-too-long");
    }

    #[test]
    fn an_error_in_an_answer_has_a_meaning() {
        let check = |error: &str, code: &str, part: &str| {
            let trouble = broken_off(error);
            assert!(trouble.code == code && trouble.message.contains(part), "{error}: {trouble}");
        };
        check(r#"{"error": {"message": "out of memory"}}"#, "server-error", "out of memory");
        check(
            r#"{"error": {"type": "rate_limit_error", "message": "slow down"}}"#,
            "rate-limited",
            "slow down",
        );
        check(r#"{"error": {"code": "insufficient_quota", "message": "pay"}}"#, "quota-used-up", "pay");
        check(r#"{"object": "error", "message": "bad", "code": 400}"#, "server-error", "bad");
        check("Internal Server Error", "server-error", "Internal Server Error");
        check("{}", "server-error", "an error");
        let is = |object: serde_json::Value| is_error(&object);
        use serde_json::json;
        assert!(is(json!({"error": "x"})) && is(json!({"object": "error"})) && is(json!({"type": "error"})));
        for nothing in [json!(null), json!(false), json!(""), json!({})] {
            assert!(!is(json!({"error": nothing, "choices": []})), "{nothing}");
        }
        assert!(!is(json!([])));
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
