//! The tools of a task: on offer, and ready to be called.

use std::sync::Arc;

use clawrl_core::{Boundary, Fault, ToolDecl, ToolKind, ToolSpec, ToolcallSpec, command_pieces};
use serde_json::{Value, json};

use crate::schema::{Schema, SchemaCache};

/// The tool that ends the episode.
pub(crate) const SUBMIT: &str = "submit";

/// What a call of a tool is held against.
#[derive(Debug, Clone)]
pub(crate) struct Toolbox {
    /// In the order of the task's tools.
    schemas: Vec<Arc<Schema>>,
    submit: Arc<Schema>,
}

impl Toolbox {
    /// Readies the tools of a task.
    ///
    /// # Errors
    /// A permanent provider [`Fault`] for tools that no suite would have let through.
    pub(crate) fn new(spec: &ToolcallSpec, schemas: &SchemaCache) -> Result<Self, Fault> {
        for (index, tool) in spec.tools.iter().enumerate() {
            let is_taken = spec.tools[..index].iter().any(|other| other.name == tool.name);
            if is_taken || tool.name == SUBMIT {
                return Err(invalid(tool, "there is another tool of this name"));
            }
            if tool.kind.needs_sandbox() && spec.workspace.is_none() {
                return Err(invalid(tool, "it runs programs, and the task has no workspace"));
            }
            if let ToolKind::Command { argv, stdin } = &tool.kind {
                let broken = argv.iter().chain(stdin).find_map(|text| command_pieces(text).err());
                if let Some(error) = broken {
                    return Err(invalid(tool, &error.to_string()));
                }
                if argv.is_empty() {
                    return Err(invalid(tool, "it has no command"));
                }
            }
        }
        let compile = |tool: &ToolDecl| {
            schemas.get(&tool.parameters).map_err(|error| invalid(tool, &format!("its parameters: {error}")))
        };
        let submit = schemas.get(&submit_parameters()).map_err(|error| {
            Fault::permanent(Boundary::Harness, "tool-invalid", format!("`{SUBMIT}`: {error}"))
        })?;
        Ok(Self { schemas: spec.tools.iter().map(compile).collect::<Result<_, _>>()?, submit })
    }

    /// The schema of the task's tool with this index.
    pub(crate) fn schema(&self, index: usize) -> Option<&Schema> {
        self.schemas.get(index).map(Arc::as_ref)
    }

    pub(crate) fn submit(&self) -> &Schema {
        &self.submit
    }
}

fn invalid(tool: &ToolDecl, reason: &str) -> Fault {
    Fault::permanent(Boundary::Provider, "tool-invalid", format!("the tool `{}`: {reason}", tool.name))
}

/// The tools on offer: those of the task in their order, then `submit`.
pub(crate) fn offered(spec: &ToolcallSpec) -> Vec<ToolSpec> {
    let own = spec.tools.iter().map(|tool| ToolSpec {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.clone(),
        text_argument: tool.text_argument.clone(),
    });
    let submit = ToolSpec {
        name: SUBMIT.to_owned(),
        description: "End the task with an answer; what was done is then checked.".to_owned(),
        parameters: submit_parameters(),
        text_argument: None,
    };
    own.chain([submit]).collect()
}

/// The answer may be left out: a task may be done by calls alone.
fn submit_parameters() -> Value {
    json!({
        "type": "object",
        "properties": { "answer": { "type": "string", "description": "The answer, if the task asks for one." } },
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            workspace: None,
            observation_chars: 100,
            max_parallel_calls: 1,
            step_rewards: Vec::new(),
        };
        let message = Toolbox::new(&spec, &SchemaCache::default())
            .map_or_else(|fault| fault.message, |_| String::new());
        assert!(message.starts_with(expected) && message.is_empty() == expected.is_empty(), "{message}");
    }

    #[test]
    fn tools_that_cannot_be_are_refused() {
        let any = || json!({ "type": "object" });
        let command = |argv: &[&str]| ToolKind::Command {
            argv: argv.iter().map(|&text| text.into()).collect(),
            stdin: None,
        };
        check(vec![tool("a", ToolKind::Never, any()), tool("b", ToolKind::Arithmetic, any())], "");
        check(
            vec![tool("a", ToolKind::Never, any()), tool("a", ToolKind::Never, any())],
            "the tool `a`: there is another",
        );
        check(vec![tool("submit", ToolKind::Never, any())], "the tool `submit`: there is another");
        check(vec![tool("a", ToolKind::Never, json!({ "type": 1 }))], "the tool `a`: its parameters: ");
        check(vec![tool("a", ToolKind::Python, any())], "the tool `a`: it runs programs");
        check(vec![tool("a", command(&["x"]), any())], "the tool `a`: it runs programs");
    }
}
