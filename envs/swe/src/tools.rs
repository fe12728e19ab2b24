//! The tools of a software engineering environment, and parsing of their calls.

use clawrl_core::{MalformedAction, ToolCall, ToolSpec};
use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call<'a> {
    Bash(&'a str),
    View {
        path: &'a str,
        /// First and last line, counted from 1.
        lines: Option<(usize, usize)>,
    },
    /// `old` is replaced by `new`; without it, `new` is the whole file.
    Edit {
        path: &'a str,
        old: Option<&'a str>,
        new: &'a str,
    },
    Submit {
        patch: Option<&'a str>,
    },
}

/// The offered tools. The first is the primary one: a raw or fenced action is its command.
pub(crate) fn specs() -> Vec<ToolSpec> {
    let tool = |name: &str, description: &str, properties: Value, required: &[&str]| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false
        }),
        text_argument: None,
    };
    let text = |description: &str| json!({ "type": "string", "description": description });
    let line = |description: &str| json!({ "type": "integer", "minimum": 1, "description": description });
    let path = || text("From the repository's root on, or absolute.");
    let bash = tool(
        "bash",
        "Run a command in the shell and see its output. Folder, variables and jobs persist; programs get no input.",
        json!({ "command": text("One command, or several lines.") }),
        &["command"],
    );
    vec![
        ToolSpec { text_argument: Some("command".to_owned()), ..bash },
        tool(
            "view",
            "See a file with the numbers of its lines, or what is in a folder.",
            json!({ "path": path(), "first": line("First line to see."), "last": line("Last line to see.") }),
            &["path"],
        ),
        tool(
            "edit",
            "Replace a text in a file, which must be there exactly once. Without `old`, write the whole file.",
            json!({ "path": path(), "old": text("What to replace."), "new": text("What to put there.") }),
            &["path", "new"],
        ),
        tool(
            "submit",
            "End the task; the repository as it is then is tested.",
            json!({ "patch": text("Instead of the repository: a unified diff against it as it was at the beginning.") }),
            &[],
        ),
    ]
}

/// Parses a call.
///
/// # Errors
/// [`MalformedAction`] for the policy: unknown tool, missing or wrong argument.
pub(crate) fn understand(call: &ToolCall) -> Result<Call<'_>, MalformedAction> {
    let malformed = |reason: String| MalformedAction { reason };
    let optional = |argument: &str| match call.arguments.get(argument) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(malformed(format!("`{argument}` of `{}` is a string", call.name))),
    };
    let text = |argument: &str| {
        optional(argument)?
            .ok_or_else(|| malformed(format!("`{}` needs the argument `{argument}`, a string", call.name)))
    };
    let line = |argument: &str| match call.arguments.get(argument) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .and_then(|line| usize::try_from(line).ok())
            .filter(|line| *line > 0)
            .map(Some)
            .ok_or_else(|| malformed(format!("`{argument}` of `view` is the number of a line, from 1"))),
    };
    match call.name.as_str() {
        "bash" => Ok(Call::Bash(text("command")?)),
        "view" => {
            let (path, first, last) = (text("path")?, line("first")?, line("last")?);
            let lines =
                (first.is_some() || last.is_some()).then(|| (first.unwrap_or(1), last.unwrap_or(usize::MAX)));
            match lines {
                Some((first, last)) if first > last => {
                    Err(malformed(format!("`view` has no lines from {first} to {last}")))
                }
                lines => Ok(Call::View { path, lines }),
            }
        }
        "edit" => match (text("path")?, optional("old")?, text("new")?) {
            (_, Some(""), _) => {
                Err(malformed("`old` is empty; leave it out to write the whole file".to_owned()))
            }
            (path, old, new) => Ok(Call::Edit { path, old, new }),
        },
        "submit" => Ok(Call::Submit { patch: optional("patch")? }),
        other => Err(malformed(format!("there is no tool `{other}`; there are bash, view, edit and submit"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, arguments: Value, expected: Result<Call<'_>, &str>) {
        let call = ToolCall::new(name, arguments);
        assert_eq!(
            understand(&call).map_err(|error| error.reason),
            expected.map_err(str::to_owned),
            "{call:?}"
        );
    }

    #[test]
    fn calls_parse_or_are_refused_with_reason() {
        check("bash", json!({"command": "ls"}), Ok(Call::Bash("ls")));
        check("bash", json!({}), Err("`bash` needs the argument `command`, a string"));
        check("view", json!({"path": "a"}), Ok(Call::View { path: "a", lines: None }));
        check(
            "view",
            json!({"path": "a", "first": 3}),
            Ok(Call::View { path: "a", lines: Some((3, usize::MAX)) }),
        );
        check("view", json!({"path": "a", "last": 3}), Ok(Call::View { path: "a", lines: Some((1, 3)) }));
        check(
            "view",
            json!({"path": "a", "first": 0}),
            Err("`first` of `view` is the number of a line, from 1"),
        );
        check("view", json!({"path": "a", "first": 4, "last": 3}), Err("`view` has no lines from 4 to 3"));
        check("edit", json!({"path": "a", "new": "b"}), Ok(Call::Edit { path: "a", old: None, new: "b" }));
        check("edit", json!({"path": "a", "old": 1, "new": "b"}), Err("`old` of `edit` is a string"));
        check(
            "edit",
            json!({"path": "a", "old": "", "new": "b"}),
            Err("`old` is empty; leave it out to write the whole file"),
        );
        check("submit", json!({}), Ok(Call::Submit { patch: None }));
        check("submit", json!({"patch": "x"}), Ok(Call::Submit { patch: Some("x") }));
        check("fly", json!({}), Err("there is no tool `fly`; there are bash, view, edit and submit"));
    }

    #[test]
    fn every_tool_on_offer_is_understood() {
        for spec in specs() {
            let arguments = json!({"command": "ls", "path": "a", "new": "b"});
            assert!(understand(&ToolCall::new(&spec.name, arguments)).is_ok(), "{}", spec.name);
        }
    }
}
