//! Tools that are elsewhere, as written: servers of the Model Context Protocol, and HTTP.

use clawrl_core::{McpShare, offered_tool_name};
use schemars::JsonSchema;
use serde::Deserialize;

use super::forms::words;
use super::located::{Entries, Located, Text};
use super::source_text::SourceTextFile;
use crate::bounds;

/// A server of the Model Context Protocol: a `command` in the sandbox, or a `url`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Mcp")]
pub(crate) struct McpFile {
    /// A server that is a program, over its standard input and output, in the sandbox: program and arguments.
    pub(crate) command: Option<Located<Vec<Text>>>,
    /// With `command`: its environment variables, beside those of the workspace.
    pub(crate) vars: Option<Located<Entries<Located<SourceTextFile>>>>,
    /// A server that runs already, over streamable HTTP: its endpoint.
    pub(crate) url: Option<Text>,
    /// With `url`: headers of every request.
    pub(crate) headers: Option<Located<Entries<Located<SourceTextFile>>>>,
    /// The tools that are offered, by the server's own names. Default: all that it lists.
    pub(crate) tools: Option<Located<Vec<Text>>>,
    /// Stands before the names of its tools. Default: nothing.
    pub(crate) prefix: Option<Text>,
    /// Whether each attempt has a connection of its own (`attempt`), or all of a run have one (`run`). Default: attempt.
    pub(crate) share: Option<Located<ShareFile>>,
    /// Time of one call. Default: 10, or the task's `step_timeout_secs` if that is shorter.
    #[schemars(range(min = 0.001, max = bounds::MAX_TIMEOUT_SECS))]
    pub(crate) timeout_secs: Option<Located<f64>>,
    /// Most calls of all its tools in an episode; further ones are refused. Default: no limit.
    #[schemars(range(min = 1, max = bounds::MAX_CALLS))]
    pub(crate) max_calls: Option<Located<i64>>,
}

words! {
    enum ShareFile for McpShare {
        Attempt,
        Run,
    }
}

/// Requests that a tool may make.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Http")]
pub(crate) struct HttpFile {
    /// Beginnings of addresses that may be asked: scheme, host, port and path. Private addresses, this machine among
    /// them, are reached only where one is named as such.
    pub(crate) allow: Located<Vec<Text>>,
    /// Methods that may be used; the first one is the default. Default: GET alone.
    pub(crate) methods: Option<Located<Vec<Located<MethodFile>>>>,
    /// Headers of every request.
    pub(crate) headers: Option<Located<Entries<Located<SourceTextFile>>>>,
    /// Names of headers that a call may set. Default: none.
    pub(crate) allow_headers: Option<Vec<Text>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub(crate) enum MethodFile {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl MethodFile {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

impl McpFile {
    /// Stands before the names of its tools.
    pub(crate) fn prefix(&self) -> &str {
        self.prefix.as_ref().map_or("", |prefix| prefix)
    }

    /// Whether the server may offer a tool of this name. Its tools are known only at run time.
    pub(crate) fn may_offer(&self, name: &str) -> bool {
        match &self.tools {
            Some(_) => self.names().any(|(_, offered)| offered == name),
            None => {
                let own = name.strip_prefix(self.prefix());
                own.is_some_and(|own| !own.is_empty() && offered_tool_name("", own) == own)
            }
        }
    }

    /// Known names of the server's tools, as agents see them.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&Text, String)> {
        let tools = self.tools.iter().flat_map(|tools| &tools.value);
        tools.map(|tool| (tool, offered_tool_name(self.prefix(), tool)))
    }
}
