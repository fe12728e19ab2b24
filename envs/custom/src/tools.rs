//! The tools of an environment, from the answer to its reset.
//!
//! T1. Offered tools have names that every action format and model server accepts, no name twice, and an object for
//! arguments.
//! T2. `submit` is offered as well, unless the environment has a tool of that name itself.

use std::collections::HashSet;

use clawrl_core::{ToolSpec, printable_line};
use serde_json::{Value, json};

use crate::message::{NAME, ToolAnswer};
use crate::peer_error::PeerError;

/// Ends an episode.
pub(crate) const SUBMIT: &str = "submit";

#[derive(Debug, PartialEq)]
pub(crate) struct ToolOffer {
    /// In the environment's order, then `submit`.
    pub(crate) tools: Vec<ToolSpec>,
    /// Whether `submit` is the environment's own.
    pub(crate) own_submit: bool,
}

/// Validates the tools of an answer.
///
/// # Errors
/// [`PeerError`] that says which tool is wrong, and why.
pub(crate) fn offer(answers: Vec<ToolAnswer>) -> Result<ToolOffer, PeerError> {
    let mut tools: Vec<ToolSpec> = answers.into_iter().map(tool).collect::<Result<_, _>>()?;
    let mut names = HashSet::new();
    if let Some(twice) = tools.iter().find(|tool| !names.insert(tool.name.as_str())) {
        return Err(PeerError::protocol(format!("two tools have the name `{}`", twice.name)));
    }
    let mut texts = tools.iter().filter(|tool| tool.text_argument.is_some());
    if let (Some(one), Some(other)) = (texts.next(), texts.next()) {
        let message = format!("`{}` and `{}` both have a `text_argument`; one may", one.name, other.name);
        return Err(PeerError::protocol(message));
    }
    let own_submit = tools.iter().any(|tool| tool.name == SUBMIT);
    if !own_submit {
        tools.push(submit());
    }
    Ok(ToolOffer { tools, own_submit })
}

fn tool(answer: ToolAnswer) -> Result<ToolSpec, PeerError> {
    let ToolAnswer { name, description, parameters, text_argument } = answer;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !(1..=64).contains(&name.len()) || !name.chars().all(allowed) {
        let message = format!(
            "`{}` is not a name for a tool: 1 to 64 letters, digits, `_` and `-`",
            printable_line(&name, NAME)
        );
        return Err(PeerError::protocol(message));
    }
    let parameters = parameters.unwrap_or_else(|| json!({ "type": "object" }));
    if parameters["type"] != "object" {
        let message =
            format!("`parameters` of the tool `{name}` are a JSON schema with `\"type\": \"object\"`");
        return Err(PeerError::protocol(message));
    }
    if let Some(argument) = &text_argument
        && parameters["properties"][argument]["type"] != "string"
    {
        let message = format!("`text_argument` of the tool `{name}` is not a string among its `properties`");
        return Err(PeerError::protocol(message));
    }
    Ok(ToolSpec { name, description, parameters, text_argument })
}

fn submit() -> ToolSpec {
    let parameters: Value = json!({
        "type": "object",
        "properties": { "answer": { "type": "string", "description": "The answer, if one is asked for" } },
        "additionalProperties": false,
    });
    ToolSpec {
        name: SUBMIT.to_owned(),
        description: "Ends the task.".to_owned(),
        parameters,
        text_argument: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tools: Value, expected: Result<&[&str], &str>) {
        let answers: Vec<ToolAnswer> = serde_json::from_value(tools).unwrap();
        match (offer(answers), expected) {
            (Ok(offer), Ok(names)) => {
                let found: Vec<_> = offer.tools.iter().map(|tool| tool.name.as_str()).collect();
                assert_eq!(found, names);
            }
            (Err(PeerError::Wrong { message, .. }), Err(part)) => {
                assert!(message.contains(part), "{message}")
            }
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        }
    }

    #[test]
    fn tools_are_looked_at_before_they_are_offered() {
        check(json!([]), Ok(&["submit"]));
        check(json!([{ "name": "go" }, { "name": "stop" }]), Ok(&["go", "stop", "submit"]));
        check(json!([{ "name": "submit" }]), Ok(&["submit"]));
        check(json!([{ "name": "go" }, { "name": "go" }]), Err("two tools have the name `go`"));
        check(json!([{ "name": "a b" }]), Err("`a b` is not a name"));
        check(json!([{ "name": "go", "parameters": {} }]), Err("`parameters` of the tool `go`"));
        check(json!([{ "name": "go", "text_argument": "x" }]), Err("`text_argument` of the tool `go`"));
        let text = json!({ "type": "object", "properties": { "x": { "type": "string" } } });
        let takes = |name: &str| json!({ "name": name, "parameters": text, "text_argument": "x" });
        check(json!([takes("a"), takes("b")]), Err("`a` and `b` both have"));
        check(json!([takes("a")]), Ok(&["a", "submit"]));
    }
}
