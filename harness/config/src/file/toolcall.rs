//! Settings of a tool-call environment, as written.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::located::{Entries, Located, Scalar, Text, present_or_default};
use super::served::{HttpFile, McpFile};
use super::step_reward::StepRewardFile;
use super::workspace::WorkspaceFile;
use crate::bounds;

/// Tools that are called with arguments, and an answer.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Toolcall")]
pub(crate) struct ToolcallFile {
    /// The tools by name, in the order in which they are offered. `submit` is offered besides. A task's own map
    /// replaces that of the defaults.
    pub(crate) tools: Option<Entries<Located<ToolFile>>>,
    /// Servers of the Model Context Protocol by name. Their tools are listed when an attempt starts, and offered after
    /// those above. A task's own map replaces that of the defaults.
    pub(crate) mcp: Option<Entries<Located<McpFile>>>,
    /// Where tools run that are programs. A sandbox is started only where a tool or a check needs one.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) workspace: Option<WorkspaceFile>,
    /// Most characters of all results of one action that an observation shows. Default: 4000.
    #[schemars(range(min = bounds::MIN_OBSERVATION, max = bounds::MAX_OBSERVATION))]
    pub(crate) observation_chars: Option<Located<i64>>,
    /// Most calls of one action that are run; further ones are refused. Default: 8.
    #[schemars(range(min = 1, max = bounds::MAX_PARALLEL_CALLS))]
    pub(crate) max_parallel_calls: Option<Located<i64>>,
    /// What single steps are worth, for trainings with a `process_weight`; what passes is up to the checks alone.
    pub(crate) step_rewards: Option<Vec<Located<StepRewardFile>>>,
}

impl ToolcallFile {
    /// Fills missing keys from the defaults.
    pub(crate) fn or(self, defaults: &Self) -> Self {
        let below = defaults.clone();
        Self {
            tools: self.tools.or(below.tools),
            mcp: self.mcp.or(below.mcp),
            workspace: match (self.workspace, below.workspace) {
                (Some(own), Some(below)) => Some(own.or(&below)),
                (own, below) => own.or(below),
            },
            observation_chars: self.observation_chars.or(below.observation_chars),
            max_parallel_calls: self.max_parallel_calls.or(below.max_parallel_calls),
            step_rewards: self.step_rewards.or(below.step_rewards),
        }
    }
}

/// A tool: exactly one kind, and what is told about it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Tool")]
pub(crate) struct ToolFile {
    /// Runs code in a Python interpreter that lives as long as the episode, in the sandbox. Its argument is `code`.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) python: Option<NothingFile>,
    /// Runs a program in the sandbox, without a shell: program and arguments. `{name}` stands for an argument of the
    /// call, a string as it is, anything else as JSON.
    pub(crate) command: Option<Located<Vec<Text>>>,
    /// With `command`: its standard input, with the same placeholders.
    pub(crate) stdin: Option<Text>,
    /// Answers from a table. Its argument is `key`.
    pub(crate) table: Option<TableFile>,
    /// Keeps texts by key for the length of the episode. Its arguments are `action` (get, set, delete, list), `key`
    /// and `value`.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) store: Option<StoreFile>,
    /// Computes with two numbers. Its arguments are `left`, `operator` (+ - * /) and `right`.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) arithmetic: Option<NothingFile>,
    /// Makes HTTP requests, from `clawrl` itself. Its arguments are `url`, `method`, `body` and, where `allow_headers`
    /// names some, `headers`.
    pub(crate) http: Option<HttpFile>,
    /// Always gives this result.
    pub(crate) returns: Option<Text>,
    /// Always gives this error.
    pub(crate) fails: Option<Text>,
    /// Never answers: every call runs into its time limit.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) never: Option<NothingFile>,
    /// One or two sentences for the policy. Required for `command`, `returns`, `fails` and `never`.
    pub(crate) description: Option<Text>,
    /// JSON schema of the arguments, an object's. Required for `command`, `returns`, `fails` and `never`; the other
    /// kinds have their own.
    pub(crate) parameters: Option<Located<Value>>,
    /// The one string argument that takes the whole text of a raw or fenced action. At most one tool has it.
    pub(crate) text_argument: Option<Text>,
    /// Time of one call. Default: 10, or the task's `step_timeout_secs` if that is shorter.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) timeout_secs: Option<Located<f64>>,
    /// Most calls in an episode; further ones are refused. Default: no limit.
    #[schemars(range(min = 1, max = bounds::MAX_CALLS))]
    pub(crate) max_calls: Option<Located<i64>>,
}

/// Nothing to set.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct NothingFile {}

/// A table to look things up in.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Table")]
pub(crate) struct TableFile {
    /// The result for each key.
    pub(crate) rows: Entries<Located<Scalar>>,
    /// The error for every other key. Default: not found.
    pub(crate) missing: Option<Text>,
}

/// A store of texts.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Store")]
pub(crate) struct StoreFile {
    /// What it begins with. Default: nothing.
    #[serde(default)]
    pub(crate) initial: Entries<Located<Scalar>>,
}

impl ToolcallFile {
    /// The tools, with their names.
    pub(crate) fn tools(&self) -> impl Iterator<Item = &(Text, Located<ToolFile>)> {
        self.tools.iter().flat_map(|tools| &tools.0)
    }

    pub(crate) fn tool_names(&self) -> impl Iterator<Item = &str> {
        self.tools().map(|(name, _)| name.as_str())
    }

    /// The tool of this name.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolFile> {
        self.tools().find(|(own, _)| own.value == name).map(|(_, tool)| &tool.value)
    }

    /// The servers, with their names.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &(Text, Located<McpFile>)> {
        self.mcp.iter().flat_map(|servers| &servers.0)
    }

    /// Whether a server may offer a tool of this name.
    pub(crate) fn may_be_served(&self, name: &str) -> bool {
        self.servers().any(|(_, server)| server.may_offer(name))
    }

    /// Whether a tool runs in a sandbox.
    pub(crate) fn runs_programs(&self) -> bool {
        self.tools().any(|(_, tool)| matches!(tool.kind(), "python" | "command"))
            || self.servers().any(|(_, server)| server.command.is_some())
    }
}

impl ToolFile {
    /// The given kinds; a valid tool has exactly one.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &'static str> {
        let kinds = [
            (self.python.is_some(), "python"),
            (self.command.is_some(), "command"),
            (self.table.is_some(), "table"),
            (self.store.is_some(), "store"),
            (self.arithmetic.is_some(), "arithmetic"),
            (self.http.is_some(), "http"),
            (self.returns.is_some(), "returns"),
            (self.fails.is_some(), "fails"),
            (self.never.is_some(), "never"),
        ];
        kinds.into_iter().filter(|(given, _)| *given).map(|(_, kind)| kind)
    }

    /// The kind. A tool without one asks for nothing, as `never`.
    pub(crate) fn kind(&self) -> &'static str {
        self.kinds().next().unwrap_or("never")
    }
}
