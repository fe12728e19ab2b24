//! Tools that are elsewhere: servers of the Model Context Protocol, and HTTP.

use std::time::Duration;

use clawrl_core::{McpShare, offered_tool_name};

use super::text::{Visit, texts};
use crate::file::Text;

/// A text that may be a secret.
#[derive(Debug)]
pub(crate) enum SourceRow {
    Literal(Text),
    /// Never a template.
    FromEnv {
        name: String,
        prefix: String,
    },
}

/// A server whose tools are offered.
#[derive(Debug)]
pub(crate) struct McpRow {
    /// Never a template, as those of tools, prefix and address.
    pub(crate) name: Text,
    pub(crate) transport: McpTransportRow,
    pub(crate) tools: Option<Vec<Text>>,
    pub(crate) prefix: String,
    pub(crate) share: McpShare,
    pub(crate) timeout: Duration,
    pub(crate) max_calls: Option<u32>,
}

#[derive(Debug)]
pub(crate) enum McpTransportRow {
    Stdio { argv: Vec<Text>, vars: Vec<(Text, SourceRow)> },
    Http { url: String, headers: Vec<(Text, SourceRow)> },
}

impl McpRow {
    /// Whether a tool of this name could be one of its own: which ones there are is known when it runs.
    pub(crate) fn may_offer(&self, name: &str) -> bool {
        match &self.tools {
            Some(_) => self.names().any(|(_, offered)| offered == name),
            None => {
                let own = name.strip_prefix(self.prefix.as_str());
                own.is_some_and(|own| !own.is_empty() && offered_tool_name("", own) == own)
            }
        }
    }

    /// The names under which its tools are offered, as far as they are known.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&Text, String)> {
        self.tools.iter().flatten().map(|tool| (tool, offered_tool_name(&self.prefix, tool)))
    }

    pub(crate) fn is_program(&self) -> bool {
        matches!(self.transport, McpTransportRow::Stdio { .. })
    }

    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        match &self.transport {
            McpTransportRow::Stdio { argv, vars } => {
                texts(argv, visit);
                sources(vars, visit);
            }
            McpTransportRow::Http { headers, .. } => sources(headers, visit),
        }
    }
}

pub(super) fn sources<'s>(sources: &'s [(Text, SourceRow)], visit: &mut Visit<'_, 's>) {
    for (_, source) in sources {
        if let SourceRow::Literal(text) = source {
            texts([text], visit);
        }
    }
}
