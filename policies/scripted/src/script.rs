//! From a script and a turn index to the reply: the part that the scripted policies share.

use clawrl_core::{Action, ActionFormat, PolicyRequest, Script, TaskSpec, ToolCall, ToolSpec, parse_calls};
use serde_json::json;

use crate::solver::solved_call;

/// The action of a script at the turn of a request: its call with that index, and `submit` after the end; or the solver's action.
///
/// If the last call of a script is a submission, the episode ends there, and the added one is
/// never reached.
pub(crate) fn scripted_action(script: &Script, task: &TaskSpec, request: &PolicyRequest<'_>) -> Action {
    let call = match script {
        Script::Calls(calls) => {
            let index = usize::try_from(request.turn).unwrap_or(usize::MAX);
            calls.get(index).cloned().unwrap_or_else(submit_call)
        }
        Script::Solver(solver) => solved_call(*solver, task, request),
    };
    action_with_raw_text(call, request.tools)
}

/// Everything that a script plays where these tools are on offer, its submission included; nothing of a solver.
#[must_use]
pub fn script_actions(script: &Script, tools: &[ToolSpec]) -> Vec<Action> {
    let calls = script.calls();
    let ends = calls.last().is_none_or(|call| call.name == "submit");
    let end = (!ends).then(submit_call);
    calls.iter().cloned().chain(end).map(|call| action_with_raw_text(call, tools)).collect()
}

/// A call without an answer to the tool that ends an episode.
pub(crate) fn submit_call() -> ToolCall {
    ToolCall::new("submit", json!({}))
}

/// A reply that carries the call, and the raw text of the same meaning where there is one.
pub(crate) fn action_with_raw_text(call: ToolCall, tools: &[ToolSpec]) -> Action {
    let text = raw_text(&call, tools).unwrap_or_default();
    Action { text, ..Action::call(call) }
}

/// The raw text that parses to exactly this call. `None` if there is none: `keys C-c`, a command that
/// parses as a submission, a command that ends in a newline.
fn raw_text(call: &ToolCall, tools: &[ToolSpec]) -> Option<String> {
    let candidate = if call.name == "submit" {
        match call.str_argument("answer") {
            Some(answer) => format!("submit {answer}"),
            None => "submit".to_owned(),
        }
    } else {
        let tool = tools.iter().find(|tool| tool.name == call.name)?;
        call.str_argument(tool.text_argument.as_deref()?)?.to_owned()
    };
    let read_back = parse_calls(&candidate, &[], ActionFormat::Raw, tools).ok()?;
    let same =
        matches!(read_back.as_slice(), [read] if read.name == call.name && read.arguments == call.arguments);
    same.then_some(candidate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tools() -> Vec<ToolSpec> {
        let tool = |name: &str, text_argument: Option<&str>| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            text_argument: text_argument.map(Into::into),
        };
        vec![tool("run", Some("command")), tool("keys", None), tool("submit", None)]
    }

    fn check(name: &str, arguments: serde_json::Value, expected: Option<&str>) {
        let call = ToolCall::new(name, arguments);
        assert_eq!(raw_text(&call, &tools()).as_deref(), expected, "{call:?}");
    }

    #[test]
    fn raw_text_where_there_is_one() {
        check("run", json!({"command": "ls -l"}), Some("ls -l"));
        check("run", json!({"command": "a\nb"}), Some("a\nb"));
        check("submit", json!({}), Some("submit"));
        check("submit", json!({"answer": "42"}), Some("submit 42"));
        check("keys", json!({"keys": "C-c"}), None);
        check("fly", json!({"command": "up"}), None);
    }

    #[test]
    fn no_raw_text_that_would_read_as_something_else() {
        check("run", json!({"command": "submit"}), None);
        check("run", json!({"command": "submit 42"}), None);
        check("run", json!({"command": "ls\n"}), None);
        check("run", json!({"command": ""}), None);
        check("run", json!({"command": "ls", "timeout": 3}), None);
        check("submit", json!({"answer": 42}), None);
    }

    #[test]
    fn all_actions_of_a_script() {
        let texts = |calls: Vec<ToolCall>| -> Vec<String> {
            let actions = script_actions(&Script::Calls(calls), &tools());
            actions.into_iter().map(|action| action.text).collect()
        };
        let run = || ToolCall::new("run", json!({"command": "ls"}));
        assert_eq!(texts(vec![run()]), ["ls", "submit"]);
        assert_eq!(texts(vec![run(), ToolCall::new("submit", json!({"answer": "4"}))]), ["ls", "submit 4"]);
        assert_eq!(texts(Vec::new()), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn raw_text_reads_back_as_the_call(command in "(submit )?[ -~\n]{0,20}") {
            let call = ToolCall::new("run", json!({ "command": command }));
            let action = action_with_raw_text(call.clone(), &tools());
            if !action.text.is_empty() {
                let read = parse_calls(&action.text, &[], ActionFormat::Raw, &tools());
                prop_assert_eq!(read.ok(), Some(vec![call]));
            }
        }
    }
}
