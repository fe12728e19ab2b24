//! Tools that are elsewhere: servers of the Model Context Protocol, and what HTTP sends.

use std::collections::BTreeMap;

use clawrl_core::{McpDecl, McpTransport, TextSource};
use minijinja::Value;

use super::filler::Filler;
use crate::file::Text;
use crate::row::{McpRow, McpTransportRow, SourceRow};

impl<'s> Filler<'_, '_, 's> {
    pub(super) fn server(&mut self, row: &'s McpRow, values: &Value) -> Option<McpDecl> {
        let transport = match &row.transport {
            McpTransportRow::Stdio { argv, vars } => {
                let argv: Vec<_> = argv.iter().map(|entry| self.text(entry, values)).collect();
                let env = self.sources(vars, values);
                McpTransport::Stdio { argv: argv.into_iter().collect::<Option<_>>()?, env: env? }
            }
            McpTransportRow::Http { url, headers } => {
                McpTransport::Http { url: url.clone(), headers: self.sources(headers, values)? }
            }
        };
        Some(McpDecl {
            name: row.name.value.clone(),
            transport,
            tools: row.tools.as_ref().map(|tools| tools.iter().map(|tool| tool.value.clone()).collect()),
            prefix: row.prefix.clone(),
            share: row.share,
            timeout: row.timeout,
            max_calls: row.max_calls,
        })
    }

    pub(super) fn sources(
        &mut self,
        rows: &'s [(Text, SourceRow)],
        values: &Value,
    ) -> Option<BTreeMap<String, TextSource>> {
        let filled: Vec<_> = rows
            .iter()
            .map(|(name, row)| {
                let source = match row {
                    SourceRow::Literal(text) => TextSource::Literal(self.text(text, values)?),
                    SourceRow::FromEnv { name, prefix } => {
                        TextSource::FromEnv { name: name.clone(), prefix: prefix.clone() }
                    }
                };
                Some((name.value.clone(), source))
            })
            .collect();
        filled.into_iter().collect()
    }
}
