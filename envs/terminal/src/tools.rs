//! The tools of a terminal, and parsing of their calls.

use std::time::Duration;

use clawrl_core::{MalformedAction, ToolCall, ToolSpec};
use clawrl_sandbox::{CursorKeys, JobSignal, StepEnd, parse_keys};
use serde_json::json;

/// Longest wait of one call. A longer one takes several calls.
const MAX_WAIT: Duration = Duration::from_secs(600);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Call<'a> {
    Run(&'a str),
    Keys(&'a str),
    Text(&'a str),
    Wait(Duration),
    Signal(JobSignal),
    Submit,
}

/// The offered tools. The first is the primary one: a raw or fenced action is its command.
pub(crate) fn specs() -> Vec<ToolSpec> {
    let tool = |name: &str,
                description: &str,
                argument: Option<(&str, serde_json::Value)>,
                required: bool| {
        let (properties, needs) = match argument {
            Some((argument, schema)) => {
                (json!({ argument: schema }), if required { vec![argument.to_owned()] } else { vec![] })
            }
            None => (json!({}), vec![]),
        };
        ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({
                "type": "object", "properties": properties, "required": needs, "additionalProperties": false
            }),
            text_argument: None,
        }
    };
    let text = |description: &str| json!({ "type": "string", "description": description });
    let mut specs = vec![
        tool(
            "run",
            "Run a command in the shell and see its output. Folder, variables and jobs persist.",
            Some(("command", text("One command, or several lines."))),
            true,
        ),
        tool(
            "keys",
            "Press keys in the program that runs, by name, separated by spaces: C-c, Enter, Escape, Up, Tab, F1, a.",
            Some(("keys", text("Names of keys."))),
            true,
        ),
        tool(
            "text",
            "Type text literally into the program that runs. A line end in it is the Enter key; none is added.",
            Some(("text", text("What to type."))),
            true,
        ),
        tool(
            "wait",
            "Wait for the program that runs.",
            Some((
                "seconds",
                json!({ "type": "number", "exclusiveMinimum": 0, "maximum": MAX_WAIT.as_secs() }),
            )),
            true,
        ),
        tool(
            "signal",
            "Signal the program that runs.",
            Some((
                "name",
                json!({ "type": "string", "enum": ["INT", "TERM", "KILL", "TSTP", "CONT", "QUIT"] }),
            )),
            true,
        ),
        tool(
            "submit",
            "End the task; what is there is then checked.",
            Some(("answer", text("Not needed here."))),
            false,
        ),
    ];
    specs[0].text_argument = Some("command".to_owned());
    specs
}

/// The key that a command stands for while the shell accepts no command: it leaves a running program, or an incomplete
/// command. A policy that only has commands has no other way to do so.
pub(crate) fn control_key(command: &str, last_end: Option<StepEnd>) -> Option<String> {
    if !matches!(last_end, Some(StepEnd::Running | StepEnd::Incomplete)) {
        return None;
    }
    let name = command.trim();
    let letter = ["C-", "^", "Ctrl-", "Ctrl+", "ctrl-", "ctrl+"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))?;
    let key = format!("C-{}", letter.to_ascii_lowercase());
    (["c", "d", "z", "\\"].contains(&letter.to_ascii_lowercase().as_str())).then_some(key)
}

/// Parses a call.
///
/// # Errors
/// [`MalformedAction`] for the policy: unknown tool, missing or wrong argument.
pub(crate) fn understand(call: &ToolCall) -> Result<Call<'_>, MalformedAction> {
    let malformed = |reason: String| MalformedAction { reason };
    let text = |argument: &str| {
        call.str_argument(argument)
            .ok_or_else(|| malformed(format!("`{}` needs the argument `{argument}`, a string", call.name)))
    };
    match call.name.as_str() {
        "run" => Ok(Call::Run(text("command")?)),
        "keys" => {
            let keys = text("keys")?;
            parse_keys(keys, CursorKeys::default()).map_err(|error| malformed(error.to_string()))?;
            Ok(Call::Keys(keys))
        }
        "text" => Ok(Call::Text(text("text")?)),
        "wait" => {
            let seconds = call.arguments.get("seconds").and_then(serde_json::Value::as_f64);
            let fits = |seconds: &f64| *seconds > 0.0 && *seconds <= MAX_WAIT.as_secs_f64();
            let seconds = seconds.filter(fits).ok_or_else(|| {
                malformed(format!(
                    "`wait` needs `seconds`, a number above 0 and at most {}",
                    MAX_WAIT.as_secs()
                ))
            })?;
            Ok(Call::Wait(Duration::from_secs_f64(seconds)))
        }
        "signal" => text("name")?
            .parse()
            .map(Call::Signal)
            .map_err(|error: clawrl_sandbox::UnknownSignal| malformed(error.to_string())),
        "submit" => Ok(Call::Submit),
        other => Err(malformed(format!("there is no tool `{other}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, arguments: serde_json::Value, expected: Result<Call<'_>, &str>) {
        let call = ToolCall::new(name, arguments);
        assert_eq!(
            understand(&call).map_err(|error| error.reason),
            expected.map_err(str::to_owned),
            "{call:?}"
        );
    }

    #[test]
    fn calls_parse_or_are_refused_with_reason() {
        check("run", json!({"command": "ls"}), Ok(Call::Run("ls")));
        check("run", json!({}), Err("`run` needs the argument `command`, a string"));
        check("wait", json!({"seconds": 1.5}), Ok(Call::Wait(Duration::from_millis(1500))));
        check(
            "wait",
            json!({"seconds": -1}),
            Err("`wait` needs `seconds`, a number above 0 and at most 600"),
        );
        check("signal", json!({"name": "INT"}), Ok(Call::Signal(JobSignal::Int)));
        check("submit", json!({"answer": "x"}), Ok(Call::Submit));
        check("fly", json!({}), Err("there is no tool `fly`"));
    }

    #[test]
    fn control_key_is_command_only_at_prompt() {
        let check = |command: &str, end: StepEnd, expected: Option<&str>| {
            assert_eq!(control_key(command, Some(end)).as_deref(), expected, "{command}");
        };
        check("C-c", StepEnd::Incomplete, Some("C-c"));
        check(" ^C\n", StepEnd::Running, Some("C-c"));
        check("Ctrl+D", StepEnd::Running, Some("C-d"));
        check("C-c", StepEnd::Completed { exit_code: Some(0) }, None);
        check("C-x", StepEnd::Running, None);
        check("echo C-c", StepEnd::Incomplete, None);
        check("^", StepEnd::Incomplete, None);
    }

    #[test]
    fn every_tool_on_offer_is_understood() {
        for spec in specs() {
            let arguments = json!({"command": "ls", "keys": "C-c", "text": "a", "seconds": 1, "name": "INT"});
            assert!(understand(&ToolCall::new(&spec.name, arguments)).is_ok(), "{}", spec.name);
        }
    }
}
