//! The system message: how to write actions, if the tools are not sent in the server's own format.
//!
//! It is a function of the plan and the recorded tools, so that the policy's input can be reconstructed.

use clawrl_core::{ActionFormat, RemoteSpec, ToolSpec, ToolUse};

/// Input of a model besides the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Told<'a> {
    /// The message before the conversation, if there is one.
    pub system: Option<String>,
    /// Tools in the server's own format; empty for none.
    pub tools: &'a [ToolSpec],
}

impl<'a> Told<'a> {
    /// The input for a policy with these settings in a task with this action format.
    #[must_use]
    pub fn of(settings: &RemoteSpec, format: ActionFormat, tools: &'a [ToolSpec]) -> Self {
        let system = system_text(settings, format, tools);
        Self { system, tools: if is_native(settings.tools, format) { tools } else { &[] } }
    }
}

/// Whether tools are sent in the server's own format.
fn is_native(tools: ToolUse, format: ActionFormat) -> bool {
    match tools {
        ToolUse::Auto => format == ActionFormat::ToolCalls,
        ToolUse::Native => true,
        ToolUse::Text => false,
    }
}

/// The text; `None` without such a message.
fn system_text(settings: &RemoteSpec, format: ActionFormat, tools: &[ToolSpec]) -> Option<String> {
    match &settings.system {
        Some(text) if text.is_empty() => None,
        Some(text) => Some(text.clone()),
        None if is_native(settings.tools, format) => None,
        None => Some(explanation(format, tools)),
    }
}

fn explanation(format: ActionFormat, tools: &[ToolSpec]) -> String {
    let primary = tools.iter().find(|tool| tool.text_argument.is_some());
    let purpose =
        primary.map_or(String::new(), |tool| format!(" It is used like this: {}", tool.description));
    let submit = if tools.iter().any(|tool| tool.name == "submit") {
        " When the task is done, the whole action is the word submit."
    } else {
        ""
    };
    match format {
        ActionFormat::Raw => format!(
            "You act step by step. Each reply is one action and nothing else: no explanation, no formatting.{purpose}{submit}"
        ),
        ActionFormat::Fenced => format!(
            "You act step by step. Each reply has exactly one block between lines of three backticks; its content is \
             the action.{purpose}{submit}"
        ),
        ActionFormat::Hermes | ActionFormat::ToolCalls => {
            let list: Vec<String> = tools
                .iter()
                .map(|tool| {
                    let (name, description, parameters) = (&tool.name, &tool.description, &tool.parameters);
                    serde_json::json!({ "name": name, "description": description, "parameters": parameters })
                        .to_string()
                })
                .collect();
            format!(
                "You act step by step, by calling tools. To call one, write its name and arguments as JSON: \
                 <tool_call>{{\"name\": \"...\", \"arguments\": {{...}}}}</tool_call>\nThe tools:\n{}",
                list.join("\n")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, text_argument: Option<&str>) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: format!("Does {name}."),
            parameters: json!({"type": "object"}),
            text_argument: text_argument.map(str::to_owned),
        }
    }

    #[test]
    fn every_format_is_explained() {
        let tools = [tool("run", Some("command")), tool("submit", None)];
        let raw = explanation(ActionFormat::Raw, &tools);
        assert!(raw.contains("Does run.") && raw.contains("the word submit"), "{raw}");
        assert!(explanation(ActionFormat::Fenced, &tools[..1]).ends_with("Does run."));
        let hermes = explanation(ActionFormat::Hermes, &tools);
        assert!(hermes.contains(r#""name":"submit""#) && hermes.contains("</tool_call>"), "{hermes}");
    }

    #[test]
    fn native_tools_follow_the_format_unless_told() {
        let check = |tools, format, expected| assert_eq!(is_native(tools, format), expected);
        check(ToolUse::Auto, ActionFormat::ToolCalls, true);
        check(ToolUse::Auto, ActionFormat::Raw, false);
        check(ToolUse::Native, ActionFormat::Raw, true);
        check(ToolUse::Text, ActionFormat::Hermes, false);
    }
}
