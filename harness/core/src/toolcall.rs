//! Tool-call environments: tools of a task, and checks of its answer and calls.
//!
//! Units: `chars` are Unicode scalar values.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{McpDecl, TextSource, WorkspaceSpec};

/// Settings of a tool-call environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolcallSpec {
    /// In the order in which they are offered; names are unique. `submit` is offered besides, and ends the episode.
    pub tools: Vec<ToolDecl>,
    /// Servers whose tools are offered after these, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp: Vec<McpDecl>,
    /// Sandbox of tools that are programs. `None` if no tool and no check needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceSpec>,
    /// Most characters of all results of one action that an observation shows.
    pub observation_chars: u32,
    /// Most calls of one action that are run; all further ones are refused.
    pub max_parallel_calls: u32,
    /// Process rewards of single steps, separate from the checks. Empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_rewards: Vec<StepReward>,
}

/// A process reward and its condition. Several rewards of one step are added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReward {
    /// Condition.
    pub event: StepEvent,
    /// Reward units, finite.
    pub reward: f64,
}

/// Condition of a process reward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StepEvent {
    /// The first call of the episode that is like this.
    Called(CallPattern),
    /// Each call that is refused.
    RefusedCall,
    /// Each action.
    Turn,
}

impl ToolcallSpec {
    /// Texts that may be secrets, each with its place in words, as in suite files.
    pub fn sources(&self) -> impl Iterator<Item = (String, &TextSource)> {
        let of_tools = self.tools.iter().flat_map(|tool| {
            let headers = match &tool.kind {
                ToolKind::Http { headers, .. } => Some(headers),
                _ => None,
            };
            let named =
                move |(name, source)| (format!("tools: {}: http: headers: {name}", tool.name), source);
            headers.into_iter().flatten().map(named)
        });
        of_tools.chain(self.mcp.iter().flat_map(McpDecl::sources))
    }
}

/// A tool of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolDecl {
    /// Name as the policy calls it.
    pub name: String,
    /// Description for the policy, one or two sentences.
    pub description: String,
    /// JSON schema of the arguments object; calls are held against it before anything runs.
    pub parameters: Value,
    /// Name of the string argument that takes the whole text of a raw or fenced action. At most one tool has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_argument: Option<String>,
    /// Effect of a call.
    pub kind: ToolKind,
    /// Time of one call; the step's limit holds besides.
    pub timeout: Duration,
    /// Most calls in an episode; all further ones are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
}

/// Effect of a call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolKind {
    /// Runs code in an interpreter that lives as long as the episode, in the sandbox. The argument is `code`, a string.
    Python,
    /// Runs a program in the sandbox, without a shell.
    Command {
        /// Program and arguments, with placeholders as for [`crate::fill_command`]: `{name}` is replaced by an
        /// argument of the call, strings verbatim, other values as JSON; `{{` and `}}` are braces.
        argv: Vec<String>,
        /// Standard input, with the same placeholders. Without it, there is nothing to read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stdin: Option<String>,
    },
    /// Answers from a table: the argument `key`, a string, is looked up.
    Table {
        /// Result for each key.
        rows: BTreeMap<String, String>,
        /// Result for every other key, as an error.
        missing: String,
    },
    /// Keeps values by key for the length of the episode. `action` is `get`, `set`, `delete` or `list`; all but `list`
    /// take `key`, and `set` takes `value`, both strings.
    Store {
        /// Prefix of the URL.
        initial: BTreeMap<String, String>,
    },
    /// Computes `left operator right`, numbers; the operator is one of `+ - * /`.
    Arithmetic,
    /// Makes an HTTP request, from the harness. The arguments are `url`, `method`, `body` and, where some are allowed,
    /// `headers`.
    Http {
        /// Beginnings of addresses that may be asked, as [`crate::AllowedUrl`] reads them.
        allow: Vec<String>,
        /// Methods that may be used, in capitals; the first one is the default.
        methods: Vec<String>,
        /// Sent with every request.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, TextSource>,
        /// Names of headers that a call may set, in lower case.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allow_headers: Vec<String>,
    },
    /// Always this result.
    Returns {
        /// The result.
        text: String,
    },
    /// Always this error.
    Fails {
        /// The error.
        message: String,
    },
    /// Never answers: every call runs into its time limit.
    Never,
}

impl ToolKind {
    /// Whether the tool runs in a sandbox.
    #[must_use]
    pub fn needs_sandbox(&self) -> bool {
        matches!(self, Self::Python | Self::Command { .. })
    }

    /// Name of the kind, as in suite files.
    #[must_use]
    pub fn key(&self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Command { .. } => "command",
            Self::Table { .. } => "table",
            Self::Store { .. } => "store",
            Self::Arithmetic => "arithmetic",
            Self::Http { .. } => "http",
            Self::Returns { .. } => "returns",
            Self::Fails { .. } => "fails",
            Self::Never => "never",
        }
    }

    /// JSON schema of the arguments, for kinds with fixed arguments. Tasks define those of other kinds.
    ///
    /// It avoids keywords that some model servers reject at the top level (`allOf`, `anyOf`, `oneOf`), so a call may
    /// match the schema and still lack an argument: a `set` of a store without a value is an error of the call.
    #[must_use]
    pub fn own_parameters(&self) -> Option<Value> {
        let (properties, required) = match self {
            Self::Python => {
                (json!({ "code": { "type": "string", "description": "Python code" } }), json!(["code"]))
            }
            Self::Table { .. } => {
                (json!({ "key": { "type": "string", "description": "What to look up" } }), json!(["key"]))
            }
            Self::Store { .. } => (
                json!({
                    "action": { "type": "string", "enum": ["get", "set", "delete", "list"] },
                    "key": { "type": "string", "description": "For all but list" },
                    "value": { "type": "string", "description": "For set" },
                }),
                json!(["action"]),
            ),
            Self::Arithmetic => (
                json!({
                    "left": { "type": "number" },
                    "operator": { "type": "string", "enum": ["+", "-", "*", "/"] },
                    "right": { "type": "number" },
                }),
                json!(["left", "operator", "right"]),
            ),
            Self::Http { allow, methods, allow_headers, .. } => {
                (http_properties(allow, methods, allow_headers), json!(["url"]))
            }
            Self::Command { .. } | Self::Returns { .. } | Self::Fails { .. } | Self::Never => return None,
        };
        Some(json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }))
    }

    /// Default description for the policy, for kinds with fixed arguments.
    #[must_use]
    pub fn own_description(&self) -> Option<&'static str> {
        match self {
            Self::Python => Some(
                "Runs Python code and shows what it prints and the value of its last expression. Names are kept from call to call.",
            ),
            Self::Table { .. } => Some("Looks a key up in a table."),
            Self::Store { .. } => Some("Keeps texts by key: sets, gets, deletes or lists them."),
            Self::Arithmetic => Some("Computes with two numbers."),
            Self::Http { .. } => {
                Some("Makes an HTTP request, and shows the status, the type and the text of the answer.")
            }
            Self::Command { .. } | Self::Returns { .. } | Self::Fails { .. } | Self::Never => None,
        }
    }
}

fn http_properties(allow: &[String], methods: &[String], allow_headers: &[String]) -> Value {
    let begins = format!("Begins with {}", allow.join(" or "));
    let mut properties = json!({
        "url": { "type": "string", "description": begins },
        "method": { "type": "string", "enum": methods },
        "body": { "type": "string" },
    });
    if let Some(first) = methods.first() {
        properties["method"]["description"] = format!("{first} unless said").into();
    }
    if !allow_headers.is_empty() {
        let names = allow_headers.iter().map(|name| (name.clone(), json!({ "type": "string" })));
        properties["headers"] = json!({
            "type": "object",
            "properties": names.collect::<serde_json::Map<_, _>>(),
            "additionalProperties": false,
        });
    }
    properties
}

/// Check of the answer, that is, of the text passed to `submit`. Without an answer every such check fails.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AnswerCheck {
    /// Exactly this text.
    Equals {
        /// All of it.
        expected: String,
    },
    /// This text, when both are normalised: NFKC, lower case, no punctuation at the ends, white space as single spaces.
    Normalised {
        /// The text.
        expected: String,
    },
    /// A number near this one. The answer is one number, or ends with one after `####` or in `\boxed{}`; thousands may be
    /// grouped by commas.
    Number {
        /// The number.
        expected: f64,
        /// Largest absolute difference that passes.
        tolerance: f64,
    },
    /// Matches a regular expression somewhere.
    Matches {
        /// In the syntax of the `regex` crate.
        regex: String,
    },
    /// A JSON document that a schema accepts.
    Schema {
        /// JSON schema, draft 2020-12 unless it says otherwise.
        schema: Value,
    },
    /// A list: a JSON array of strings or numbers, or entries between commas or line ends. Entries compare normalised; the
    /// score is 1 or 0.
    List {
        /// The entries.
        expected: Vec<String>,
        /// Whether order counts. If not, the lists are compared as multisets.
        ordered: bool,
    },
}

/// A call that is looked for in the record of an episode. Only calls that were run count, not refused ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallPattern {
    /// Name of the tool.
    pub tool: String,
    /// Arguments that the call has at least; values are equal, numbers by value, objects key by key.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub arguments: serde_json::Map<String, Value>,
}

/// A call that has exactly these arguments, each with one of several values. Only calls that were run count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExpectedCall {
    /// Name of the tool.
    pub tool: String,
    /// Patterns of the arguments. A call with any other argument does not match.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, ValuePattern>,
}

/// Pattern of a value: one of several literals, or an object or list of patterns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ValuePattern {
    /// Values; numbers are equal by value, objects key by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_of: Vec<Value>,
    /// Objects, by key; other keys are not allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_object: Vec<BTreeMap<String, ValuePattern>>,
    /// Lists, entry by entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub any_list: Vec<Vec<ValuePattern>>,
    /// Whether the value may be missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// How texts in `any_of`, and in lists inside it, are compared.
    #[serde(default)]
    pub text: TextMatch,
}

/// Comparison of two texts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TextMatch {
    /// Character by character.
    #[default]
    Exact,
    /// In lower case, without spaces and the characters `, . / - _ * ^`, with `'` as `"`: as BFCL compares.
    Loose,
}
