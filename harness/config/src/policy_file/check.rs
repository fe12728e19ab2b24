//! Checks a policy file and converts it to settings.
//!
//! I1. All that is wrong is found in one pass. I2. Nothing secret passes, neither in the URL nor in a header: settings
//! are stored with a run.
//!
//! Errors: [`ConfigError`], each problem with its span. Reads the file; nothing to cancel.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clawrl_core::{
    KeySource, MaxTokensField, Prices, RemoteDialect, RemoteSampling, RemoteSpec, RemoteTimeouts,
    TokenSource, ToolUse, check_base_url,
};
use serde_json::{Map, Value};

use super::file::{
    DialectFile, MaxTokensFieldFile, PolicyFile, PricesFile, RemoteSamplingFile, TimeoutsFile, TokensFile,
    ToolsFile,
};
use crate::bounds;
use crate::credential::{is_secret, is_secret_path};
use crate::dialect;
use crate::file::{Located, Text};
use crate::numbers::Reals;
use crate::parse::parse;
use crate::problem::{ConfigError, Finding, Findings};
use crate::read::read;
use crate::source::Span;

const PRICE: Reals = Reals {
    accepts: |price| (0.0..=bounds::MAX_PRICE).contains(&price),
    words: "of US dollars from 0 to 1000000",
};

/// Fields of a request that have keys of their own, and those keys.
const OWN_FIELDS: [(&str, &str); 16] = [
    ("model", "`model`"),
    ("system", "`system`"),
    ("stream", "`stream`"),
    ("stream_options", "`stream`"),
    ("max_tokens", "`sampling: max_tokens`"),
    ("max_completion_tokens", "`sampling: max_tokens`"),
    ("temperature", "`sampling: temperature`"),
    ("top_p", "`sampling: top_p`"),
    ("seed", "`sampling: seed`"),
    ("stop", "`sampling: stop`"),
    ("stop_sequences", "`sampling: stop`"),
    ("tools", "`tools`"),
    ("logprobs", "`exact_tokens`"),
    ("return_token_ids", "`exact_tokens`"),
    ("return_meta_info", "`exact_tokens`"),
    ("messages", ""),
];

/// Reads and checks a policy file.
///
/// # Errors
/// A file that cannot be read or has the wrong shape is one problem; otherwise every problem that there is.
pub fn load_policy(path: &Path) -> Result<RemoteSpec, ConfigError> {
    let source = read(path, &dialect::POLICY)?;
    let file: PolicyFile = parse(&source, &dialect::POLICY)?;
    let mut checker = Checker { findings: Findings::new(&source) };
    let spec = checker.spec(file);
    checker.findings.finish()?;
    Ok(spec)
}

struct Checker {
    findings: Findings,
}

impl Checker {
    fn problem(&mut self, span: Span, message: impl Into<String>, label: &str, help: impl Into<String>) {
        self.findings.add(span, Finding { message: message.into(), label, help: help.into() });
    }

    fn spec(&mut self, file: PolicyFile) -> RemoteSpec {
        if *file.format < 1 {
            let help = format!("write `format: {}`", bounds::POLICY_FORMAT);
            self.problem(file.format.span, "there is no such format", "not a format", help);
        }
        let dialect = match file.dialect.as_ref().map(|dialect| dialect.value) {
            Some(DialectFile::Anthropic) => RemoteDialect::Anthropic,
            Some(DialectFile::Openai) | None => RemoteDialect::Openai,
        };
        if file.model.trim().is_empty() {
            let help = "write the name that the server knows it by; its GET models lists them";
            self.problem(file.model.span, "the model has no name", "empty", help);
        }
        let usual = RemoteSpec::usual(dialect, String::new(), String::new());
        if dialect == RemoteDialect::Anthropic {
            self.only_openai(&file);
        }
        let sampling = file.sampling.unwrap_or_default();
        self.tokens_need(file.exact_tokens.as_ref(), &sampling);
        let stream = self.stream(file.stream.as_ref(), file.exact_tokens.as_ref());
        let concurrency = 1..=bounds::MAX_CONCURRENCY;
        RemoteSpec {
            dialect,
            base_url: self.base_url(dialect, file.base_url.as_ref()),
            key: self.key(file.key_env),
            sampling: self.sampling(&sampling, &usual.sampling),
            concurrency: self.findings.whole(
                "concurrency",
                file.concurrency.as_ref(),
                concurrency,
                usual.concurrency,
            ),
            patience: self.patience(&file.timeouts.unwrap_or_default(), usual.patience),
            tries: self.findings.whole("tries", file.tries.as_ref(), 1..=bounds::MAX_TRIES, usual.tries),
            prices: file.prices.as_ref().map(|prices| self.prices(prices)),
            exact_tokens: file.exact_tokens.map(|tokens| match tokens.value {
                TokensFile::Vllm => TokenSource::Vllm,
                TokensFile::Sglang => TokenSource::Sglang,
            }),
            tools: match file.tools {
                Some(ToolsFile::Native) => ToolUse::Native,
                Some(ToolsFile::Text) => ToolUse::Text,
                Some(ToolsFile::Auto) | None => ToolUse::Auto,
            },
            action_format: file.action_format.map(Into::into),
            system: file.system,
            stream,
            headers: self.headers(file.headers.0),
            body: self.body(file.body),
            model: file.model.value,
        }
    }

    fn only_openai(&mut self, file: &PolicyFile) {
        let sampling = file.sampling.as_ref();
        let found = [
            ("exact_tokens", file.exact_tokens.as_ref().map(|found| found.span)),
            ("seed", sampling.and_then(|sampling| sampling.seed.as_ref()).map(|found| found.span)),
            (
                "max_tokens_field",
                sampling.and_then(|found| found.max_tokens_field.as_ref()).map(|found| found.span),
            ),
        ];
        for (key, span) in found.into_iter().filter_map(|(key, span)| Some((key, span?))) {
            let message = format!("`{key}` is nothing that the anthropic dialect has");
            self.problem(span, message, "not there", "leave it out, or write `dialect: openai`");
        }
    }

    fn base_url(&mut self, dialect: RemoteDialect, base_url: Option<&Text>) -> String {
        let Some(text) = base_url else { return dialect.usual_base_url().to_owned() };
        if is_secret_path(text) {
            let help = "put the key into an environment variable and name that: `key_env: OPENAI_API_KEY`";
            self.problem(text.span, "the path of the base URL looks like a secret", "this URL", help);
            return String::new();
        }
        check_base_url(text).unwrap_or_else(|bad| {
            self.problem(text.span, bad.message, "this URL", bad.help);
            String::new()
        })
    }

    fn key(&mut self, key_env: Option<Text>) -> KeySource {
        let Some(name) = key_env else { return KeySource::Usual };
        if name.value == "none" {
            return KeySource::None;
        }
        let mut chars = name.chars();
        let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if !starts || !chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
            // The text may be an API key that was written here by mistake.
            let help = "write the name of an environment variable, such as `key_env: OPENAI_API_KEY`; the key itself \
                        goes into that variable";
            self.problem(name.span, "this is no name of an environment variable", "not a name", help);
        }
        KeySource::Env(name.value)
    }

    fn sampling(&mut self, file: &RemoteSamplingFile, usual: &RemoteSampling) -> RemoteSampling {
        let most = bounds::MAX_REPLY_TOKENS;
        let max_tokens =
            self.findings.whole("max_tokens", file.max_tokens.as_ref(), 1..=most, usual.max_tokens);
        if file.stop.len() > bounds::MAX_STOPS {
            let message = format!("`stop` has {} texts", file.stop.len());
            let help = format!("leave at most {}", bounds::MAX_STOPS);
            self.problem(file.stop[bounds::MAX_STOPS].span, message, "one too many", help);
        }
        for empty in file.stop.iter().filter(|text| text.is_empty()) {
            self.problem(empty.span, "a text of `stop` is empty", "would end every reply", "leave it out");
        }
        RemoteSampling {
            temperature_milli: self.milli(
                "temperature",
                file.temperature.as_ref(),
                0.0,
                bounds::MAX_TEMPERATURE,
            ),
            top_p_milli: self.milli("top_p", file.top_p.as_ref(), 0.001, 1.0),
            max_tokens,
            max_tokens_field: match file.max_tokens_field.as_ref().map(|field| field.value) {
                Some(MaxTokensFieldFile::MaxCompletionTokens) => MaxTokensField::MaxCompletionTokens,
                Some(MaxTokensFieldFile::MaxTokens) | None => MaxTokensField::MaxTokens,
            },
            seed: file.seed.as_ref().is_some_and(|seed| seed.value),
            stop: file.stop.iter().map(|text| text.value.clone()).collect(),
        }
    }

    /// A number in thousandths.
    fn milli(&mut self, key: &str, number: Option<&Located<f64>>, low: f64, high: f64) -> Option<u32> {
        let number = number?;
        let milli = (number.value * 1_000.0).round();
        let is_exact = (milli / 1_000.0 - number.value).abs() < 1e-9;
        if !(number.value >= low && number.value <= high && is_exact) {
            let message = format!("`{key}` cannot be {}", number.value);
            let help = format!("write a number from {low} to {high} in steps of 0.001");
            self.problem(number.span, message, "out of bounds", help);
        }
        Some(milli.clamp(0.0, 1e9) as u32)
    }

    fn tokens_need(&mut self, tokens: Option<&Located<TokensFile>>, sampling: &RemoteSamplingFile) {
        let Some(tokens) = tokens else { return };
        if sampling.temperature.as_ref().is_none_or(|temperature| temperature.value != 1.0) {
            let message = "exact tokens need `temperature: 1`";
            let help = "write `sampling: { temperature: 1 }`, or leave `exact_tokens` out: servers give \
                        log-probabilities from before temperature";
            self.problem(tokens.span, message, "asked for here", help);
        }
    }

    fn stream(&mut self, stream: Option<&Located<bool>>, tokens: Option<&Located<TokensFile>>) -> bool {
        let whole = tokens.is_some_and(|tokens| tokens.value == TokensFile::Sglang);
        if let (Some(stream @ Located { value: true, .. }), true) = (stream, whole) {
            let help = "leave `stream` out";
            self.problem(
                stream.span,
                "SGLang gives exact tokens in answers that come whole",
                "in pieces",
                help,
            );
        }
        stream.map_or(!whole, |stream| stream.value)
    }

    fn patience(&mut self, file: &TimeoutsFile, usual: RemoteTimeouts) -> RemoteTimeouts {
        let mut seconds = |key: &str, number: &Option<Located<f64>>, usual: Duration| {
            let Some(number) = number else { return usual };
            if number.value >= 0.001 && number.value <= bounds::MAX_TIMEOUT_SECS {
                return Duration::from_secs_f64(number.value);
            }
            let message = format!("`{key}` cannot be {}", number.value);
            let help = format!("write seconds from 0.001 to {}", bounds::MAX_TIMEOUT_SECS);
            self.problem(number.span, message, "out of bounds", help);
            usual
        };
        RemoteTimeouts {
            connect: seconds("connect_secs", &file.connect_secs, usual.connect),
            first_byte: seconds("first_byte_secs", &file.first_byte_secs, usual.first_byte),
            stall: seconds("stall_secs", &file.stall_secs, usual.stall),
        }
    }

    fn prices(&mut self, file: &PricesFile) -> Prices {
        // Millionths, rounded: no price list is finer.
        let mut price = |key: &str, number: &Located<f64>| {
            (self.findings.real(key, Some(number), &PRICE, 0.0) * 1e6).round() as u64
        };
        let input = price("input", &file.input);
        let cached_input = file.cached_input.as_ref().map_or(input, |number| price("cached_input", number));
        Prices { input, cached_input, output: price("output", &file.output) }
    }

    fn headers(&mut self, entries: Vec<(Text, Text)>) -> BTreeMap<String, String> {
        for (name, value) in &entries {
            let lower = name.to_lowercase();
            let of_secrets = ["authorization", "cookie", "key", "token", "secret", "password"];
            let is_own =
                ["accept", "connection", "content-length", "content-type", "host", "transfer-encoding"];
            if of_secrets.iter().any(|word| lower.contains(word)) || is_secret(value) {
                let help =
                    "put the key into an environment variable and name that: `key_env: OPENAI_API_KEY`";
                let message =
                    format!("the header `{}` may hold a secret, and headers are stored", name.value);
                self.problem(name.span, message, "this header", help);
            } else if is_own.contains(&lower.as_str()) {
                let message = format!("the header `{}` is set by clawrl", name.value);
                self.problem(name.span, message, "this header", "leave it out");
            } else if name.is_empty()
                || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
            {
                let help = "use letters, digits and dashes";
                self.problem(name.span, "this is no name of a header", "not a name", help);
            } else if !value.chars().all(|c| c == ' ' || c.is_ascii_graphic()) {
                let help = "use ASCII on one line";
                self.problem(value.span, "a header cannot have this value", "not a value", help);
            }
        }
        entries.into_iter().map(|(name, value)| (name.value.to_lowercase(), value.value)).collect()
    }

    fn body(&mut self, body: Option<Located<Map<String, Value>>>) -> Map<String, Value> {
        let Some(body) = body else { return Map::new() };
        for key in body.keys() {
            let span = self.place_of(body.span, key);
            if let Some((_, own)) = OWN_FIELDS.iter().find(|(field, _)| field == key) {
                let help = if own.is_empty() {
                    "leave it out: what the model sees is the conversation".to_owned()
                } else {
                    format!("leave it out here; {own} says that")
                };
                self.problem(span, format!("the field `{key}` is written by clawrl"), "this field", help);
            } else if key == "n" || key == "thinking" {
                let (message, help) = if key == "n" {
                    ("a turn takes one reply", "leave `n` out; `--group-size` makes several attempts")
                } else {
                    (
                        "thinking of the anthropic dialect is not supported",
                        "leave it out: its blocks would have to be sent back, and no message has a place for them",
                    )
                };
                self.problem(span, message, "this field", help);
            }
        }
        body.value
    }

    /// Span of a key in a map with free keys; that of the map if the key is not found.
    fn place_of(&self, map: Span, key: &str) -> Span {
        let text = &self.findings.source.text[map.start..];
        match text.find(&format!("{key}:")) {
            Some(at) => self.findings.source.clamp(map.start + at, key.len()),
            None => map,
        }
    }
}
