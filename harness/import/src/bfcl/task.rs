//! Turns a row into a task.

use std::collections::BTreeMap;

use clawrl_config::{Node, NodeValue, literal};
use serde_json::{Map, Value, json};

use super::category::Expectation;
use super::expected::argument;
use super::tool::{parameters, tool_name};
use crate::draft::{text, whole};
use crate::import::slug;
use crate::questions::{BadRow, conversation};

/// The last sentence of every instruction.
const GUIDE: &str = "Call the tools that this needs, then submit. If none of them fits, or something that one needs is not said, submit a sentence that says so.";

/// Maximum calls in one action; no row asks for more.
const PARALLEL: u64 = 64;

/// A task of the suite, and its entry in the import record.
pub(super) struct Task {
    pub(super) id: String,
    pub(super) node: Node,
    pub(super) record: Value,
}

/// An expected call: its tool, its accepted arguments, and the arguments that the oracle passes.
struct Expected {
    tool: String,
    patterns: Map<String, Value>,
    arguments: Map<String, Value>,
}

/// Reads a row. `truth` is its possible answer.
pub(super) fn task(
    row: &Map<String, Value>,
    truth: Option<&Value>,
    expectation: Expectation,
    max_turns: u32,
) -> Result<Task, BadRow> {
    let name = row.get("id").and_then(Value::as_str).ok_or_else(|| bad("id", "the row has no id"))?;
    let request = request(row)?;
    let functions = row.get("function").and_then(Value::as_array).filter(|functions| !functions.is_empty());
    let functions = functions.ok_or_else(|| bad("function", "the row has no functions"))?;
    let mut tools: Vec<(String, &Value, Value)> = Vec::new();
    for function in functions {
        let name = function["name"].as_str().ok_or_else(|| bad("function", "a function has no name"))?;
        let tool = tool_name(name);
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if tool.is_empty() || tool.len() > 64 || tool == "submit" || !tool.chars().all(allowed) {
            return Err(bad("function", &format!("`{name}` cannot be the name of a tool")));
        }
        if tools.iter().any(|(known, _, _)| *known == tool) {
            return Err(bad("function", &format!("two functions would be called `{tool}`")));
        }
        let schema = parameters(&function["parameters"])
            .map_err(|reason| bad("function", &format!("`{name}`: {reason}")))?;
        tools.push((tool, function, schema));
    }
    let mut notes = Vec::new();
    let expected = match expectation {
        Expectation::NoCall => Vec::new(),
        Expectation::Calls => {
            let truth = truth.and_then(Value::as_array).filter(|calls| !calls.is_empty());
            let truth = truth.ok_or_else(|| bad("id", "there is no possible answer for this row"))?;
            truth.iter().map(|call| expected(call, &mut tools, &mut notes)).collect::<Result<Vec<_>, _>>()?
        }
    };
    let names: BTreeMap<&str, &str> = tools
        .iter()
        .filter_map(|(tool, function, _)| Some((tool.as_str(), function["name"].as_str()?)))
        .filter(|(tool, name)| tool != name)
        .collect();
    let id = slug(name);
    let mut record = json!({ "id": id, "name": name });
    if !names.is_empty() {
        record["functions"] = json!(names);
    }
    if !notes.is_empty() {
        record["notes"] = json!(notes);
    }
    let node = node(&id, &request, &tools, &expected, max_turns);
    Ok(Task { id, node, record })
}

fn bad(key: &str, message: &str) -> BadRow {
    let help = "skip such rows with `--skip-unrepresentable`";
    BadRow { key: key.to_owned(), message: message.to_owned(), help: help.to_owned() }
}

fn request(row: &Map<String, Value>) -> Result<String, BadRow> {
    let turns = row.get("question").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let [Value::Array(messages)] = turns else {
        return Err(bad("question", "the row has several turns, or none"));
    };
    let text = conversation(messages)
        .ok_or_else(|| bad("question", "the row begins in the middle of a conversation"))?;
    if text.trim().is_empty() {
        return Err(bad("question", "the request is empty"));
    }
    Ok(format!("{}\n\n{GUIDE}", text.trim()))
}

fn expected(
    call: &Value,
    tools: &mut [(String, &Value, Value)],
    notes: &mut Vec<String>,
) -> Result<Expected, BadRow> {
    let entry = call.as_object().and_then(|call| call.iter().next());
    let (function, accepted) = entry.ok_or_else(|| bad("id", "a possible answer names no function"))?;
    let (tool, declared, schema) = tools
        .iter_mut()
        .find(|(_, declared, _)| declared["name"].as_str() == Some(function))
        .ok_or_else(|| {
            bad("function", &format!("the possible answer calls `{function}`, which the row does not have"))
        })?;
    let accepted = accepted.as_object().ok_or_else(|| bad("id", "a possible answer has no arguments"))?;
    let required: Vec<&str> = declared["parameters"]["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if let Some(missing) = required.iter().find(|name| !accepted.contains_key(**name)) {
        let message =
            format!("no call passes: `{function}` requires `{missing}`, but none of its values is accepted");
        return Err(bad("function", &message));
    }
    let mut found = Expected { tool: tool.clone(), patterns: Map::new(), arguments: Map::new() };
    for (name, values) in accepted {
        let Some(property) = declared["parameters"]["properties"].get(name) else {
            if values.as_array().is_some_and(|values| values.contains(&json!(""))) {
                continue;
            }
            let message =
                format!("no call passes: `{function}` has no argument `{name}`, but it must be passed");
            return Err(bad("function", &message));
        };
        let is_required = required.contains(&name.as_str());
        let read = argument(property, &schema["properties"][name], values, is_required)
            .map_err(|reason| bad("function", &format!("`{name}` of `{function}`: {reason}")))?;
        if read.needs_any_type {
            notes.push(format!(
                "`{name}` of `{tool}` may be anything: its declared type rejects all accepted values"
            ));
            schema["properties"][name] = match property.get("description") {
                Some(description) => json!({ "description": description }),
                None => json!({}),
            };
        }
        let is_optional = read.pattern["optional"] == json!(true);
        if let Some(value) = read.value.filter(|_| !is_optional) {
            found.arguments.insert(name.clone(), value);
        }
        found.patterns.insert(name.clone(), read.pattern);
    }
    Ok(found)
}

fn node(
    id: &str,
    request: &str,
    tools: &[(String, &Value, Value)],
    expected: &[Expected],
    max_turns: u32,
) -> Node {
    let tool = |(name, function, schema): &(String, &Value, Value)| {
        let words = function["description"].as_str().filter(|words| !words.trim().is_empty()).unwrap_or(name);
        let entries =
            vec![("description", text(words)), ("parameters", json_node(schema)), ("returns", "ok".into())];
        (name.clone(), Node::map(entries))
    };
    let tools: Vec<(String, Node)> = tools.iter().map(tool).collect();
    let tools = Node::map(tools.iter().map(|(name, node)| (name.as_str(), node.clone())).collect());
    let toolcall = Node::map(vec![("tools", tools), ("max_parallel_calls", whole(PARALLEL))]);
    let calls = expected.iter().map(|call| {
        let mut entries = vec![("tool", call.tool.as_str().into())];
        if !call.patterns.is_empty() {
            entries.push(("arguments", json_node(&Value::Object(call.patterns.clone()))));
        }
        Node::map(entries)
    });
    let calls = NodeValue::List(calls.collect()).into();
    let mut checks = vec![Node::map(vec![("calls_match", Node::map(vec![("calls", calls)]))])];
    let mut actions: Vec<Node> = expected
        .iter()
        .map(|call| {
            let mut entries = vec![("name", call.tool.as_str().into())];
            if !call.arguments.is_empty() {
                entries.push(("arguments", json_node(&Value::Object(call.arguments.clone()))));
            }
            Node::map(vec![("call", Node::map(entries))])
        })
        .collect();
    if expected.is_empty() {
        // Without this check, doing nothing would pass.
        checks.push(Node::map(vec![
            ("answer_matches", "\\S".into()),
            ("label", "an answer that says so".into()),
        ]));
        actions.push(Node::map(vec![("submit", "None of the tools fits.".into())]));
    }
    let turns = max_turns.max(u32::try_from(actions.len() + 1).unwrap_or(u32::MAX));
    Node::map(vec![
        ("id", id.into()),
        ("instruction", text(request)),
        ("max_turns", whole(turns.into())),
        ("env", Node::map(vec![("toolcall", toolcall)])),
        ("checks", NodeValue::List(checks).into()),
        ("oracle", Node::map(vec![("actions", NodeValue::List(actions).into())])),
    ])
}

/// A JSON value whose texts are taken literally, not as templates.
fn json_node(value: &Value) -> Node {
    match value {
        Value::Null => NodeValue::Null.into(),
        Value::Bool(value) => NodeValue::Bool(*value).into(),
        Value::Number(number) => match number.as_i64() {
            Some(number) => NodeValue::Integer(number).into(),
            None => NodeValue::Number(number.as_f64().unwrap_or_default()).into(),
        },
        Value::String(words) => literal(words).as_str().into(),
        Value::Array(values) => NodeValue::List(values.iter().map(json_node).collect()).into(),
        Value::Object(map) => {
            let entries: Vec<(&str, Node)> =
                map.iter().map(|(key, value)| (key.as_str(), json_node(value))).collect();
            Node::map(entries)
        }
    }
}
