//! Calls of tools, by scripts and as checks look for them, against the parameters of the tools.

use clawrl_core::{CallPattern, ToolCall, ToolDecl};
use serde_json::{Map, Value as Json, json};

use super::builder::{TaskBuilder, WrittenJson};
use super::task::Tools;
use crate::file::{CallFile, Located, Text};
use crate::suggest::{did_you_mean, listed};
use crate::text::is_template;

impl<'s> TaskBuilder<'_, '_, 's> {
    /// A call of a script, held against the schema of its tool.
    pub(super) fn tool_call(
        &mut self,
        name: &'s Text,
        arguments: Option<WrittenJson<'s>>,
        tools: Tools<'_>,
    ) -> Option<ToolCall> {
        let filled = match arguments {
            Some(arguments) => self.json(arguments)?,
            None => Json::Object(Map::new()),
        };
        // The tools of a server, or of an environment that lists its own, are known only at run time.
        let Some(tool) = tools.declared().and_then(|tools| tools.iter().find(|tool| tool.name == name.value))
        else {
            return Some(ToolCall::new(&name.value, filled));
        };
        if let Some((reason, pointer)) = self.misfit(&tool.parameters, &filled) {
            let message = format!("this call does not fit the tool `{}`: {reason}", name.value);
            let help = arguments_words(&argument_names(&tool.parameters));
            match arguments {
                Some(written) => {
                    let help = format!("{help}{}", conversion_words(written, &pointer));
                    self.found_in(written, &pointer, message, "not accepted", &help);
                }
                None => self.found(name.span, message, "without arguments", &help),
            }
            return None;
        }
        Some(ToolCall::new(&name.value, filled))
    }

    /// A call that is looked for.
    pub(super) fn call_pattern(
        &mut self,
        call: &'s Located<CallFile>,
        tools: Option<&[ToolDecl]>,
    ) -> CallPattern {
        match &call.value {
            CallFile::Tool(tool) => CallPattern { tool: tool.clone(), arguments: Map::new() },
            CallFile::Fields(fields) => {
                self.pattern(&fields.tool, fields.arguments.as_ref().map(WrittenJson::from), tools)
            }
        }
    }

    /// A call of this tool with at least these arguments. `tools` is `None` if one of them is wrong.
    pub(super) fn pattern(
        &mut self,
        tool: &'s Text,
        arguments: Option<WrittenJson<'s>>,
        tools: Option<&[ToolDecl]>,
    ) -> CallPattern {
        let arguments = arguments.and_then(|written| {
            let Json::Object(filled) = self.json(written)? else { return None };
            let decl = tools?.iter().find(|decl| decl.name == tool.value);
            if let Some(decl) = decl {
                self.can_have(written, decl, &filled);
            }
            Some(filled)
        });
        CallPattern { tool: tool.value.clone(), arguments: arguments.unwrap_or_default() }
    }

    /// Reports arguments that no call of the tool has.
    fn can_have(&mut self, written: WrittenJson<'_>, decl: &ToolDecl, filled: &Map<String, Json>) {
        let known = argument_names(&decl.parameters);
        let is_unknown = |name: &&String| !known.contains(&name.as_str()) && !is_open(&decl.parameters);
        if let Some(name) = filled.keys().find(is_unknown) {
            let message = format!("the tool `{}` has no argument `{name}`", decl.name);
            let help = format!("{}{}", did_you_mean(name, known.iter().copied()), arguments_words(&known));
            self.found_in(written, &format!("/{}", escaped(name)), message, "never in a call", &help);
            return;
        }
        let mut some_arguments = decl.parameters.clone();
        if let Some(schema) = some_arguments.as_object_mut() {
            schema.remove("required");
        }
        if let Some((reason, pointer)) = self.misfit(&some_arguments, &Json::Object(filled.clone())) {
            let message = format!("no call of the tool `{}` is like this: {reason}", decl.name);
            let words = arguments_words(&known);
            let help = format!("{words}{}", conversion_words(written, &pointer));
            self.found_in(written, &pointer, message, "never in a call", &help);
        }
    }
}

pub(super) fn argument_names(parameters: &Json) -> Vec<&str> {
    parameters["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// Whether a schema explicitly allows arguments besides those under `properties`, or has no `properties`. A schema that lists some
/// arguments and does not mention others also allows them, but then an unlisted name is more likely a mistake.
pub(super) fn is_open(parameters: &Json) -> bool {
    let says = |key: &str| parameters.get(key).is_some_and(|value| *value != json!(false));
    if parameters.get("properties").is_none() && parameters.get("additionalProperties") != Some(&json!(false))
    {
        return true;
    }
    [
        "additionalProperties",
        "patternProperties",
        "unevaluatedProperties",
        "$ref",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
    ]
    .into_iter()
    .any(says)
}

pub(super) fn arguments_words(names: &[&str]) -> String {
    match names {
        [] => "the tool has no arguments".to_owned(),
        names => format!("arguments of the tool are {}", listed(names.iter().copied())),
    }
}

/// Advice on how to write an expression of the required type: a value that consists of one expression has the expression's type.
fn conversion_words(written: WrittenJson<'_>, pointer: &str) -> &'static str {
    match written.value.pointer(pointer) {
        Some(Json::String(text)) if is_template(text) => {
            "; in a template, `| string` makes a text of a number, and `| int` a number of a text"
        }
        _ => "",
    }
}

/// A key as a part of a JSON pointer.
pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
