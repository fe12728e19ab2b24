//! Messages between environments and policies: parts, tools and tool calls.

use serde::{Deserialize, Serialize};

use crate::BlobRef;

/// Author of a message. The names are those of chat templates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Standing instructions.
    System,
    /// The task, and observations of environments without tool results.
    User,
    /// The policy.
    Assistant,
    /// The result of a tool call.
    Tool,
}

/// One piece of content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum Part {
    /// Text, always valid UTF-8: bytes that are not were replaced, and the observation says so.
    Text {
        /// The text.
        text: String,
    },
    /// An image, stored once by content: a [`BlobRef`].
    Image {
        /// For example `image/png`.
        media_type: String,
        /// Hex SHA-256 of the bytes, which the record keeps under that name.
        sha256: String,
    },
}

impl From<BlobRef> for Part {
    fn from(BlobRef { media_type, sha256 }: BlobRef) -> Self {
        Self::Image { media_type, sha256 }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Content, in order.
    pub parts: Vec<Part>,
    /// Calls made by an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message of one text part.
    #[must_use]
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            role,
            parts: vec![Part::Text { text: text.into() }],
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }

    /// All text parts joined by newlines.
    #[must_use]
    pub fn joined_text(&self) -> String {
        join_text(&self.parts)
    }

    /// The message with each image replaced by a word, for text-only policies.
    #[must_use]
    pub fn text_with_images_named(&self) -> String {
        let named = |part: &Part| match part {
            Part::Text { text } => text.clone(),
            Part::Image { media_type, .. } => format!("[{media_type}]"),
        };
        self.parts.iter().map(named).collect::<Vec<_>>().join("\n")
    }
}

/// A tool that an environment offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name as the policy calls it.
    pub name: String,
    /// Description for the policy, one or two sentences.
    pub description: String,
    /// JSON schema of the arguments object.
    pub parameters: serde_json::Value,
    /// Name of the string argument that takes the whole text of a raw or fenced action. At most one
    /// tool of an environment, its primary tool, has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_argument: Option<String>,
}

/// A call to a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id given by the policy, or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Tool name.
    pub name: String,
    /// Arguments, a JSON object.
    pub arguments: serde_json::Value,
}

impl ToolCall {
    /// A call without id.
    #[must_use]
    pub fn new(name: &str, arguments: serde_json::Value) -> Self {
        Self { id: String::new(), name: name.to_owned(), arguments }
    }

    /// A string argument by name.
    #[must_use]
    pub fn str_argument(&self, name: &str) -> Option<&str> {
        self.arguments.get(name).and_then(serde_json::Value::as_str)
    }
}

/// An observation: what the policy sees at reset and after each action.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Content, in order, already cut to the environment's budget.
    pub parts: Vec<Part>,
    /// The tools on offer. Filled at reset; empty afterwards unless they changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Facts for the record and for rules, not shown to the policy: exit code, working folder, duration, flags.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub facts: serde_json::Map<String, serde_json::Value>,
    /// Pictures for the record only. Pictures for the policy are among the parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pictures: Vec<BlobRef>,
    /// The uncut text where the budget cut it, for the record only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_text: Option<String>,
}

impl Observation {
    /// An observation of one text part.
    #[must_use]
    pub fn from_text(text: impl Into<String>) -> Self {
        Self { parts: vec![Part::Text { text: text.into() }], ..Self::default() }
    }

    /// All text parts joined by newlines.
    #[must_use]
    pub fn joined_text(&self) -> String {
        join_text(&self.parts)
    }

    /// Whether the shell is still in the middle of a command: the fact `end` is `incomplete`.
    #[must_use]
    pub fn is_unfinished_command(&self) -> bool {
        self.facts.get("end").is_some_and(|end| end == "incomplete")
    }

    /// Every picture of it: those that the policy sees first.
    pub fn all_pictures(&self) -> impl Iterator<Item = BlobRef> + '_ {
        let shown = self.parts.iter().filter_map(|part| match part {
            Part::Image { media_type, sha256 } => {
                Some(BlobRef { media_type: media_type.clone(), sha256: sha256.clone() })
            }
            Part::Text { .. } => None,
        });
        shown.chain(self.pictures.iter().cloned())
    }
}

fn join_text(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
