//! Tools that are elsewhere: servers of the Model Context Protocol, and HTTP; and that no secret is written out.

use std::collections::{BTreeMap, HashSet};

use clawrl_core::{AllowedUrl, McpDecl, McpTransport, TextSource, Timeouts, ToolKind, requested_url};

use super::builder::{TaskBuilder, Written};
use super::checker::Checker;
use crate::bounds;
use crate::credential::{is_secret, is_secret_path, names_secret, suspicion};
use crate::file::{Entries, HttpFile, Located, McpFile, SourceTextFile, Text, ToolcallFile};
use crate::problem::Problem;
use crate::source::Span;
use crate::value::{self, BadValue};

/// Headers that belong to the connection.
const OWN_HEADERS: [&str; 10] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "upgrade",
    "accept-encoding",
    "expect",
    "proxy-authorization",
];

/// Headers that the protocol sets itself.
const MCP_HEADERS: [&str; 5] =
    ["accept", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id"];

type Sources<'s> = Option<&'s Located<Entries<Located<SourceTextFile>>>>;

impl<'s> TaskBuilder<'_, '_, 's> {
    pub(super) fn servers(&mut self, toolcall: &'s ToolcallFile, timeouts: &Timeouts) -> Vec<McpDecl> {
        let servers =
            toolcall.servers().filter_map(|(name, file)| self.server(name, file, timeouts)).collect();
        self.one_of_each_name(toolcall);
        servers
    }

    fn server(&mut self, name: &'s Text, file: &'s Located<McpFile>, timeouts: &Timeouts) -> Option<McpDecl> {
        self.named(name, value::server_name);
        let file = &file.value;
        let timeout = self.call_timeout(file.timeout_secs.as_ref(), timeouts);
        let max_calls = file
            .max_calls
            .as_ref()
            .map(|number| self.whole("max_calls", Some(number), 1..=bounds::MAX_CALLS, 1));
        if let Some(prefix) = &file.prefix {
            self.named(prefix, value::tool_prefix);
        }
        if let Some(tools) = &file.tools
            && tools.is_empty()
        {
            let help = "name some, or remove `tools:` to offer all that it lists";
            self.problem(tools.span, format!("the server `{}` offers nothing", name.value), "no tools", help);
        }
        let transport = match (&file.command, &file.url) {
            (Some(command), None) => {
                if let Some(headers) = &file.headers {
                    self.belongs_to(headers.span, "headers", "url");
                }
                self.names_a_program(
                    command,
                    "name a program and its arguments: `command: [mcp-server-time]`",
                );
                for argument in command.value.iter().filter(|argument| is_secret(argument)) {
                    self.problem(
                        argument.span,
                        "an argument of this command looks like a secret",
                        "in every plan and record",
                        "give it as a variable: `vars: { NAME: { from_env: NAME } }`",
                    );
                }
                let env = self.sources(file.vars.as_ref(), value::env_name);
                McpTransport::Stdio { argv: self.texts(&command.value), env }
            }
            (None, Some(url)) => {
                if let Some(vars) = &file.vars {
                    self.belongs_to(vars.span, "vars", "command");
                }
                let good = self.plain(url, "the address of a server") && self.address(url);
                let headers = self.headers(file.headers.as_ref(), &MCP_HEADERS);
                if !good {
                    return None;
                }
                McpTransport::Http { url: url.value.clone(), headers }
            }
            (command, _) => {
                let message = match command {
                    None => format!("the server `{}` has no `command` and no `url`", name.value),
                    Some(_) => format!("the server `{}` has a `command` and a `url`", name.value),
                };
                self.problem(
                    name.span,
                    message,
                    "exactly one is needed",
                    "write `command: [mcp-server-time]` for a program in the sandbox, or `url: http://127.0.0.1:8080/mcp` \
                     for a server that runs already",
                );
                return None;
            }
        };
        let tools = file.tools.as_ref();
        Some(McpDecl {
            name: name.value.clone(),
            transport,
            tools: tools.map(|tools| tools.iter().map(|tool| tool.value.clone()).collect()),
            prefix: file.prefix().to_owned(),
            share: file.share.as_ref().map(|share| share.value.into()).unwrap_or_default(),
            timeout,
            max_calls,
        })
    }

    pub(super) fn http_tool(&mut self, file: &'s HttpFile) -> ToolKind {
        if file.allow.is_empty() {
            let help = "name beginnings of addresses: `allow: [\"https://api.example.com/v1/\"]`";
            self.problem(file.allow.span, "no address may be asked", "an empty list", help);
        }
        for entry in &file.allow.value {
            if self.plain(entry, "an address")
                && self.address(entry)
                && let Err(reason) = AllowedUrl::parse(entry)
            {
                self.wrong_address(entry, &reason);
            }
        }
        if let Some(methods) = &file.methods
            && methods.is_empty()
        {
            let help = "remove `methods:` for GET alone, or name some: `methods: [GET, POST]`";
            self.problem(methods.span, "no method may be used", "an empty list", help);
        }
        let mut methods: Vec<String> = Vec::new();
        for method in file.methods.iter().flat_map(|methods| &methods.value) {
            let name = method.value.name().to_owned();
            if !methods.contains(&name) {
                methods.push(name);
            }
        }
        if methods.is_empty() {
            methods.push("GET".to_owned());
        }
        let headers = self.headers(file.headers.as_ref(), &[]);
        let mut allow_headers = Vec::new();
        for name in file.allow_headers.iter().flatten() {
            self.header_name(name, &[]);
            if headers.keys().any(|own| own.eq_ignore_ascii_case(name)) {
                let help = "remove it here or under `headers:`";
                self.problem(
                    name.span,
                    format!("`{}` is settled already", name.value),
                    "in `headers:` too",
                    help,
                );
            }
            allow_headers.push(name.to_ascii_lowercase());
        }
        ToolKind::Http {
            allow: file.allow.iter().map(|entry| entry.value.clone()).collect(),
            methods,
            headers,
            allow_headers,
        }
    }

    fn headers(&mut self, written: Sources<'s>, own: &[&str]) -> BTreeMap<String, TextSource> {
        for (name, _) in written.iter().flat_map(|headers| &headers.value.0) {
            self.header_name(name, own);
        }
        self.sources(written, |_| Ok(()))
    }

    /// Texts; literal secrets are refused.
    fn sources(
        &mut self,
        written: Sources<'s>,
        rule: fn(&str) -> Result<(), BadValue>,
    ) -> BTreeMap<String, TextSource> {
        let mut sources = BTreeMap::new();
        for (name, source) in written.into_iter().flat_map(|written| &written.value.0) {
            self.named(name, rule);
            let span = source.span;
            let source = match &source.value {
                SourceTextFile::Literal(value) => {
                    self.no_secret(name, value, span);
                    TextSource::Literal(self.text(Written::new(value, span)).unwrap_or_default())
                }
                SourceTextFile::FromEnv(fields) => {
                    self.named(&fields.from_env, value::env_name);
                    if let Some(prefix) = fields.prefix.as_ref().filter(|prefix| is_secret(prefix)) {
                        let help = "leave the kind of secret alone, such as `prefix: \"Bearer \"`";
                        self.problem(
                            prefix.span,
                            "the prefix looks like a secret itself",
                            "written out",
                            help,
                        );
                    }
                    let prefix = fields.prefix.as_ref().map(|prefix| prefix.value.clone());
                    TextSource::FromEnv {
                        name: fields.from_env.value.clone(),
                        prefix: prefix.unwrap_or_default(),
                    }
                }
            };
            sources.insert(name.value.clone(), source);
        }
        sources
    }
}

impl Checker {
    fn belongs_to(&mut self, span: Span, key: &str, owner: &str) {
        let message = format!("`{key}` belongs to `{owner}`, which is not given");
        self.problem(span, message, "nothing reads it", format!("remove it, or write `{owner}:`"));
    }

    /// Tools are called by their names, so there is one of each.
    fn one_of_each_name(&mut self, toolcall: &ToolcallFile) {
        let mut known: Vec<(String, Span, String)> = toolcall
            .tools()
            .map(|(name, _)| (name.value.clone(), name.span, "`tools:`".to_owned()))
            .collect();
        for (server_name, server) in toolcall.servers() {
            let mut twice = HashSet::new();
            for (tool, name) in server.names() {
                if !twice.insert(&tool.value) {
                    self.problem(
                        tool.span,
                        format!("`{}` is named twice", tool.value),
                        "the second one",
                        "remove it",
                    );
                    continue;
                }
                if let Err(bad) = value::tool_name(&name) {
                    self.bad_value(tool.span, bad, "this name");
                    continue;
                }
                if let Some((_, first, whose)) = known.iter().find(|(other, ..)| *other == name) {
                    let help = format!(
                        "give the tools of the server a prefix: `prefix: {}_`; the other one is of {whose}",
                        server_name.value
                    );
                    let problem = Problem::new(format!("two tools are called `{name}`"), help)
                        .at(&self.findings.source, tool.span, "the second one")
                        .and_at(*first, "the first one");
                    self.findings.push(problem);
                }
                known.push((name, tool.span, format!("the server `{}`", server_name.value)));
            }
        }
    }

    /// Whether an address is a valid URL and contains no secret.
    fn address(&mut self, text: &Text) -> bool {
        let url = match requested_url(text) {
            Ok(url) => url,
            Err(reason) => {
                self.wrong_address(text, &reason);
                return false;
            }
        };
        let secret = url.query_pairs().find(|(name, value)| names_secret(name) || is_secret(value));
        if let Some((name, _)) = secret {
            let message = format!("the parameter `{name}` of this address looks like a secret");
            let help = "take it out of the address; a header can hold it: `headers: { Authorization: { from_env: NAME } }`";
            self.problem(text.span, message, "in every plan and record", help);
            return false;
        }
        if is_secret_path(url.path()) {
            let help = "an address is stored as it is: where the service takes the secret in a header, write `headers: { \
                        Authorization: { from_env: NAME } }`, and leave it out here";
            let message = "the path of this address looks like a secret";
            self.problem(text.span, message, "in every plan and record", help);
            return false;
        }
        true
    }

    fn wrong_address(&mut self, text: &Text, reason: &str) {
        let help = "write it as in \"https://api.example.com/v1/\"; a secret goes into a header: `headers: { Authorization: \
                    { from_env: NAME } }`";
        self.problem(text.span, format!("this address {reason}"), "not accepted", help);
    }

    fn header_name(&mut self, name: &Text, own: &[&str]) {
        let lower = name.to_ascii_lowercase();
        if OWN_HEADERS.contains(&lower.as_str()) || own.contains(&lower.as_str()) {
            let message = format!("the header `{}` is set by the connection itself", name.value);
            self.problem(name.span, message, "not yours to set", "remove it");
        } else {
            self.named(name, value::header_name);
        }
    }

    fn no_secret(&mut self, name: &Text, value: &str, span: Span) {
        let Some(reason) = suspicion(name, value) else { return };
        let message = format!("`{}` {reason}, and is written out", name.value);
        let variable: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        let prefix = match value.split_once(' ') {
            Some((scheme @ ("Bearer" | "Basic" | "Token"), _)) => format!(", prefix: \"{scheme} \""),
            _ => String::new(),
        };
        let help = format!(
            "write `{{ from_env: {variable}{prefix} }}`, and set that variable where `clawrl` runs: a suite is in every \
             plan and record"
        );
        self.problem(span, message, "a secret does not belong here", help);
    }

    /// Refuses a secret among the variables of a workspace: they are the agent's to see.
    pub(super) fn no_secret_for_agents(&mut self, vars: &[(Text, Text)]) {
        for (name, text) in vars.iter().filter(|(_, text)| is_secret(text)) {
            let message = format!("`{}` looks like a secret, and is written out", name.value);
            let help = "an agent sees its variables, and a suite is in every plan and record: give the secret to an MCP \
                        server or to a header of the `http` tool, and write `{ from_env: NAME }` there";
            self.problem(text.span, message, "a secret does not belong here", help);
        }
    }
}
