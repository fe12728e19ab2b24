//! The actions of an OpenEnv server, as tools.
//!
//! A server describes its actions by a JSON schema. Most have one kind, which becomes one tool, [`ACT`]. Those that
//! offer MCP tools have an action that calls one by name, and list them on request.

use clawrl_core::ToolCall;
use serde_json::{Value, json};

use crate::message::ToolAnswer;

/// The tool of a server with one kind of action.
pub(super) const ACT: &str = "act";

/// How actions are sent to a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum ActionStyle {
    /// As an action of its own kind.
    #[default]
    Plain,
    Tools,
}

/// The style of a server whose actions have this schema.
pub(super) fn action_style(schema: &Value) -> ActionStyle {
    let properties = &schema["properties"];
    let is_call = properties.get("tool_name").is_some() && properties.get("arguments").is_some();
    if is_call { ActionStyle::Tools } else { ActionStyle::Plain }
}

/// The one tool of a plain server.
pub(super) fn act_tool(mut schema: Value) -> ToolAnswer {
    if !schema.is_object() {
        schema = json!({ "type": "object" });
    }
    schema["type"] = json!("object");
    // For the server's own use, and empty by default.
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove("metadata");
    }
    let description = schema["description"].as_str().unwrap_or("Acts on the environment.").to_owned();
    let text_argument = only_text(&schema);
    ToolAnswer { name: ACT.to_owned(), description, parameters: Some(schema), text_argument }
}

/// The only argument, if there is exactly one and it is a text.
fn only_text(schema: &Value) -> Option<String> {
    let mut properties = schema["properties"].as_object()?.iter();
    match (properties.next(), properties.next()) {
        (Some((name, property)), None) if property["type"] == "string" => Some(name.clone()),
        _ => None,
    }
}

/// The tools in the answer to a request for them.
pub(super) fn listed_tools(observation: &Value) -> Vec<ToolAnswer> {
    let tools = observation["tools"].as_array().into_iter().flatten();
    let one = |tool: &Value| {
        let schema = ["input_schema", "inputSchema"].iter().find_map(|key| tool.get(*key)).cloned();
        let mut parameters = schema.filter(Value::is_object).unwrap_or_else(|| json!({}));
        parameters["type"] = json!("object");
        Some(ToolAnswer {
            name: tool["name"].as_str()?.to_owned(),
            description: tool["description"].as_str().unwrap_or_default().to_owned(),
            parameters: Some(parameters),
            text_argument: None,
        })
    };
    tools.filter_map(one).collect()
}

/// The message that performs a call.
pub(super) fn step(action_style: ActionStyle, call: &ToolCall) -> Value {
    let data = match action_style {
        ActionStyle::Plain => call.arguments.clone(),
        ActionStyle::Tools => {
            json!({ "type": "call_tool", "tool_name": call.name, "arguments": call.arguments })
        }
    };
    json!({ "type": "step", "data": data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_become_tools() {
        let text =
            json!({ "properties": { "message": { "type": "string" }, "metadata": { "type": "object" } } });
        assert_eq!(action_style(&text), ActionStyle::Plain);
        let tool = act_tool(text);
        assert_eq!(tool.text_argument.as_deref(), Some("message"));
        let expected = json!({ "type": "object", "properties": { "message": { "type": "string" } } });
        assert_eq!(tool.parameters, Some(expected));
        let two = json!({ "properties": { "a": { "type": "string" }, "b": { "type": "string" } } });
        assert_eq!(act_tool(two).text_argument, None);
        assert_eq!(act_tool(Value::Null).parameters, Some(json!({ "type": "object" })));
        let calls = json!({ "properties": { "type": {}, "tool_name": {}, "arguments": {} } });
        assert_eq!(action_style(&calls), ActionStyle::Tools);
    }

    #[test]
    fn listed_tools_are_taken_unchanged() {
        let listed =
            json!({ "tools": [{ "name": "echo", "input_schema": { "properties": {} } }, { "no": "name" }] });
        let tools = listed_tools(&listed);
        assert_eq!(tools.len(), 1);
        assert_eq!(tools[0].parameters, Some(json!({ "type": "object", "properties": {} })));
    }

    #[test]
    fn calls_become_steps() {
        let call = ToolCall::new("echo", json!({ "message": "hi" }));
        let plain = json!({ "type": "step", "data": { "message": "hi" } });
        assert_eq!(step(ActionStyle::Plain, &call), plain);
        let by_name = json!({ "type": "call_tool", "tool_name": "echo", "arguments": { "message": "hi" } });
        assert_eq!(step(ActionStyle::Tools, &call), json!({ "type": "step", "data": by_name }));
    }
}
