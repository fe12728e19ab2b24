//! The tools that a server lists: which are offered, and under which names.

use std::time::Duration;

use clawrl_core::{Boundary, Fault, McpDecl, ToolSpec, offered_tool_name};
use clawrl_redact::Redactor;
use rmcp::model::Tool;
use serde_json::Value;

/// Maximum tools of one server. More would fill any policy's context.
pub(super) const MAX_TOOLS: usize = 512;

/// Longest tool name that model servers accept.
const NAME_CHARS: usize = 64;

/// An offered tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServedTool {
    pub(crate) offered: ToolSpec,
    /// Its name on the server.
    pub(crate) own_name: String,
    pub(crate) timeout: Duration,
}

/// The tools that the task selects, in the server's order, with secrets redacted.
///
/// # Errors
/// A permanent provider [`Fault`]: a tool that is not listed, or an invalid name.
pub(super) fn chosen(
    decl: &McpDecl,
    listed: Vec<Tool>,
    redactor: &Redactor,
) -> Result<Vec<ServedTool>, Fault> {
    let refused = |code: &str, message: String| {
        Fault::permanent(Boundary::Provider, code, format!("the MCP server `{}` {message}", decl.name))
    };
    if let Some(missing) =
        decl.tools.iter().flatten().find(|name| listed.iter().all(|tool| tool.name.as_ref() != name.as_str()))
    {
        let names: Vec<&str> = listed.iter().map(|tool| tool.name.as_ref()).collect();
        let message = format!("lacks the tool `{missing}`; it lists {}", words(&names));
        return Err(refused("mcp-no-such-tool", message));
    }
    let is_wanted =
        |tool: &Tool| decl.tools.as_ref().is_none_or(|names| names.iter().any(|name| *name == tool.name));
    let mut chosen: Vec<ServedTool> = Vec::new();
    for tool in listed.into_iter().filter(is_wanted) {
        let listed = format!("{}{}", decl.prefix, tool.name);
        let mut name = listed.clone();
        redactor.redact_in_place(&mut name);
        // A name that contained a secret now contains a mark, and is refused for that.
        if name == listed {
            name = offered_tool_name(&decl.prefix, &tool.name);
        }
        if !is_name(&name) {
            let message =
                format!("lists `{name}`, which is not a valid tool name: exclude it with `tools: [...]`");
            return Err(refused("mcp-tool-name", message));
        }
        if chosen.iter().any(|other| other.offered.name == name) {
            return Err(refused(
                "mcp-tool-twice",
                format!("lists two tools `{name}`: select others with `tools: [...]`"),
            ));
        }
        let mut description =
            tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default().to_owned();
        redactor.redact_in_place(&mut description);
        let mut parameters = tool.input_schema.as_ref().clone();
        // Model servers require the type, and arguments are an object in any case.
        parameters.entry("type").or_insert_with(|| "object".into());
        let mut parameters = Value::Object(parameters);
        redactor.redact_json(&mut parameters);
        chosen.push(ServedTool {
            offered: ToolSpec { name, description, parameters, text_argument: None },
            own_name: tool.name.into_owned(),
            timeout: decl.timeout,
        });
    }
    Ok(chosen)
}

fn is_name(name: &str) -> bool {
    (1..=NAME_CHARS).contains(&name.len()) && name.chars().all(is_allowed)
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn words(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use clawrl_core::{McpShare, McpTransport};
    use serde_json::json;

    use super::*;

    fn check(tools: Option<&[&str]>, prefix: &str, listed: &[&str], expected: Result<&[&str], &str>) {
        let decl = McpDecl {
            name: "docs".to_owned(),
            transport: McpTransport::Http { url: String::new(), headers: Default::default() },
            tools: tools.map(|names| names.iter().map(|&name| name.to_owned()).collect()),
            prefix: prefix.to_owned(),
            share: McpShare::Attempt,
            timeout: Duration::from_secs(1),
            max_calls: None,
        };
        let tool = |name: &&str| {
            serde_json::from_value(json!({"name": name, "inputSchema": {"type": "object"}})).unwrap()
        };
        let redactor = Redactor::for_tools([("KEY".to_owned(), "k3y-k3y-k3y".to_owned())]);
        let found = chosen(&decl, listed.iter().map(tool).collect(), &redactor);
        let names = found.map(|tools| tools.into_iter().map(|tool| tool.offered.name).collect::<Vec<_>>());
        let expected = expected.map(|names| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        assert_eq!(names.map_err(|fault| fault.message), expected.map_err(str::to_owned));
    }

    #[test]
    fn the_task_chooses_and_names() {
        check(None, "", &["a", "b"], Ok(&["a", "b"]));
        check(Some(&["b"]), "docs_", &["a", "b", "c"], Ok(&["docs_b"]));
        check(None, "", &[], Ok(&[]));
        let missing = "the MCP server `docs` lacks the tool `x`; it lists a, b";
        check(Some(&["a", "x"]), "", &["a", "b"], Err(missing));
        check(
            None,
            "",
            &["a b", "git/log", "files.read", "naïve"],
            Ok(&["a_b", "git_log", "files_read", "na_ve"]),
        );
        check(Some(&["files.read"]), "docs.", &["files.read", "b"], Ok(&["docs_files_read"]));
        let twice = "the MCP server `docs` lists two tools `a_b`: select others with `tools: [...]`";
        check(None, "", &["a.b", "a/b"], Err(twice));
        let long = "x".repeat(65);
        let refused = format!(
            "the MCP server `docs` lists `{long}`, which is not a valid tool name: exclude it with `tools: [...]`"
        );
        check(None, "", &[&long], Err(&refused));
        check(Some(&["a"]), "", &[&long, "a"], Ok(&["a"]));
        let secret = "the MCP server `docs` lists `get_[KEY]`, which is not a valid tool name: exclude it \
            with `tools: [...]`";
        check(None, "", &["get_k3y-k3y-k3y"], Err(secret));
        let twice = "the MCP server `docs` lists two tools `a`: select others with `tools: [...]`";
        check(None, "", &["a", "a"], Err(twice));
    }
}
