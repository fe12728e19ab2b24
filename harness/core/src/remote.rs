//! A remote model as a plan names it: everything but the key, which plans never contain.
//!
//! Units: fractions in thousandths, prices in millionths of a US dollar for a million tokens, so that a plan compares
//! exactly.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ActionFormat;

/// Settings of a remote policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSpec {
    /// API dialect of the server.
    pub dialect: RemoteDialect,
    /// Up to and without the slash before `chat/completions`, `messages` or `models`.
    pub base_url: String,
    /// Name of the model, as the server knows it.
    pub model: String,
    /// Source of the key.
    pub key: KeySource,
    /// Sampling parameters.
    pub sampling: RemoteSampling,
    /// Requests under way at once.
    pub concurrency: u32,
    /// Timeouts of requests.
    pub patience: RemoteTimeouts,
    /// Requests for one reply, the first included.
    pub tries: u32,
    /// `None`: no cost is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// Protocol for exact tokens; `None`: tokens are not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact_tokens: Option<TokenSource>,
    /// How tools are offered.
    pub tools: ToolUse,
    /// Action format, overriding the task; `raw` and `fenced` apply to tasks that take plain text. `None`: the task's format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_format: Option<ActionFormat>,
    /// First message; `None` for one that explains the format of actions, empty for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Whether replies are streamed.
    pub stream: bool,
    /// Further headers. Nothing secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Further fields of a request.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub body: serde_json::Map<String, serde_json::Value>,
}

impl RemoteSpec {
    /// Defaults for a run: actions are native tool calls unless tools are
    /// offered in text. Chat models are trained on tool calls and hardly ever write a bare command as the whole reply.
    #[must_use]
    pub fn acting(mut self) -> Self {
        if self.tools != ToolUse::Text {
            self.action_format = self.action_format.or(Some(ActionFormat::ToolCalls));
        }
        self
    }

    /// A model with defaults for all other settings.
    #[must_use]
    pub fn usual(dialect: RemoteDialect, base_url: String, model: String) -> Self {
        Self {
            dialect,
            base_url,
            model,
            key: KeySource::Usual,
            sampling: RemoteSampling {
                temperature_milli: None,
                top_p_milli: None,
                max_tokens: 4_096,
                max_tokens_field: MaxTokensField::MaxTokens,
                seed: false,
                stop: Vec::new(),
            },
            concurrency: 256,
            patience: RemoteTimeouts {
                connect: Duration::from_secs(10),
                first_byte: Duration::from_secs(60),
                stall: Duration::from_secs(30),
            },
            tries: 8,
            prices: None,
            exact_tokens: None,
            tools: ToolUse::Auto,
            action_format: None,
            system: None,
            stream: true,
            headers: BTreeMap::new(),
            body: serde_json::Map::new(),
        }
    }

    /// Defaults for a judge: its votes differ only by chance, so the temperature is 1, and the prompt says
    /// nothing about actions.
    #[must_use]
    pub fn judging(mut self) -> Self {
        self.sampling.temperature_milli.get_or_insert(1_000);
        self.system.get_or_insert_default();
        self
    }

    /// The environment variable of the key, and whether it has to be set; `None` where no key is sent.
    #[must_use]
    pub fn key_variable(&self) -> Option<(&str, bool)> {
        match &self.key {
            KeySource::Usual => Some((self.dialect.usual_key_env(), false)),
            KeySource::Env(name) => Some((name, true)),
            KeySource::None => None,
        }
    }
}

/// API dialect of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RemoteDialect {
    /// Chat completions of OpenAI, which most servers speak.
    Openai,
    /// Messages of Anthropic.
    Anthropic,
}

impl RemoteDialect {
    /// Name in files and arguments.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    /// The vendor's own server.
    #[must_use]
    pub fn usual_base_url(self) -> &'static str {
        match self {
            Self::Openai => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
        }
    }

    /// Default environment variable of the key.
    #[must_use]
    pub fn usual_key_env(self) -> &'static str {
        match self {
            Self::Openai => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
        }
    }
}

/// Source of the key. Never the key itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    /// In [`RemoteDialect::usual_key_env`] if that is set; otherwise the server is asked without one.
    Usual,
    /// In this environment variable, which has to be set.
    Env(String),
    /// Nowhere: the server asks for none.
    None,
}

/// Sampling parameters. `None`: the server's default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteSampling {
    /// Temperature in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_milli: Option<u32>,
    /// Nucleus in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p_milli: Option<u32>,
    /// Tokens of a reply before it is cut.
    pub max_tokens: u32,
    /// The field of a request that says so; the newer models of OpenAI refuse `max_tokens`.
    pub max_tokens_field: MaxTokensField,
    /// Whether the seed of each reply is sent to the server.
    pub seed: bool,
    /// Texts that end a reply.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

/// The field for the length of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// Name that all servers except OpenAI's newest accept.
    MaxTokens,
    /// Name that OpenAI's newest models accept.
    MaxCompletionTokens,
}

impl MaxTokensField {
    /// Name in a request.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// Timeouts of a server, besides the deadline of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteTimeouts {
    /// Until a connection stands.
    pub connect: Duration,
    /// From a request, or a keep-alive before its answer, to the first byte of it.
    pub first_byte: Duration,
    /// From one piece of an answer to the next.
    pub stall: Duration,
}

/// Prices in millionths of a US dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// Price of prompt tokens.
    pub input: u64,
    /// Price of cached prompt tokens.
    pub cached_input: u64,
    /// Price of reply tokens.
    pub output: u64,
}

/// Protocol for token ids and log-probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// `return_token_ids` of vLLM, in pieces.
    Vllm,
    /// `return_meta_info` of SGLang, which disables streaming.
    Sglang,
}

/// How tools are offered to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolUse {
    /// Natively where actions are read as tool calls, in text elsewhere.
    Auto,
    /// In the server's own form, whatever the task's format.
    Native,
    /// As text. Tasks whose actions are tool calls are refused.
    Text,
}

/// Problem of a base URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadBaseUrl {
    /// The problem.
    pub message: String,
    /// The remedy.
    pub help: String,
}

/// A base URL without slashes at its end.
///
/// # Errors
/// Anything but `http://` or `https://`, a host and a path; user names, keys and queries in it.
pub fn check_base_url(text: &str) -> Result<String, BadBaseUrl> {
    // Refused text is not repeated, because it may contain a password.
    let bad =
        |message: &str, help: &str| Err(BadBaseUrl { message: message.to_owned(), help: help.to_owned() });
    let example = "write it like `http://localhost:8000/v1`";
    let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
        return bad("the base URL does not start with `http://` or `https://`", example);
    };
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return bad(
            "the base URL has a user name or a password in it",
            "leave them out: a plan is stored. The key goes into an environment variable that `key_env` names",
        );
    }
    if text.contains(['?', '#']) {
        return bad("the base URL has a query or a fragment", "leave out everything from the `?` or `#` on");
    }
    if authority.is_empty() || authority.starts_with(':') {
        return bad("the base URL has no host", example);
    }
    if !text.is_ascii() || text.contains(|c: char| c.is_ascii_control() || c == ' ' || c == '"' || c == '\\')
    {
        return bad("the base URL has characters that do not belong into one", example);
    }
    let port = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    if port.is_some_and(|(_, port)| port.parse::<u16>().is_err()) {
        return bad("the port of the base URL is not a number up to 65535", example);
    }
    let base = text.trim_end_matches('/');
    for route in ["/chat/completions", "/completions", "/messages", "/models"] {
        if let Some(shorter) = base.strip_suffix(route) {
            let help = format!("leave `{route}` off: `{shorter}`");
            return bad("the base URL names one route of the server", &help);
        }
    }
    Ok(base.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        match (check_base_url(text), expected) {
            (Ok(base), Ok(expected)) => assert_eq!(base, expected, "{text}"),
            (Err(bad), Err(part)) => assert!(bad.message.contains(part), "{text}: {bad}"),
            (got, expected) => panic!("{text}: {got:?}, not {expected:?}"),
        }
    }

    #[test]
    fn base_urls() {
        check("http://localhost:8000/v1/", Ok("http://localhost:8000/v1"));
        check("https://api.example.com", Ok("https://api.example.com"));
        check("http://[::1]:8000/v1", Ok("http://[::1]:8000/v1"));
        check("http://[::1]/v1", Ok("http://[::1]/v1"));
        check("localhost:8000", Err("does not start"));
        check("http://me:word@host/v1", Err("a password"));
        check("http://host/v1?key=1", Err("a query"));
        check("http:///v1", Err("no host"));
        check("http://host:99999/v1", Err("the port"));
        check("http://ho st/v1", Err("characters"));
        check("http://host/v1/chat/completions", Err("one route"));
    }

    #[test]
    fn possible_password_is_not_repeated() {
        let bad = check_base_url("http://me:hunter2@host/v1").unwrap_err();
        assert!(!format!("{bad:?}").contains("hunter2"));
    }
}
