//! What a request for a completion wants beside its messages.
//!
//! I1. A field that changes what an answer is, and is not known or not honoured, is refused by name. I2. Fields that change nothing
//! about it (`store`, `metadata`, `service_tier`), and fields that nobody here has heard of, are let pass: clients have their own.
//! I3. `null` is as good as absent.
//!
//! Source: the reference of OpenAI's API. Deviations: (1) without `temperature` it is 0.7, so that turns can be trained; (2)
//! `top_k` is understood as by vLLM.

use serde_json::{Map, Value};

use super::error::ApiError;
use crate::{Refusal, Sampling};

/// Without a word of the client.
const TEMPERATURE: f64 = 0.7;
/// Most choices of an answer.
const MOST_CHOICES: u64 = 16;
/// Most texts that end an answer.
const MOST_STOPS: usize = 4;
/// Most bytes of one of them.
const LONGEST_STOP: usize = 256;
/// Most log-probabilities of other tokens.
const MOST_LOGPROBS: u64 = 20;

/// Settings of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    /// The model that was asked for; `None` for the usual one.
    pub(super) model: Option<String>,
    pub(super) stream: bool,
    /// Whether the last chunk says how many tokens there were.
    pub(super) include_usage: bool,
    pub(super) choices: u32,
    /// For the first choice; the seeds of others are derived from it.
    pub(super) sampling: Sampling,
    pub(super) stops: Vec<String>,
    /// Whether calls are looked for.
    pub(super) calls: bool,
    /// Whether the answer ends with its first call.
    pub(super) one_call: bool,
    /// Settings that need more than sampling, and how a refusal would name them.
    pub(super) demands: Vec<Refusal>,
}

/// Which of the two requests for a completion it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Of a chat.
    Chat,
    /// Of a text.
    Text,
}

impl Wanted {
    /// Reads the settings. `random` is the seed where the client gives none.
    pub(super) fn parse(body: &Map<String, Value>, form: Form, random: u64) -> Result<Self, ApiError> {
        let fields = Fields(body);
        let stream = fields.bool("stream")?.unwrap_or_default();
        let options = fields.object("stream_options")?;
        if options.is_some() && !stream {
            return Err(ApiError::field("stream_options", "`stream_options` is for `stream: true`"));
        }
        let include_usage = match options {
            Some(options) => Fields(options).bool("include_usage")?.unwrap_or_default(),
            None => false,
        };
        let temperature = fields.number("temperature", 0.0..=2.0)?.unwrap_or(TEMPERATURE);
        let top_p = fields.number("top_p", 0.0..=1.0)?.unwrap_or(1.0);
        if top_p == 0.0 {
            return Err(ApiError::field("top_p", "`top_p` is above 0"));
        }
        let limits = match form {
            Form::Chat => ["max_completion_tokens", "max_tokens"],
            Form::Text => ["max_tokens", "max_tokens"],
        };
        let mut max_tokens = None;
        for limit in limits {
            let most = fields.integer(limit, 0..=u64::from(u32::MAX))?;
            if form == Form::Chat && most == Some(0) {
                return Err(ApiError::field(limit, "an answer has at least one token"));
            }
            max_tokens = max_tokens.or(most);
        }
        let max_tokens = max_tokens.or((form == Form::Text).then_some(16));
        let top_logprobs = top_logprobs(fields, form)?;
        let demands = demands(fields, form)?;
        let choice = body.get("tool_choice").and_then(Value::as_str);
        let has_tools = body.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty());
        Ok(Self {
            model: fields.string("model")?.map(str::to_owned),
            stream,
            include_usage,
            choices: fields.integer("n", 1..=MOST_CHOICES)?.unwrap_or(1) as u32,
            sampling: Sampling {
                temperature: temperature as f32,
                top_p: top_p as f32,
                top_k: fields.integer("top_k", 0..=u64::from(u32::MAX))?.unwrap_or_default() as u32,
                max_tokens: max_tokens.map(|most| most as u32),
                seed: fields.signed("seed")?.map_or(random, |seed| seed as u64),
                top_logprobs,
            },
            stops: stops(body)?,
            calls: form == Form::Chat && has_tools && choice != Some("none"),
            one_call: form == Form::Chat && fields.bool("parallel_tool_calls")? == Some(false),
            demands,
        })
    }

    /// How the choice of this number is sampled: each by a seed of its own, the first by the request's.
    pub(super) fn sampling_of(&self, choice: u32) -> Sampling {
        // An odd constant: no two choices have one seed.
        let seed = self.sampling.seed.wrapping_add(u64::from(choice).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Sampling { seed, ..self.sampling.clone() }
    }

    /// What the record keeps of it.
    pub(super) fn record(&self) -> Value {
        let Sampling { temperature, top_p, top_k, max_tokens, seed, .. } = &self.sampling;
        serde_json::json!({
            "temperature": temperature, "top_p": top_p, "top_k": top_k, "max_tokens": max_tokens, "seed": seed, "n": self.choices,
            "stop": self.stops, "stream": self.stream,
        })
    }
}

fn top_logprobs(fields: Fields<'_>, form: Form) -> Result<Option<usize>, ApiError> {
    if form == Form::Text {
        let wanted = fields.integer("logprobs", 0..=MOST_LOGPROBS)?;
        return Ok(wanted.map(|wanted| wanted as usize));
    }
    let wanted = fields.bool("logprobs")?.unwrap_or_default();
    let most = fields.integer("top_logprobs", 0..=MOST_LOGPROBS)?;
    match (wanted, most) {
        (false, Some(1..)) => Err(ApiError::field("top_logprobs", "`top_logprobs` is for `logprobs: true`")),
        (false, _) => Ok(None),
        (true, most) => Ok(Some(most.unwrap_or_default() as usize)),
    }
}

fn stops(body: &Map<String, Value>) -> Result<Vec<String>, ApiError> {
    let wrong = || {
        let message =
            format!("`stop` is a text, or up to {MOST_STOPS} of them, of 1 to {LONGEST_STOP} bytes each");
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
    let fits = stops.len() <= MOST_STOPS && stops.iter().all(|stop| (1..=LONGEST_STOP).contains(&stop.len()));
    if fits { Ok(stops) } else { Err(wrong()) }
}

/// What needs more than sampling.
fn demands(fields: Fields<'_>, form: Form) -> Result<Vec<Refusal>, ApiError> {
    let mut demands = Vec::new();
    let mut demand = |field, message: &str| demands.push(Refusal { field, message: message.to_owned() });
    for field in ["presence_penalty", "frequency_penalty"] {
        if fields.number(field, -2.0..=2.0)?.is_some_and(|penalty| penalty != 0.0) {
            demand(field, "penalties are not applied by this model; leave them out, or write 0");
        }
    }
    if fields.object("logit_bias")?.is_some_and(|bias| !bias.is_empty()) {
        demand("logit_bias", "biases are not applied by this model");
    }
    match form {
        Form::Text => {
            for (field, default) in
                [("best_of", Value::from(1)), ("suffix", "".into()), ("echo", false.into())]
            {
                let is_default = fields.get(field).is_none_or(|value| *value == default);
                if !is_default {
                    demand(field, "not known to this model");
                }
            }
        }
        Form::Chat => {
            let format = fields.object("response_format")?.map(|format| format.get("type"));
            if format.is_some_and(|kind| kind.is_none_or(|kind| kind != "text")) {
                demand(
                    "response_format",
                    "answers are free text with this model; write `{\"type\": \"text\"}`",
                );
            }
            match fields.get("tool_choice") {
                None => {}
                Some(Value::String(choice)) if ["auto", "none"].contains(&choice.as_str()) => {}
                Some(_) => {
                    demand("tool_choice", "this model calls what it wants to; write \"auto\" or \"none\"");
                }
            }
            let modalities = fields.get("modalities");
            if modalities.is_some_and(|value| *value != serde_json::json!(["text"])) {
                demand("modalities", "this model writes text alone");
            }
            for field in ["audio", "functions", "function_call", "prediction", "web_search_options"] {
                let is_nothing = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
                if fields.get(field).is_some_and(|value| !is_nothing(value)) {
                    demand(field, "not known to this model");
                }
            }
        }
    }
    Ok(demands)
}

/// Fields by type.
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
        let read =
            |value| read(value).ok_or_else(|| ApiError::field(field, format!("`{field}` is {expected}")));
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
        // Some write 16.0.
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

    fn parse(form: Form, body: &Value) -> Result<Wanted, String> {
        let body = body.as_object().unwrap();
        Wanted::parse(body, form, 7).map_err(|error| {
            let error = error.json();
            format!(
                "{}: {}",
                error["error"]["param"].as_str().unwrap(),
                error["error"]["message"].as_str().unwrap()
            )
        })
    }

    fn refused(body: Value, expected: &str) {
        assert_eq!(parse(Form::Chat, &body), Err(expected.to_owned()), "{body}");
    }

    fn demanded(form: Form, body: Value, expected: &[&str]) {
        let wanted = parse(form, &body).unwrap();
        let fields: Vec<&str> = wanted.demands.iter().map(|demand| demand.field).collect();
        assert_eq!(fields, expected, "{body}");
    }

    #[test]
    fn defaults_are_locked() {
        let chat = parse(Form::Chat, &json!({"stop": null})).unwrap();
        let sampling = Sampling {
            temperature: 0.7,
            top_p: 1.0,
            top_k: 0,
            max_tokens: None,
            seed: 7,
            top_logprobs: None,
        };
        let expected = Wanted {
            model: None,
            stream: false,
            include_usage: false,
            choices: 1,
            sampling: sampling.clone(),
            stops: Vec::new(),
            calls: false,
            one_call: false,
            demands: Vec::new(),
        };
        assert_eq!(chat, expected);
        let text = parse(Form::Text, &json!({})).unwrap();
        assert_eq!(text.sampling, Sampling { max_tokens: Some(16), ..sampling });
    }

    #[test]
    fn what_a_client_says_counts() {
        let body = json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true}, "n": 3, "temperature": 0, "top_p": 0.5,
            "top_k": 4, "max_tokens": 9, "max_completion_tokens": 8.0, "seed": -1, "stop": ["a", "b"], "logprobs": true,
            "top_logprobs": 2, "tools": [{}],
        });
        let wanted = parse(Form::Chat, &body).unwrap();
        let sampling = Sampling {
            temperature: 0.0,
            top_p: 0.5,
            top_k: 4,
            max_tokens: Some(8),
            seed: u64::MAX,
            top_logprobs: Some(2),
        };
        assert_eq!((&wanted.sampling, wanted.choices, wanted.calls), (&sampling, 3, true));
        assert_eq!((wanted.model.as_deref(), wanted.stream, wanted.include_usage), (Some("m"), true, true));
        assert_eq!(wanted.stops, ["a", "b"]);
        assert_eq!(wanted.sampling_of(0), sampling);
        assert_ne!(wanted.sampling_of(1).seed, wanted.sampling_of(2).seed);
        let text = parse(Form::Text, &json!({"logprobs": 3, "max_tokens": 0})).unwrap();
        assert_eq!((text.sampling.top_logprobs, text.sampling.max_tokens), (Some(3), Some(0)));
        let none = parse(Form::Chat, &json!({"tools": [{}], "tool_choice": "none"})).unwrap();
        assert!(!none.calls && none.demands.is_empty());
    }

    #[test]
    fn wrong_values_are_named() {
        refused(json!({"stream": 1}), "stream: `stream` is true or false");
        refused(json!({"stream_options": {}}), "stream_options: `stream_options` is for `stream: true`");
        refused(json!({"temperature": 2.5}), "temperature: `temperature` is a number from 0 to 2");
        refused(json!({"temperature": "hot"}), "temperature: `temperature` is a number from 0 to 2");
        refused(json!({"top_p": 0}), "top_p: `top_p` is above 0");
        refused(json!({"n": 0}), "n: `n` is an integer from 1 to 16");
        refused(json!({"n": 1.5}), "n: `n` is an integer from 1 to 16");
        refused(json!({"max_tokens": -1}), "max_tokens: `max_tokens` is an integer from 0 to 4294967295");
        refused(json!({"max_tokens": 0}), "max_tokens: an answer has at least one token");
        refused(json!({"seed": 0.5}), "seed: `seed` is an integer");
        refused(json!({"model": 3}), "model: `model` is a string");
        refused(json!({"top_logprobs": 1}), "top_logprobs: `top_logprobs` is for `logprobs: true`");
        let stop = "stop: `stop` is a text, or up to 4 of them, of 1 to 256 bytes each";
        for wrong in [json!(""), json!(3), json!(["a", 3]), json!(["a", "b", "c", "d", "e"])] {
            refused(json!({"stop": wrong}), stop);
        }
    }

    #[test]
    fn what_not_every_model_can_is_a_demand() {
        demanded(Form::Chat, json!({"presence_penalty": 0, "logit_bias": {}, "store": true}), &[]);
        demanded(Form::Chat, json!({"response_format": {"type": "text"}, "modalities": ["text"]}), &[]);
        demanded(
            Form::Chat,
            json!({"frequency_penalty": 0.5, "logit_bias": {"3": 1}}),
            &["frequency_penalty", "logit_bias"],
        );
        demanded(Form::Chat, json!({"response_format": {"type": "json_object"}}), &["response_format"]);
        demanded(Form::Chat, json!({"tool_choice": "required"}), &["tool_choice"]);
        demanded(Form::Chat, json!({"tool_choice": {"type": "function"}}), &["tool_choice"]);
        demanded(Form::Chat, json!({"parallel_tool_calls": false, "functions": []}), &[]);
        demanded(Form::Chat, json!({"functions": [{"name": "f"}]}), &["functions"]);
        demanded(Form::Chat, json!({"modalities": ["audio"], "audio": {}}), &["modalities", "audio"]);
        demanded(Form::Text, json!({"best_of": 1, "suffix": null}), &[]);
        demanded(
            Form::Text,
            json!({"best_of": 2, "suffix": "x", "echo": true}),
            &["best_of", "suffix", "echo"],
        );
    }
}
