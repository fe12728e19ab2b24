//! Parameters of a completion request.
//!
//! I1. An unsupported field that would change the answer is refused by name. I2. Fields that do not change the answer (`store`, `metadata`,
//! `service_tier`), and unknown fields, are ignored: clients send their own. I3. `null` counts as absent.
//!
//! Source: OpenAI's API reference. Deviations: (1) the default `temperature` is 0.7, so that turns can be trained on; (2) `top_k` has the
//! meaning that vLLM gives it.

use serde_json::{Map, Value};

use super::error::ApiError;
use crate::{Refusal, Sampling};

/// Default temperature.
const TEMPERATURE: f64 = 0.7;
/// Maximum number of choices.
const MAX_CHOICES: u64 = 16;
/// Maximum number of stop sequences.
const MAX_STOPS: usize = 4;
/// Maximum size of a stop sequence, in bytes.
const MAX_STOP_BYTES: usize = 256;
/// Maximum number of alternative log-probabilities per token.
const MAX_LOGPROBS: u64 = 20;

/// Parameters of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CompletionParams {
    /// Requested model; `None` for the default.
    pub(super) model: Option<String>,
    pub(super) stream: bool,
    /// Whether the last chunk has token counts.
    pub(super) include_usage: bool,
    pub(super) choices: u32,
    /// Of the first choice; the other seeds are derived from it.
    pub(super) sampling: Sampling,
    pub(super) stops: Vec<String>,
    /// Whether the answer is searched for calls.
    pub(super) calls: bool,
    /// Whether the answer ends after its first call.
    pub(super) one_call: bool,
    /// Settings that need more than sampling, each with the text of its refusal.
    pub(super) unsupported: Vec<Refusal>,
}

/// The kind of a completion request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CompletionKind {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Text,
}

impl CompletionParams {
    /// Parses the parameters. `random` is the seed if the client gives none.
    pub(super) fn parse(
        body: &Map<String, Value>,
        kind: CompletionKind,
        random: u64,
    ) -> Result<Self, ApiError> {
        let fields = Fields(body);
        let stream = fields.bool("stream")?.unwrap_or_default();
        let options = fields.object("stream_options")?;
        if options.is_some() && !stream {
            return Err(ApiError::field("stream_options", "`stream_options` requires `stream: true`"));
        }
        let include_usage = match options {
            Some(options) => Fields(options).bool("include_usage")?.unwrap_or_default(),
            None => false,
        };
        let temperature = fields.number("temperature", 0.0..=2.0)?.unwrap_or(TEMPERATURE);
        let top_p = fields.number("top_p", 0.0..=1.0)?.unwrap_or(1.0);
        if top_p == 0.0 {
            return Err(ApiError::field("top_p", "`top_p` must be above 0"));
        }
        let limits = match kind {
            CompletionKind::Chat => ["max_completion_tokens", "max_tokens"],
            CompletionKind::Text => ["max_tokens", "max_tokens"],
        };
        let mut max_tokens = None;
        for limit in limits {
            let value = fields.integer(limit, 0..=u64::from(u32::MAX))?;
            if kind == CompletionKind::Chat && value == Some(0) {
                return Err(ApiError::field(limit, "an answer needs at least one token"));
            }
            max_tokens = max_tokens.or(value);
        }
        let max_tokens = max_tokens.or((kind == CompletionKind::Text).then_some(16));
        let top_logprobs = top_logprobs(fields, kind)?;
        let unsupported = unsupported(fields, kind)?;
        let choice = body.get("tool_choice").and_then(Value::as_str);
        let has_tools = body.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
        Ok(Self {
            model: fields.string("model")?.map(str::to_owned),
            stream,
            include_usage,
            choices: fields.integer("n", 1..=MAX_CHOICES)?.unwrap_or(1) as u32,
            sampling: Sampling {
                temperature: temperature as f32,
                top_p: top_p as f32,
                top_k: fields.integer("top_k", 0..=u64::from(u32::MAX))?.unwrap_or_default() as u32,
                max_tokens: max_tokens.map(|value| value as u32),
                seed: fields.signed("seed")?.map_or(random, |seed| seed as u64),
                top_logprobs,
            },
            stops: stops(body)?,
            calls: kind == CompletionKind::Chat && has_tools && choice != Some("none"),
            one_call: kind == CompletionKind::Chat && fields.bool("parallel_tool_calls")? == Some(false),
            unsupported,
        })
    }

    /// Sampling of one choice: each has its own seed, the first the request's.
    pub(super) fn sampling_of(&self, choice: u32) -> Sampling {
        // An odd constant, so that no two choices have the same seed.
        let seed = self.sampling.seed.wrapping_add(u64::from(choice).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Sampling { seed, ..self.sampling.clone() }
    }

    /// The parameters that are recorded.
    pub(super) fn record(&self) -> Value {
        let Sampling { temperature, top_p, top_k, max_tokens, seed, .. } = &self.sampling;
        serde_json::json!({
            "temperature": temperature, "top_p": top_p, "top_k": top_k, "max_tokens": max_tokens, "seed": seed, "n": self.choices,
            "stop": self.stops, "stream": self.stream,
        })
    }
}

fn top_logprobs(fields: Fields<'_>, kind: CompletionKind) -> Result<Option<usize>, ApiError> {
    if kind == CompletionKind::Text {
        let count = fields.integer("logprobs", 0..=MAX_LOGPROBS)?;
        return Ok(count.map(|count| count as usize));
    }
    let is_requested = fields.bool("logprobs")?.unwrap_or_default();
    let value = fields.integer("top_logprobs", 0..=MAX_LOGPROBS)?;
    match (is_requested, value) {
        (false, Some(1..)) => {
            Err(ApiError::field("top_logprobs", "`top_logprobs` requires `logprobs: true`"))
        }
        (false, _) => Ok(None),
        (true, value) => Ok(Some(value.unwrap_or_default() as usize)),
    }
}

fn stops(body: &Map<String, Value>) -> Result<Vec<String>, ApiError> {
    let wrong = || {
        let message = format!(
            "`stop` must be a string or up to {MAX_STOPS} strings, of 1 to {MAX_STOP_BYTES} bytes each"
        );
        ApiError::field("stop", message)
    };
    let stops: Vec<String> = match body.get("stop") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(stop)) => vec![stop.clone()],
        Some(Value::Array(stops)) => {
            let stops: Option<_> = stops.iter().map(|stop| stop.as_str().map(str::to_owned)).collect();
            stops.ok_or_else(wrong)?
        }
        Some(_) => return Err(wrong()),
    };
    let fits =
        stops.len() <= MAX_STOPS && stops.iter().all(|stop| (1..=MAX_STOP_BYTES).contains(&stop.len()));
    if fits { Ok(stops) } else { Err(wrong()) }
}

/// The settings that need more than sampling.
fn unsupported(fields: Fields<'_>, kind: CompletionKind) -> Result<Vec<Refusal>, ApiError> {
    let mut unsupported = Vec::new();
    let mut unsupported_field =
        |field, message: &str| unsupported.push(Refusal { field, message: message.to_owned() });
    for field in ["presence_penalty", "frequency_penalty"] {
        if fields.number(field, -2.0..=2.0)?.is_some_and(|penalty| penalty != 0.0) {
            unsupported_field(field, "this model does not support penalties; omit them, or use 0");
        }
    }
    if fields.object("logit_bias")?.is_some_and(|bias| !bias.is_empty()) {
        unsupported_field("logit_bias", "this model does not support biases");
    }
    match kind {
        CompletionKind::Text => {
            for (field, default) in
                [("best_of", Value::from(1)), ("suffix", "".into()), ("echo", false.into())]
            {
                let is_default = fields.get(field).is_none_or(|value| *value == default);
                if !is_default {
                    unsupported_field(field, "not supported by this model");
                }
            }
        }
        CompletionKind::Chat => {
            let format = fields.object("response_format")?.map(|format| format.get("type"));
            if format.is_some_and(|kind| kind.is_none_or(|kind| kind != "text")) {
                unsupported_field(
                    "response_format",
                    "this model supports free text only; use `{\"type\": \"text\"}`",
                );
            }
            match fields.get("tool_choice") {
                None => {}
                Some(Value::String(choice)) if ["auto", "none"].contains(&choice.as_str()) => {}
                Some(_) => {
                    unsupported_field("tool_choice", "this model supports \"auto\" and \"none\" only");
                }
            }
            let modalities = fields.get("modalities");
            if modalities.is_some_and(|value| *value != serde_json::json!(["text"])) {
                unsupported_field("modalities", "this model writes text only");
            }
            for field in ["audio", "functions", "function_call", "prediction", "web_search_options"] {
                let is_nothing = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
                if fields.get(field).is_some_and(|value| !is_nothing(value)) {
                    unsupported_field(field, "not supported by this model");
                }
            }
        }
    }
    Ok(unsupported)
}

/// Typed access to fields.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn get(self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    fn typed<T>(
        self,
        field: &str,
        expected: &str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ApiError> {
        let read = |value| {
            read(value).ok_or_else(|| ApiError::field(field, format!("`{field}` must be {expected}")))
        };
        self.get(field).map(read).transpose()
    }

    fn bool(self, field: &str) -> Result<Option<bool>, ApiError> {
        self.typed(field, "true or false", Value::as_bool)
    }

    fn string(self, field: &str) -> Result<Option<&'a str>, ApiError> {
        self.typed(field, "a string", Value::as_str)
    }

    fn object(self, field: &str) -> Result<Option<&'a Map<String, Value>>, ApiError> {
        self.typed(field, "an object", Value::as_object)
    }

    fn signed(self, field: &str) -> Result<Option<i64>, ApiError> {
        self.typed(field, "an integer", Value::as_i64)
    }

    fn number(self, field: &str, bounds: std::ops::RangeInclusive<f64>) -> Result<Option<f64>, ApiError> {
        let expected = format!("a number from {} to {}", bounds.start(), bounds.end());
        self.typed(field, &expected, |value| value.as_f64().filter(|number| bounds.contains(number)))
    }

    fn integer(self, field: &str, bounds: std::ops::RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let expected = format!("an integer from {} to {}", bounds.start(), bounds.end());
        // Some clients write 16.0.
        let whole = |value: &Value| {
            let number =
                value.as_f64().filter(|number| number.fract() == 0.0 && (0.0..9e15).contains(number));
            value.as_u64().or(number.map(|number| number as u64))
        };
        self.typed(field, &expected, |value| whole(value).filter(|number| bounds.contains(number)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(kind: CompletionKind, body: &Value) -> Result<CompletionParams, String> {
        let body = body.as_object().unwrap();
        CompletionParams::parse(body, kind, 7).map_err(|error| {
            let error = error.json();
            format!(
                "{}: {}",
                error["error"]["param"].as_str().unwrap(),
                error["error"]["message"].as_str().unwrap()
            )
        })
    }

    fn refused(body: Value, expected: &str) {
        assert_eq!(parse(CompletionKind::Chat, &body), Err(expected.to_owned()), "{body}");
    }

    fn check_unsupported(kind: CompletionKind, body: Value, expected: &[&str]) {
        let params = parse(kind, &body).unwrap();
        let fields: Vec<&str> = params.unsupported.iter().map(|refusal| refusal.field).collect();
        assert_eq!(fields, expected, "{body}");
    }

    #[test]
    fn defaults_are_locked() {
        let chat = parse(CompletionKind::Chat, &json!({"stop": null})).unwrap();
        let sampling = Sampling {
            temperature: 0.7,
            top_p: 1.0,
            top_k: 0,
            max_tokens: None,
            seed: 7,
            top_logprobs: None,
        };
        let expected = CompletionParams {
            model: None,
            stream: false,
            include_usage: false,
            choices: 1,
            sampling: sampling.clone(),
            stops: Vec::new(),
            calls: false,
            one_call: false,
            unsupported: Vec::new(),
        };
        assert_eq!(chat, expected);
        let text = parse(CompletionKind::Text, &json!({})).unwrap();
        assert_eq!(text.sampling, Sampling { max_tokens: Some(16), ..sampling });
    }

    #[test]
    fn parse_takes_the_clients_settings() {
        let body = json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true}, "n": 3, "temperature": 0, "top_p": 0.5,
            "top_k": 4, "max_tokens": 9, "max_completion_tokens": 8.0, "seed": -1, "stop": ["a", "b"], "logprobs": true,
            "top_logprobs": 2, "tools": [{}],
        });
        let params = parse(CompletionKind::Chat, &body).unwrap();
        let sampling = Sampling {
            temperature: 0.0,
            top_p: 0.5,
            top_k: 4,
            max_tokens: Some(8),
            seed: u64::MAX,
            top_logprobs: Some(2),
        };
        assert_eq!((&params.sampling, params.choices, params.calls), (&sampling, 3, true));
        assert_eq!((params.model.as_deref(), params.stream, params.include_usage), (Some("m"), true, true));
        assert_eq!(params.stops, ["a", "b"]);
        assert_eq!(params.sampling_of(0), sampling);
        assert_ne!(params.sampling_of(1).seed, params.sampling_of(2).seed);
        let text = parse(CompletionKind::Text, &json!({"logprobs": 3, "max_tokens": 0})).unwrap();
        assert_eq!((text.sampling.top_logprobs, text.sampling.max_tokens), (Some(3), Some(0)));
        let none = parse(CompletionKind::Chat, &json!({"tools": [{}], "tool_choice": "none"})).unwrap();
        assert!(!none.calls && none.unsupported.is_empty());
    }

    #[test]
    fn wrong_values_are_named() {
        refused(json!({"stream": 1}), "stream: `stream` must be true or false");
        refused(json!({"stream_options": {}}), "stream_options: `stream_options` requires `stream: true`");
        refused(json!({"temperature": 2.5}), "temperature: `temperature` must be a number from 0 to 2");
        refused(json!({"temperature": "hot"}), "temperature: `temperature` must be a number from 0 to 2");
        refused(json!({"top_p": 0}), "top_p: `top_p` must be above 0");
        refused(json!({"n": 0}), "n: `n` must be an integer from 1 to 16");
        refused(json!({"n": 1.5}), "n: `n` must be an integer from 1 to 16");
        refused(
            json!({"max_tokens": -1}),
            "max_tokens: `max_tokens` must be an integer from 0 to 4294967295",
        );
        refused(json!({"max_tokens": 0}), "max_tokens: an answer needs at least one token");
        refused(json!({"seed": 0.5}), "seed: `seed` must be an integer");
        refused(json!({"model": 3}), "model: `model` must be a string");
        refused(json!({"top_logprobs": 1}), "top_logprobs: `top_logprobs` requires `logprobs: true`");
        let stop = "stop: `stop` must be a string or up to 4 strings, of 1 to 256 bytes each";
        for wrong in [json!(""), json!(3), json!(["a", 3]), json!(["a", "b", "c", "d", "e"])] {
            refused(json!({"stop": wrong}), stop);
        }
    }

    #[test]
    fn parse_lists_unsupported_settings() {
        check_unsupported(
            CompletionKind::Chat,
            json!({"presence_penalty": 0, "logit_bias": {}, "store": true}),
            &[],
        );
        check_unsupported(
            CompletionKind::Chat,
            json!({"response_format": {"type": "text"}, "modalities": ["text"]}),
            &[],
        );
        check_unsupported(
            CompletionKind::Chat,
            json!({"frequency_penalty": 0.5, "logit_bias": {"3": 1}}),
            &["frequency_penalty", "logit_bias"],
        );
        check_unsupported(
            CompletionKind::Chat,
            json!({"response_format": {"type": "json_object"}}),
            &["response_format"],
        );
        check_unsupported(CompletionKind::Chat, json!({"tool_choice": "required"}), &["tool_choice"]);
        check_unsupported(
            CompletionKind::Chat,
            json!({"tool_choice": {"type": "function"}}),
            &["tool_choice"],
        );
        check_unsupported(CompletionKind::Chat, json!({"parallel_tool_calls": false, "functions": []}), &[]);
        check_unsupported(CompletionKind::Chat, json!({"functions": [{"name": "f"}]}), &["functions"]);
        check_unsupported(
            CompletionKind::Chat,
            json!({"modalities": ["audio"], "audio": {}}),
            &["modalities", "audio"],
        );
        check_unsupported(CompletionKind::Text, json!({"best_of": 1, "suffix": null}), &[]);
        check_unsupported(
            CompletionKind::Text,
            json!({"best_of": 2, "suffix": "x", "echo": true}),
            &["best_of", "suffix", "echo"],
        );
    }
}
