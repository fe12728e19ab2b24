//! MCP (Model Context Protocol) servers whose tools a task offers.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::TextSource;

/// A server whose tools are offered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct McpDecl {
    /// Unique in the task; people read it in messages.
    pub name: String,
    /// Transport to the server.
    pub transport: McpTransport,
    /// Tools that are offered, by the server's own names. `None`: all that it lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Stands before the names of its tools.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Which attempts share a connection.
    pub share: McpShare,
    /// Time of one call; the step's limit holds besides.
    pub timeout: Duration,
    /// Most calls of all its tools in an episode; all further ones are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
}

/// The name under which a tool is offered: `_` stands for each character that servers of models do not take, such as the dots and
/// slashes of `files.read` and `git/log`.
#[must_use]
pub fn offered_tool_name(prefix: &str, own: &str) -> String {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    prefix.chars().chain(own.chars()).map(|c| if is_taken(c) { c } else { '_' }).collect()
}

/// Transport to a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpTransport {
    /// A program in a sandbox, over its standard input and output.
    Stdio {
        /// Program and arguments.
        argv: Vec<String>,
        /// Environment variables, besides those of the workspace.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        env: BTreeMap<String, TextSource>,
    },
    /// A server that runs already, over streamable HTTP.
    Http {
        /// URL of the endpoint.
        url: String,
        /// Sent with every request.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        headers: BTreeMap<String, TextSource>,
    },
}

/// Which attempts share a connection to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum McpShare {
    /// Each attempt has one of its own; a program runs in the attempt's sandbox.
    #[default]
    Attempt,
    /// All attempts of a run have the same one; a program runs in a sandbox of its own.
    Run,
}

impl McpDecl {
    /// Whether the server is a program, which needs a sandbox.
    #[must_use]
    pub fn is_program(&self) -> bool {
        matches!(self.transport, McpTransport::Stdio { .. })
    }

    /// Texts that may be secrets, each with its place in words.
    pub fn sources(&self) -> impl Iterator<Item = (String, &TextSource)> {
        let (key, sources) = match &self.transport {
            McpTransport::Stdio { env, .. } => ("vars", env),
            McpTransport::Http { headers, .. } => ("headers", headers),
        };
        sources.iter().map(move |(name, source)| (format!("mcp: {}: {key}: {name}", self.name), source))
    }
}
