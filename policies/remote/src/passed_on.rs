//! Forwards a client's request to a server of the same dialect.
//!
//! I1. ClawRL sets `model`, the streaming fields and the number of choices; all other fields are the client's, except for
//! those that concern only ClawRL ([`CLIENTS`]). I2. The policy file's `body` overrides the client's fields; its `sampling`
//! is the default for them. I3. Tokens are requested only if nothing in the request changes the distribution of the
//! server's log-probabilities; an unknown field counts as one that changes it.
//!
//! Pure; nothing to cancel.

use clawrl_core::{RemoteSpec, TokenSource};
use hyper::body::Bytes;
use serde_json::{Map, Value, json};

use crate::tokens;

/// Fields that are not sent to the server.
const CLIENTS: &[&str] = &[
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
];

/// Fields that ClawRL sets.
const OURS: &[&str] = &[
    "model",
    "n",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "seed",
    "return_token_ids",
    "return_meta_info",
];

/// A request to forward.
#[derive(Debug, Clone, Copy)]
pub struct PassedOn<'a> {
    /// The client's body.
    pub body: &'a Map<String, Value>,
    /// A text or token ids to continue; `None` for the messages of the body.
    pub prompt: Option<&'a Value>,
    /// Seed of this choice; the client's seed for its first choice, if given.
    pub seed: u64,
}

/// Sampling options sent to the server; `None` if one is not sent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Drawn {
    /// T; 0 is greedy.
    pub temperature: Option<f64>,
    /// The share of the most probable tokens.
    pub top_p: Option<f64>,
    /// The number of the most probable tokens; 0 is off.
    pub top_k: Option<u32>,
    /// Maximum number of tokens.
    pub max_tokens: u32,
}

/// A request that can be sent.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) route: &'static str,
    pub(crate) body: Bytes,
    /// Source of exact tokens, if they are read (I3).
    pub(crate) tokens: Option<TokenSource>,
}

/// The request.
pub(crate) fn request(settings: &RemoteSpec, asked: &PassedOn<'_>) -> Request {
    let mut body = merged(settings, asked.body);
    let seed = seed(settings, asked);
    if let Some(seed) = seed {
        body.insert("seed".to_owned(), json!(seed));
    }
    body.insert("stream".to_owned(), json!(true));
    body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
    if let Some(prompt) = asked.prompt {
        for field in ["messages", "tools", "tool_choice", "max_completion_tokens", "max_tokens"] {
            body.remove(field);
        }
        // Without a limit the server's limit applies.
        let most = asked.body.get("max_tokens").filter(|most| !most.is_null());
        body.extend(most.map(|most| ("max_tokens".to_owned(), most.clone())));
        body.insert("prompt".to_owned(), prompt.clone());
        return Request { route: "completions", body: bytes(body), tokens: None };
    }
    let tokens = settings.exact_tokens.filter(|_| is_plain(&body));
    if let Some(source) = tokens {
        untruncated(&mut body);
        tokens::ask(source, &mut body);
    }
    Request { route: "chat/completions", body: bytes(body), tokens }
}

/// Sampling options of a request with this body.
pub(crate) fn drawn(settings: &RemoteSpec, body: &Map<String, Value>) -> Drawn {
    let body = merged(settings, body);
    let number = |key: &str| body.get(key).and_then(Value::as_f64);
    Drawn {
        temperature: number("temperature"),
        top_p: number("top_p"),
        top_k: number("top_k").map(|most| most.clamp(0.0, f64::from(u32::MAX)) as u32),
        max_tokens: number(settings.sampling.max_tokens_field.name())
            .map_or(settings.sampling.max_tokens, |most| most as u32),
    }
}

/// Merges the fields of the client and the policy file (I1, I2).
fn merged(settings: &RemoteSpec, client: &Map<String, Value>) -> Map<String, Value> {
    let sampling = &settings.sampling;
    let is_passed = |key: &str| !CLIENTS.contains(&key) && !OURS.contains(&key);
    // `null` means absent, and not every server accepts it.
    let said = client.iter().filter(|(key, value)| is_passed(key) && !value.is_null());
    let mut body: Map<String, Value> = said.map(|(key, value)| (key.clone(), value.clone())).collect();
    let most = ["max_completion_tokens", "max_tokens"]
        .iter()
        .find_map(|key| client.get(*key).filter(|value| !value.is_null()));
    let most = most.cloned().unwrap_or_else(|| json!(sampling.max_tokens));
    body.insert(sampling.max_tokens_field.name().to_owned(), most);
    let mut usual = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.entry(key).or_insert(value);
        }
    };
    let milli = |number: Option<u32>| number.map(|milli| json!(f64::from(milli) / 1_000.0));
    usual("temperature", milli(sampling.temperature_milli));
    usual("top_p", milli(sampling.top_p_milli));
    usual("stop", (!sampling.stop.is_empty()).then(|| json!(sampling.stop)));
    body.extend(settings.body.clone());
    body.insert("model".to_owned(), json!(settings.model));
    body
}

fn seed(settings: &RemoteSpec, asked: &PassedOn<'_>) -> Option<i64> {
    // Servers store it as a signed 32-bit integer.
    let derived = || i64::try_from(asked.seed >> 33).unwrap_or_default();
    match asked.body.get("seed").and_then(Value::as_i64) {
        Some(own) if own as u64 == asked.seed => Some(own),
        Some(_) => Some(derived()),
        None => settings.sampling.seed.then(derived),
    }
}

/// Whether the server's log-probabilities are those of the sampling distribution, except for truncation, which is recorded
/// (I3).
fn is_plain(body: &Map<String, Value>) -> bool {
    let number =
        |value: &Value, expected: &[f64]| value.as_f64().is_some_and(|number| expected.contains(&number));
    body.iter().all(|(key, value)| match key.as_str() {
        "model"
        | "messages"
        | "tools"
        | "parallel_tool_calls"
        | "max_tokens"
        | "max_completion_tokens"
        | "top_p"
        | "top_k"
        | "seed"
        | "stop"
        | "logprobs"
        | "top_logprobs"
        | "stream"
        | "stream_options"
        | "reasoning_effort"
        | "chat_template_kwargs" => true,
        // Log-probabilities are computed before temperature; the most probable token is the same at every temperature.
        "temperature" => number(value, &[0.0, 1.0]),
        "repetition_penalty" => number(value, &[1.0]),
        "presence_penalty" | "frequency_penalty" | "min_p" => number(value, &[0.0]),
        "tool_choice" => ["auto", "none"].iter().any(|choice| value == choice),
        "response_format" => value.get("type").is_some_and(|kind| kind == "text"),
        "logit_bias" => value.as_object().is_some_and(Map::is_empty),
        _ => false,
    }) && body.contains_key("temperature")
}

/// Turns truncation off explicitly: by default vLLM uses the model's recommended values.
fn untruncated(body: &mut Map<String, Value>) {
    for (key, value) in [
        ("top_p", json!(1.0)),
        ("top_k", json!(-1)),
        ("min_p", json!(0.0)),
        ("repetition_penalty", json!(1.0)),
    ] {
        body.entry(key).or_insert(value);
    }
    // Not every version accepts 0 as off.
    if body.get("top_k").and_then(Value::as_i64) == Some(0) {
        body.insert("top_k".to_owned(), json!(-1));
    }
}

fn bytes(body: Map<String, Value>) -> Bytes {
    Value::Object(body).to_string().into()
}

#[cfg(test)]
mod tests {
    use clawrl_core::RemoteDialect;

    use super::*;

    fn settings() -> RemoteSpec {
        RemoteSpec::usual(RemoteDialect::Openai, "http://s/v1".to_owned(), "m".to_owned())
    }

    fn sent(settings: &RemoteSpec, client: &Value, seed: u64) -> (Value, Option<TokenSource>) {
        let body = client.as_object().unwrap();
        let request = request(settings, &PassedOn { body, prompt: None, seed });
        (serde_json::from_slice(&request.body).unwrap(), request.tokens)
    }

    fn check(settings: &RemoteSpec, client: Value, expected: Value) {
        let mut whole = json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 4096,
        });
        whole.as_object_mut().unwrap().extend(expected.as_object().unwrap().clone());
        assert_eq!(sent(settings, &client, 7).0, whole, "{client}");
    }

    #[test]
    fn i1_what_the_client_says_is_passed_on() {
        let said = json!({
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}], "tools": [{"type": "function"}],
            "tool_choice": "required", "response_format": {"type": "json_object"}, "logit_bias": {"3": 1}, "new_field": [1],
            "temperature": 0.5,
        });
        check(&settings(), said.clone(), said.clone());
        let ours = json!({
            "model": "policy", "n": 4, "stream": false, "stream_options": {}, "user": "u", "metadata": {"a": "b"}, "store": true,
            "top_p": null, "return_token_ids": true,
        });
        check(&settings(), ours, json!({}));
        check(&settings(), json!({"max_completion_tokens": 9, "max_tokens": 8}), json!({"max_tokens": 9}));
    }

    #[test]
    fn i2_the_policy_file_has_a_word() {
        let mut settings = settings();
        settings.sampling.temperature_milli = Some(500);
        settings.sampling.stop = vec!["END".to_owned()];
        settings.body = json!({"user": "team", "top_k": 20}).as_object().unwrap().clone();
        let file = json!({"user": "team", "top_k": 20, "temperature": 0.5, "stop": ["END"]});
        check(&settings, json!({"user": "me", "top_k": 3}), file.clone());
        let drawn = drawn(&settings, json!({"temperature": 0.25, "top_k": 3}).as_object().unwrap());
        let expected = Drawn { temperature: Some(0.25), top_p: None, top_k: Some(20), max_tokens: 4_096 };
        assert_eq!(drawn, expected);
    }

    #[test]
    fn seeds_are_the_clients_or_derived() {
        let seed =
            |settings: &RemoteSpec, client: Value, seed: u64| sent(settings, &client, seed).0["seed"].clone();
        assert_eq!(seed(&settings(), json!({}), 7 << 33), Value::Null);
        assert_eq!(seed(&settings(), json!({"seed": -5}), -5i64 as u64), -5);
        assert_eq!(seed(&settings(), json!({"seed": -5}), 7 << 33), 7);
        let mut seeded = settings();
        seeded.sampling.seed = true;
        assert_eq!(seed(&seeded, json!({}), 7 << 33), 7);
    }

    #[test]
    fn i3_tokens_are_asked_for_where_they_are_exact() {
        let mut exact = settings();
        exact.exact_tokens = Some(TokenSource::Vllm);
        exact.sampling.temperature_milli = Some(1_000);
        let check = |client: Value, expected: bool| {
            let (body, tokens) = sent(&exact, &client, 7);
            assert_eq!(
                (tokens.is_some(), body["return_token_ids"] == true),
                (expected, expected),
                "{client}"
            );
        };
        check(json!({}), true);
        check(json!({"temperature": 1, "top_k": 0, "stop": "x", "tools": [], "tool_choice": "auto"}), true);
        check(json!({"temperature": 0, "presence_penalty": 0, "response_format": {"type": "text"}}), true);
        check(json!({"temperature": 0.7}), false);
        check(json!({"frequency_penalty": 0.5}), false);
        check(json!({"tool_choice": "required"}), false);
        check(json!({"response_format": {"type": "json_object"}}), false);
        check(json!({"logit_bias": {"1": 2}}), false);
        check(json!({"something_new": 1}), false);
        let (body, _) = sent(&exact, &json!({"top_k": 0}), 7);
        let settled = json!([body["top_p"], body["top_k"], body["min_p"], body["repetition_penalty"]]);
        assert_eq!(settled, json!([1.0, -1, 0.0, 1.0]));
    }

    #[test]
    fn texts_are_gone_on_with() {
        let client = json!({"prompt": ["a", "b"], "messages": [], "logprobs": 2});
        let prompt = json!("a");
        let asked = PassedOn { body: client.as_object().unwrap(), prompt: Some(&prompt), seed: 1 };
        let request = request(&settings(), &asked);
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!((request.route, &body["prompt"], &body["logprobs"]), ("completions", &prompt, &json!(2)));
        assert_eq!((&body["messages"], &body["max_tokens"]), (&Value::Null, &Value::Null));
    }
}
