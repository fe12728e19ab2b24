//! The policy file exactly as written. The doc comments are the descriptions in the JSON schema, so they speak to
//! authors of policy files.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::bounds;
use crate::file::{ActionFormatFile, Entries, Located, Text};

/// A ClawRL policy: a model behind a server. Only what differs from the defaults is written. No key: that is in an
/// environment variable.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ClawRL policy file")]
pub(crate) struct PolicyFile {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = bounds::POLICY_FORMAT))]
    pub(crate) format: Located<i64>,
    /// Name of the model, as the server knows it.
    pub(crate) model: Text,
    /// How the server is spoken to. Default: openai, which Ollama, llama.cpp, vLLM, SGLang and most others speak.
    pub(crate) dialect: Option<Located<DialectFile>>,
    /// Up to and without the slash before `chat/completions`, `messages` or `models`: `http://localhost:8000/v1`.
    /// Default: the server of the dialect's vendor.
    pub(crate) base_url: Option<Text>,
    /// Environment variable that holds the key, or `none` to send no key. Default: OPENAI_API_KEY or ANTHROPIC_API_KEY
    /// by the dialect, if it is set.
    pub(crate) key_env: Option<Text>,
    /// How replies are drawn. What is left out is left to the server.
    pub(crate) sampling: Option<RemoteSamplingFile>,
    /// Requests under way at once. Default: 256.
    #[schemars(range(min = 1, max = bounds::MAX_CONCURRENCY))]
    pub(crate) concurrency: Option<Located<i64>>,
    /// How long the server is waited for, besides the time that a task gives its policy.
    pub(crate) timeouts: Option<TimeoutsFile>,
    /// Requests for one reply, the first included, where asking again can help: too many requests, errors of the
    /// server, lost connections. Waits between them grow; Retry-After is obeyed. Default: 8.
    #[schemars(range(min = 1, max = bounds::MAX_TRIES))]
    pub(crate) tries: Option<Located<i64>>,
    /// Prices, to compute costs by. Default: no costs.
    pub(crate) prices: Option<PricesFile>,
    /// Token ids and log-probabilities, in the form of this server. Asks for `temperature: 1`, since servers give
    /// log-probabilities from before temperature. Default: neither is asked for.
    pub(crate) exact_tokens: Option<Located<TokensFile>>,
    /// How tools are offered. Default: auto.
    pub(crate) tools: Option<ToolsFile>,
    /// How replies are read, whatever the task says; `raw` and `fenced` only where a task takes plain text. Default:
    /// tool_calls; with `tools: text` as the task says, but `fenced` for `raw`.
    pub(crate) action_format: Option<ActionFormatFile>,
    /// First message to the model. Default: a short explanation of the task's format of actions, or nothing where tools
    /// are offered natively. Empty for none.
    pub(crate) system: Option<String>,
    /// Whether replies are asked for in pieces, so that a server that died is noticed early. Default: true; false with
    /// `exact_tokens: sglang`.
    pub(crate) stream: Option<Located<bool>>,
    /// Further headers of each request. Nothing secret: they are stored with the run.
    #[serde(default)]
    pub(crate) headers: Entries<Text>,
    /// Further fields of each request, as the server knows them: `top_k`, `reasoning_effort`, `chat_template_kwargs`.
    #[serde(default)]
    pub(crate) body: Option<Located<Map<String, Value>>>,
}

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Dialect")]
pub(crate) enum DialectFile {
    /// Chat completions of OpenAI.
    Openai,
    /// Messages of Anthropic.
    Anthropic,
}

/// How replies are drawn.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Sampling")]
pub(crate) struct RemoteSamplingFile {
    /// In steps of 0.001; 0 takes the most likely token each time.
    #[schemars(range(min = 0.0, max = bounds::MAX_TEMPERATURE))]
    pub(crate) temperature: Option<Located<f64>>,
    /// Share of the probability that tokens are drawn from, in steps of 0.001.
    #[schemars(range(min = 0.001, max = 1.0))]
    pub(crate) top_p: Option<Located<f64>>,
    /// Tokens of a reply before it is cut, those of reasoning included. Default: 4096.
    #[schemars(range(min = 1, max = bounds::MAX_REPLY_TOKENS))]
    pub(crate) max_tokens: Option<Located<i64>>,
    /// The field of a request that says so. The newer models of OpenAI ask for `max_completion_tokens`. Default:
    /// max_tokens.
    pub(crate) max_tokens_field: Option<Located<MaxTokensFieldFile>>,
    /// Whether the server is given the seed of each reply. Default: false.
    pub(crate) seed: Option<Located<bool>>,
    /// Texts that end a reply.
    #[serde(default)]
    #[schemars(length(max = bounds::MAX_STOPS))]
    pub(crate) stop: Vec<Text>,
}

/// The field for the length of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "MaxTokensField")]
pub(crate) enum MaxTokensFieldFile {
    /// What nearly every server takes.
    MaxTokens,
    /// What the newer models of OpenAI take.
    MaxCompletionTokens,
}

/// How long a server is waited for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Timeouts")]
pub(crate) struct TimeoutsFile {
    /// Until a connection stands. Default: 10.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) connect_secs: Option<Located<f64>>,
    /// From a request to the first byte of its answer: time in the server's queue and for reading the prompt. Default:
    /// 60.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) first_byte_secs: Option<Located<f64>>,
    /// From one piece of an answer to the next. Default: 30.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) stall_secs: Option<Located<f64>>,
}

/// Prices in US dollars for a million tokens.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Prices")]
pub(crate) struct PricesFile {
    /// Of the prompt.
    #[schemars(range(min = 0.0, max = bounds::MAX_PRICE))]
    pub(crate) input: Located<f64>,
    /// Of what the server had in its cache. Default: as `input`.
    #[schemars(range(min = 0.0, max = bounds::MAX_PRICE))]
    pub(crate) cached_input: Option<Located<f64>>,
    /// Of the reply.
    #[schemars(range(min = 0.0, max = bounds::MAX_PRICE))]
    pub(crate) output: Located<f64>,
}

/// Whose fields carry tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ExactTokens")]
pub(crate) enum TokensFile {
    /// `return_token_ids` of vLLM.
    Vllm,
    /// `return_meta_info` of SGLang. Answers come whole.
    Sglang,
}

/// How tools are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Tools")]
pub(crate) enum ToolsFile {
    /// Natively where replies are read as tool calls, in text elsewhere.
    Auto,
    /// In the server's own form to all tasks.
    Native,
    /// In text. Tasks with `action_format: tool_calls` end in a fault.
    Text,
}
