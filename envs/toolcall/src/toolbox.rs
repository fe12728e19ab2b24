//! The tools of a task: their specifications, and their implementations.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{Boundary, Fault, McpDecl, ToolKind, ToolSpec, ToolcallSpec, command_pieces};
use clawrl_workspace::{Schema, SchemaCache};
use serde_json::{Value, json};

use crate::http::{HttpClients, HttpTool};
use crate::mcp::ServedTool;
use crate::secret::Secrets;

pub(crate) const SUBMIT: &str = "submit";

/// The tools of an episode.
#[derive(Debug)]
pub(crate) struct Toolbox {
    /// The task's own in its order, then those of its servers.
    tools: Vec<Tool>,
    submit: Arc<Schema>,
}

/// A tool, and what its calls are checked against.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) offered: ToolSpec,
    pub(crate) schema: Arc<Schema>,
    pub(crate) timeout: Duration,
    pub(crate) max_calls: Option<u32>,
    pub(crate) origin: Origin,
}

#[derive(Debug)]
pub(crate) enum Origin {
    /// Declared in the task, at this index.
    Declared { index: usize, http: Option<Box<HttpTool>> },
    /// Offered by the task's server at this index, under this name.
    Served { server: usize, own_name: String },
}

impl Toolbox {
    /// Prepares the tools of a task.
    ///
    /// # Errors
    /// A permanent provider [`Fault`] for tools that a checked suite cannot contain, and for secrets that are not set.
    pub(crate) fn new(
        spec: &ToolcallSpec,
        schemas: &SchemaCache,
        secrets: &Secrets,
        clients: &Arc<HttpClients>,
    ) -> Result<Self, Fault> {
        let mut tools = Vec::with_capacity(spec.tools.len());
        for (index, tool) in spec.tools.iter().enumerate() {
            let is_taken = spec.tools[..index].iter().any(|other| other.name == tool.name);
            if is_taken || tool.name == SUBMIT {
                return Err(invalid(&tool.name, "another tool has this name"));
            }
            if tool.kind.needs_sandbox() && spec.workspace.is_none() {
                return Err(invalid(&tool.name, "it runs programs, but the task lacks a workspace"));
            }
            if let ToolKind::Command { argv, stdin } = &tool.kind {
                let broken = argv.iter().chain(stdin).find_map(|text| command_pieces(text).err());
                if let Some(error) = broken {
                    return Err(invalid(&tool.name, &error.to_string()));
                }
                if argv.is_empty() {
                    return Err(invalid(&tool.name, "it lacks a command"));
                }
            }
            let http = HttpTool::new(&tool.name, &tool.kind, secrets, clients)?.map(Box::new);
            let schema = schemas
                .get(&tool.parameters)
                .map_err(|error| invalid(&tool.name, &format!("its parameters: {error}")))?;
            tools.push(Tool {
                offered: ToolSpec {
                    name: tool.name.clone(),
                    description: tool.description.clone(),
                    parameters: tool.parameters.clone(),
                    text_argument: tool.text_argument.clone(),
                },
                schema,
                timeout: tool.timeout,
                max_calls: tool.max_calls,
                origin: Origin::Declared { index, http },
            });
        }
        let submit = schemas.get(&submit_parameters()).map_err(|error| {
            Fault::permanent(Boundary::Harness, "tool-invalid", format!("`{SUBMIT}`: {error}"))
        })?;
        Ok(Self { tools, submit })
    }

    /// Adds the tools of a server.
    ///
    /// # Errors
    /// A permanent provider [`Fault`] for a duplicate name and for parameters that are not a schema.
    pub(crate) fn add(
        &mut self,
        decl: &McpDecl,
        server: usize,
        served: Vec<ServedTool>,
        schemas: &SchemaCache,
    ) -> Result<(), Fault> {
        for ServedTool { offered, own_name, timeout } in served {
            let name = &offered.name;
            if name == SUBMIT || self.find(name).is_some() {
                let message = format!(
                    "the MCP server `{}` has a tool `{name}`, but another tool has this name: set a `prefix:` \
                     for the server, such as `{}_`, or exclude the tool with `tools: [...]`",
                    decl.name, decl.name
                );
                return Err(Fault::permanent(Boundary::Provider, "mcp-tool-twice", message));
            }
            let schema = match schemas.get(&offered.parameters) {
                Ok(schema) => schema,
                // The server checks arguments itself; its messages are still shown to the policy.
                Err(error) => {
                    tracing::debug!(server = %decl.name, tool = %name, %error, "arguments are checked by the server alone");
                    schemas.get(&json!({ "type": "object" })).map_err(|error| invalid(name, &error))?
                }
            };
            let origin = Origin::Served { server, own_name };
            self.tools.push(Tool { offered, schema, timeout, max_calls: None, origin });
        }
        Ok(())
    }

    /// Removes the tools of servers.
    pub(crate) fn retain_declared(&mut self) {
        self.tools.retain(|tool| matches!(tool.origin, Origin::Declared { .. }));
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.offered.name == name)
    }

    /// Whether a server offers the tool of this name.
    pub(crate) fn is_of(&self, name: &str, server: usize) -> bool {
        let of_it = |tool: &Tool| matches!(tool.origin, Origin::Served { server: own, .. } if own == server);
        self.find(name).is_some_and(of_it)
    }

    /// The names of all callable tools.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.offered.name.as_str()).chain([SUBMIT])
    }

    /// The offered tools, then `submit`.
    pub(crate) fn offered(&self) -> Vec<ToolSpec> {
        let submit = ToolSpec {
            name: SUBMIT.to_owned(),
            description: "End the task with an answer; what was done is then checked.".to_owned(),
            parameters: submit_parameters(),
            text_argument: None,
        };
        self.tools.iter().map(|tool| tool.offered.clone()).chain([submit]).collect()
    }

    pub(crate) fn submit(&self) -> &Schema {
        &self.submit
    }
}

fn invalid(name: &str, reason: &str) -> Fault {
    Fault::permanent(Boundary::Provider, "tool-invalid", format!("the tool `{name}`: {reason}"))
}

/// The answer is optional: a task may be solved by calls alone.
fn submit_parameters() -> Value {
    json!({
        "type": "object",
        "properties": { "answer": { "type": "string", "description": "The answer, if the task asks for one." } },
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use clawrl_core::ToolDecl;

    use super::*;

    fn tool(name: &str, kind: ToolKind, parameters: Value) -> ToolDecl {
        ToolDecl {
            name: name.to_owned(),
            description: String::new(),
            parameters,
            text_argument: None,
            kind,
            timeout: Duration::from_secs(1),
            max_calls: None,
        }
    }

    fn check(tools: Vec<ToolDecl>, expected: &str) {
        let spec = ToolcallSpec {
            tools,
            mcp: Vec::new(),
            workspace: None,
            observation_chars: 100,
            max_parallel_calls: 1,
            step_rewards: Vec::new(),
        };
        let message = Toolbox::new(&spec, &SchemaCache::default(), &Secrets::default(), &Arc::default())
            .map_or_else(|fault| fault.message, |_| String::new());
        assert!(message.starts_with(expected) && message.is_empty() == expected.is_empty(), "{message}");
    }

    #[test]
    fn invalid_tools_are_refused() {
        let any = || json!({ "type": "object" });
        let command = |argv: &[&str]| ToolKind::Command {
            argv: argv.iter().map(|&text| text.into()).collect(),
            stdin: None,
        };
        check(vec![tool("a", ToolKind::Never, any()), tool("b", ToolKind::Arithmetic, any())], "");
        check(
            vec![tool("a", ToolKind::Never, any()), tool("a", ToolKind::Never, any())],
            "the tool `a`: another tool",
        );
        check(vec![tool("submit", ToolKind::Never, any())], "the tool `submit`: another tool");
        check(vec![tool("a", ToolKind::Never, json!({ "type": 1 }))], "the tool `a`: its parameters: ");
        check(vec![tool("a", ToolKind::Python, any())], "the tool `a`: it runs programs");
        check(vec![tool("a", command(&["x"]), any())], "the tool `a`: it runs programs");
    }
}
