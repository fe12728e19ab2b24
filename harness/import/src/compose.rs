//! Reads `docker-compose.yaml` files with one service: its image and variables.
//!
//! I1. A key that would change the environment is imported or refused, never dropped. I2. A second service is refused.
//! I3. So is a program that does more than keep the container alive.

use std::collections::BTreeMap;
use std::path::Path;

use clawrl_config::{Entry, Node, NodeValue, Span};

use crate::dockerfile::StartedPrograms;
use crate::document::Document;
use crate::findings::Findings;
use crate::keep_alive::{IN_SETUP, only_waits, refuse_start, words};
use crate::options::Import;

/// The settings of the one service.
#[derive(Debug, Default)]
pub(crate) struct Service {
    pub(crate) image: Option<String>,
    /// Relative to the build folder.
    pub(crate) dockerfile: Option<String>,
    pub(crate) vars: Vec<(String, String)>,
    pub(crate) user: Option<String>,
    pub(crate) workdir: Option<String>,
    /// The network is disabled.
    pub(crate) no_network: bool,
    /// The file sets a command or an entrypoint, instead of the image or of the framework's own file.
    pub(crate) has_entrypoint: bool,
    pub(crate) has_command: bool,
}

impl Service {
    /// Which program of the image starts if the framework's own file sets a command, and if it does not.
    pub(crate) fn started(&self, framework_has_command: bool) -> StartedPrograms {
        match (self.has_entrypoint, self.has_command || framework_has_command) {
            // An entrypoint that replaces the image's also discards the image's command.
            (true, _) => StartedPrograms::Nothing,
            (false, true) => StartedPrograms::Entrypoint,
            (false, false) => StartedPrograms::EntrypointAndCommand,
        }
    }
}

/// The conventions of a framework's compose files.
#[derive(Debug)]
pub(crate) struct ComposeConvention<'a> {
    /// Name of the service that the agent works in.
    pub(crate) service: &'a str,
    /// Variables that the framework sets.
    pub(crate) variables: &'a [(&'a str, &'a str)],
    /// Variables that only the framework uses: names of images and containers, paths on the host.
    pub(crate) internal: &'a [&'a str],
}

/// The compose file of a build folder.
const FILE: &str = "docker-compose.yaml";

/// Whether the folder has one.
pub(crate) fn is_in(folder: &Path) -> bool {
    folder.join(FILE).exists()
}

/// Reads the compose file of a folder, if there is one. `None` if it cannot be read; problems go to the findings.
pub(crate) fn read(
    folder: &Path,
    customs: &ComposeConvention<'_>,
    import: &mut Import<'_>,
) -> Option<Service> {
    if !is_in(folder) {
        return Some(Service::default());
    }
    let in_containers = import.in_containers();
    let findings = &mut import.findings;
    let document = match Document::yaml(&folder.join(FILE)) {
        Ok(document) => document,
        Err(error) => {
            findings.adopt(&error);
            return None;
        }
    };
    let mut reading = Reading { document: &document, customs, findings, service: Service::default() };
    reading.file();
    let service = reading.service;
    if let (Some(user), false) = (&service.user, in_containers) {
        let help = "the agent of a sandbox is an ordinary user; remove the key, or import for containers";
        findings.refuse_path(&folder.join(FILE), format_args!("asks for the user `{user}`"), help);
    }
    Some(service)
}

struct Reading<'a> {
    document: &'a Document,
    customs: &'a ComposeConvention<'a>,
    findings: &'a mut Findings,
    service: Service,
}

impl<'a> Reading<'a> {
    fn file(&mut self) {
        let document = self.document;
        let NodeValue::Map(entries) = &document.root.value else {
            return self.refuse(document.root.span, "the compose file is not a map", "write `services:`");
        };
        for entry in entries {
            match entry.key.as_str() {
                "services" => self.services(&entry.node),
                "version" | "name" => {}
                _ => self.unsupported(entry, "a task here is one container"),
            }
        }
        if document.root.get("services").is_none() {
            self.refuse(
                document.root.span,
                "the compose file has no `services`",
                "name the service of the task",
            );
        }
    }

    fn services(&mut self, node: &'a Node) {
        let NodeValue::Map(entries) = &node.value else {
            return self.refuse(node.span, "`services` is not a map", "name the service of the task");
        };
        let wanted = self.customs.service;
        for entry in entries {
            if entry.key == wanted {
                self.keys(&entry.node);
            } else {
                let message = format!("the compose file has a service `{}` besides `{wanted}`", entry.key);
                self.refuse(entry.span, message, "a task here is one container; move the service into it");
            }
        }
        if !entries.iter().any(|entry| entry.key == wanted) {
            let message = format!("there is no service `{wanted}`");
            self.refuse(node.span, message, "give this name to the service that the agent works in");
        }
    }

    fn keys(&mut self, node: &'a Node) {
        let NodeValue::Map(entries) = &node.value else { return };
        for entry in entries {
            self.key(entry);
        }
    }

    fn key(&mut self, entry: &'a Entry) {
        match entry.key.as_str() {
            "build" => self.build(&entry.node),
            "image" => {
                if let Some(image) = self.text(&entry.node) {
                    self.service.image = Some(image).filter(|image| !image.is_empty());
                }
            }
            "environment" => self.variables(&entry.node),
            "working_dir" => self.service.workdir = self.text(&entry.node),
            "user" => self.service.user = self.text(&entry.node),
            "network_mode" if self.text(&entry.node).as_deref() == Some("none") => {
                self.service.no_network = true
            }
            "volumes" => self.volumes(&entry.node),
            "entrypoint" => self.service.has_entrypoint = self.program(entry),
            "command" => self.service.has_command = self.program(entry),
            "container_name" | "pull_policy" | "stdin_open" | "tty" | "init" | "hostname" | "restart" => {
                self.leave_out(entry);
            }
            _ => self.unsupported(entry, "move it into the Dockerfile, or import the task without it"),
        }
    }

    /// Whether the key sets a program, or explicitly none (I3).
    fn program(&mut self, entry: &'a Entry) -> bool {
        let node = &entry.node;
        let before = self.findings.count();
        let program = match &node.value {
            NodeValue::Null => return false,
            NodeValue::List(nodes) => nodes.iter().map(|node| self.text(node)).collect(),
            _ => self.text(node).map(|text| words(&text)),
        };
        match program {
            Some(program) if only_waits(&program) => self.leave_out(entry),
            Some(program) => {
                let written = format!("{}: {}", entry.key, program.join(" "));
                refuse_start(&self.document.source, node.span, &written, IN_SETUP, self.findings);
            }
            None if self.findings.count() == before => {
                let message = format!("`{}` is neither a text nor a list of texts", entry.key);
                self.refuse(node.span, message, "write a program and its arguments");
            }
            None => {}
        }
        true
    }

    fn leave_out(&mut self, entry: &Entry) {
        let line = self.document.line(entry.span);
        let key = &entry.key;
        self.findings.note(format!("compose line {line}: `{key}` is left out: it does not affect attempts"));
    }

    fn build(&mut self, node: &'a Node) {
        let context = |reading: &mut Self, node: &'a Node| {
            let Some(path) = reading.text(node) else { return };
            if !matches!(path.as_str(), "" | "." | "./") {
                reading.refuse(
                    node.span,
                    format!("the build folder is `{path}`"),
                    "build in the folder of the compose file: `.`",
                );
            }
        };
        match &node.value {
            NodeValue::Text(_) => context(self, node),
            NodeValue::Map(entries) => {
                for entry in entries {
                    match entry.key.as_str() {
                        "context" => context(self, &entry.node),
                        "dockerfile" => {
                            let path = self.text(&entry.node);
                            // Relative to the folder, as in its list of files.
                            let path = path.map(|path| path.trim_start_matches("./").to_owned());
                            self.service.dockerfile = path;
                        }
                        _ => self.unsupported(entry, "move it into the Dockerfile"),
                    }
                }
            }
            _ => self.refuse(node.span, "`build` is neither a path nor a map", "write `build: .`"),
        }
    }

    fn variables(&mut self, node: &'a Node) {
        let pairs: Vec<(String, Span, Option<String>)> = match &node.value {
            NodeValue::List(nodes) => nodes
                .iter()
                .filter_map(|node| {
                    let text = self.document.verbatim(node)?;
                    let (name, value) = text
                        .split_once('=')
                        .map_or((text.as_str(), None), |(name, value)| (name, Some(value)));
                    Some((name.to_owned(), node.span, value.map(str::to_owned)))
                })
                .collect(),
            NodeValue::Map(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.node.span, self.document.verbatim(&entry.node)))
                .collect(),
            _ => Vec::new(),
        };
        for (name, span, value) in pairs {
            let Some(value) = value else {
                let message =
                    format!("`{name}` has no value: it would come from the environment of the caller");
                self.refuse(span, message, format!("give it a value: `{name}=value`"));
                continue;
            };
            if let Some(value) = self.settle(&value, span) {
                self.service.vars.push((name, value));
            }
        }
    }

    /// Log folders belong to the framework; any other volume would be the host's.
    fn volumes(&mut self, node: &'a Node) {
        let NodeValue::List(nodes) = &node.value else { return };
        for node in nodes {
            let text = self.document.verbatim(node).unwrap_or_default();
            let internal = self.customs.internal.iter().any(|name| text.starts_with(&format!("${{{name}}}")));
            if !internal {
                let help =
                    "copy files that the task needs in the Dockerfile; the host's files are out of reach";
                self.refuse(node.span, format!("the volume `{text}` is not supported"), help);
            }
        }
    }

    fn text(&mut self, node: &'a Node) -> Option<String> {
        let text = self.document.verbatim(node)?;
        self.settle(&text, node.span)
    }

    /// Replaces the framework's variables; those that only the framework uses become empty.
    fn settle(&mut self, text: &str, span: Span) -> Option<String> {
        let known: BTreeMap<&str, &str> = self.customs.variables.iter().copied().collect();
        let mut settled = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            settled.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix('$') {
                settled.push('$');
                rest = after;
                continue;
            }
            let inner = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
            let (name, default, after) = match inner {
                Some((inner, after)) => match inner.split_once(":-") {
                    Some((name, default)) => (name, Some(default), after),
                    None => (inner, None, after),
                },
                None => {
                    let len =
                        rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                    (&rest[..len], None, &rest[len..])
                }
            };
            rest = after;
            if self.customs.internal.contains(&name) {
                continue;
            }
            match known.get(name).copied().or(default) {
                Some(value) => settled.push_str(value),
                None => {
                    let message = format!("the variable `{name}` is not set when a task starts");
                    self.refuse(
                        span,
                        message,
                        format!("write its value, or a default: `${{{name}:-value}}`"),
                    );
                    return None;
                }
            }
        }
        settled.push_str(rest);
        Some(settled)
    }

    fn unsupported(&mut self, entry: &Entry, help: &str) {
        self.refuse(entry.span, format!("`{}` of a compose file cannot be represented", entry.key), help);
    }

    fn refuse(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.findings.refuse(&self.document.source, span, "not supported", message, help);
    }
}
