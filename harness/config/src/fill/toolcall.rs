//! Tool-call environments: tools, their parameters, and the calls that scripts make.

use std::collections::BTreeMap;

use clawrl_core::{
    CommandPiece, PlaceholderError, ToolCall, ToolDecl, ToolKind, ToolcallSpec, command_pieces,
};
use minijinja::Value;
use serde_json::{Map, Value as Json, json};

use super::filler::Filler;
use crate::file::Text;
use crate::row::{JsonText, ToolKindRow, ToolRow, ToolcallRow};
use crate::suggest::{did_you_mean, listed};
use crate::text::is_template;
use crate::value;

/// The error of a table for what is not in it, when nothing else is said.
const DEFAULT_MISSING: &str = "not found";

impl<'s> Filler<'_, '_, 's> {
    pub(super) fn toolcall(&mut self, row: &'s ToolcallRow, values: &Value) -> Option<ToolcallSpec> {
        let tools: Vec<_> = row.tools.iter().map(|tool| self.tool(tool, values)).collect();
        let mcp: Vec<_> = row.mcp.iter().map(|server| self.server(server, values)).collect();
        let workspace = match &row.workspace {
            Some(workspace) => self.workspace(workspace, values).map(Some),
            None => Some(None),
        };
        let tools: Option<Vec<ToolDecl>> = tools.into_iter().collect();
        let step_rewards = self.step_rewards(&row.step_rewards, tools.as_deref(), values);
        Some(ToolcallSpec {
            tools: tools?,
            mcp: mcp.into_iter().collect::<Option<_>>()?,
            // What was written for tasks that need one may stand in the defaults of tasks that do not.
            workspace: workspace?.filter(|_| row.needs_sandbox),
            observation_chars: row.observation_chars,
            max_parallel_calls: row.max_parallel_calls,
            step_rewards: step_rewards?,
        })
    }

    fn tool(&mut self, row: &'s ToolRow, values: &Value) -> Option<ToolDecl> {
        let kind = self.tool_kind(&row.kind, values);
        let description = match &row.description {
            Some(description) => self.ruled(description, values, value::not_blank),
            None => kind.as_ref().and_then(ToolKind::own_description).map(str::to_owned),
        };
        let parameters = match &row.parameters {
            Some(parameters) => self.parameters(parameters, values),
            None => kind.as_ref().and_then(ToolKind::own_parameters),
        };
        let text_argument = self.optional(row.text_argument.as_ref(), values);
        let (kind, parameters) = (kind?, parameters?);
        let placeholders = self.placeholders(&row.kind, &kind, &parameters);
        let text_argument = text_argument?;
        if let (Some(argument), Some(text)) = (&text_argument, &row.text_argument) {
            self.takes_text(text, argument, &parameters)?;
        }
        placeholders?;
        Some(ToolDecl {
            name: row.name.value.clone(),
            description: description?,
            parameters,
            text_argument,
            kind,
            timeout: row.timeout,
            max_calls: row.max_calls,
        })
    }

    fn tool_kind(&mut self, row: &'s ToolKindRow, values: &Value) -> Option<ToolKind> {
        Some(match row {
            ToolKindRow::Python => ToolKind::Python,
            ToolKindRow::Command { argv, stdin } => {
                let argv: Vec<_> = argv.iter().map(|entry| self.text(entry, values)).collect();
                let stdin = self.optional(stdin.as_ref(), values);
                ToolKind::Command { argv: argv.into_iter().collect::<Option<_>>()?, stdin: stdin? }
            }
            ToolKindRow::Table { rows, missing } => {
                let rows = self.entries(rows, values);
                let missing = self.optional(missing.as_ref(), values);
                ToolKind::Table {
                    rows: rows?,
                    missing: missing?.unwrap_or_else(|| DEFAULT_MISSING.to_owned()),
                }
            }
            ToolKindRow::Store { initial } => ToolKind::Store { initial: self.entries(initial, values)? },
            ToolKindRow::Arithmetic => ToolKind::Arithmetic,
            ToolKindRow::Http { allow, methods, headers, allow_headers } => ToolKind::Http {
                allow: allow.clone(),
                methods: methods.clone(),
                headers: self.sources(headers, values)?,
                allow_headers: allow_headers.clone(),
            },
            ToolKindRow::Returns(text) => ToolKind::Returns { text: self.text(text, values)? },
            ToolKindRow::Fails(text) => ToolKind::Fails { message: self.text(text, values)? },
            ToolKindRow::Never => ToolKind::Never,
        })
    }

    /// Keys and values, no key twice.
    fn entries(&mut self, rows: &'s [(Text, Text)], values: &Value) -> Option<BTreeMap<String, String>> {
        let filled: Vec<_> =
            rows.iter().map(|(key, text)| (key, self.text(key, values), self.text(text, values))).collect();
        let mut entries = BTreeMap::new();
        for (text, key, value) in filled {
            let (key, value) = (key?, value?);
            if entries.contains_key(&key) {
                let message = format!("two entries have the key `{key}`");
                self.found(text.span, message, "the second one", "give one of them another key");
                return None;
            }
            entries.insert(key, value);
        }
        Some(entries)
    }

    /// A schema of arguments, which are an object.
    fn parameters(&mut self, written: &'s JsonText, values: &Value) -> Option<Json> {
        let schema = self.json(written, values)?;
        self.schema(written, &schema)?;
        if schema["type"] != json!("object") {
            let message = "the arguments of a call are an object, and this schema does not say so".to_owned();
            let help = "write `type: object` at its top, with the arguments under `properties:`";
            self.found_in(written, "/type", message, "not an object", help);
            return None;
        }
        Some(schema)
    }

    /// The placeholders of a command name arguments of its calls.
    fn placeholders(&mut self, row: &'s ToolKindRow, kind: &ToolKind, parameters: &Json) -> Option<()> {
        let (ToolKindRow::Command { argv, stdin }, ToolKind::Command { argv: filled, stdin: filled_stdin }) =
            (row, kind)
        else {
            return Some(());
        };
        let mut good = Some(());
        for (text, filled) in argv.iter().chain(stdin).zip(filled.iter().chain(filled_stdin)) {
            match command_pieces(filled) {
                Ok(pieces) => {
                    for piece in pieces {
                        if let CommandPiece::Argument(name) = piece {
                            good = good.and(self.placeholder(text, name, parameters));
                        }
                    }
                }
                Err(error) => {
                    self.bad_braces(text, error);
                    good = None;
                }
            }
        }
        good
    }

    fn placeholder(&mut self, text: &Text, name: &str, parameters: &Json) -> Option<()> {
        let known = argument_names(parameters);
        if known.contains(&name) {
            return Some(());
        }
        let message = format!("`{{{name}}}` stands for an argument that the tool does not have");
        let help = format!(
            "{}{}; for braces as text, write `{{% raw %}}{{{{{name}}}}}{{% endraw %}}`",
            did_you_mean(name, known.iter().copied()),
            arguments_words(&known),
        );
        self.found(text.span, message, "not under `properties`", &help);
        None
    }

    fn bad_braces(&mut self, text: &Text, error: PlaceholderError) {
        let help = "`{name}` stands for an argument of the call; for braces as text, double them, which a template \
                    takes as `{% raw %}{{...}}{% endraw %}`";
        self.found(text.span, format!("{error} in this command"), "half a placeholder", help);
    }

    /// The whole text of a reply can be this argument: a string, and all that a call needs.
    fn takes_text(&mut self, text: &Text, argument: &str, parameters: &Json) -> Option<()> {
        let known = argument_names(parameters);
        if !known.contains(&argument) {
            let message = format!("there is no argument `{argument}`");
            let help =
                format!("{}{}", did_you_mean(argument, known.iter().copied()), arguments_words(&known));
            self.found(text.span, message, "not under `properties`", &help);
            return None;
        }
        if parameters["properties"][argument]["type"] != json!("string") {
            let message = format!("the argument `{argument}` takes no text");
            let help =
                format!("write `type: string` under `properties: {argument}:`, or name another argument");
            self.found(text.span, message, "not a string", &help);
            return None;
        }
        let required = parameters["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
        let others: Vec<&str> = required.filter(|&name| name != argument).collect();
        if !others.is_empty() {
            let message = format!("a text alone is no call: {} is required too", listed(others));
            let help = "remove `text_argument`, or take the others out of `required:`";
            self.found(text.span, message, "not all that is needed", help);
            return None;
        }
        Some(())
    }

    /// A call of a script, held against the schema of its tool. `tools` is `None` where they could not be filled.
    pub(super) fn tool_call(
        &mut self,
        name: &Text,
        arguments: Option<&'s JsonText>,
        tools: Option<&[ToolDecl]>,
        values: &Value,
    ) -> Option<ToolCall> {
        let filled = match arguments {
            Some(arguments) => self.json(arguments, values)?,
            None => Json::Object(Map::new()),
        };
        // What a server will turn out to have is not known here.
        let Some(tool) = tools?.iter().find(|tool| tool.name == name.value) else {
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

    /// A call of a script whose tools are not known yet.
    pub(super) fn any_call(
        &mut self,
        name: &Text,
        arguments: Option<&'s JsonText>,
        values: &Value,
    ) -> Option<ToolCall> {
        let filled = match arguments {
            Some(arguments) => self.json(arguments, values)?,
            None => Json::Object(Map::new()),
        };
        Some(ToolCall::new(&name.value, filled))
    }

    /// Arguments that a call is looked for by.
    pub(super) fn looked_for(
        &mut self,
        tool: &Text,
        arguments: Option<&'s JsonText>,
        tools: Option<&[ToolDecl]>,
        values: &Value,
    ) -> Option<Map<String, Json>> {
        let Some(written) = arguments else { return Some(Map::new()) };
        let Json::Object(filled) = self.json(written, values)? else { return None };
        let Some(decl) = tools?.iter().find(|decl| decl.name == tool.value) else { return Some(filled) };
        let known = argument_names(&decl.parameters);
        let is_unknown = |name: &&String| !known.contains(&name.as_str()) && !is_open(&decl.parameters);
        if let Some(name) = filled.keys().find(is_unknown) {
            let message = format!("the tool `{}` has no argument `{name}`", tool.value);
            let help = format!("{}{}", did_you_mean(name, known.iter().copied()), arguments_words(&known));
            self.found_in(written, &format!("/{}", escaped(name)), message, "never in a call", &help);
            return None;
        }
        let mut some_arguments = decl.parameters.clone();
        if let Some(schema) = some_arguments.as_object_mut() {
            schema.remove("required");
        }
        let filled = Json::Object(filled);
        if let Some((reason, pointer)) = self.misfit(&some_arguments, &filled) {
            let message = format!("no call of the tool `{}` is like this: {reason}", tool.value);
            let words = arguments_words(&known);
            let help = format!("{words}{}", conversion_words(written, &pointer));
            self.found_in(written, &pointer, message, "never in a call", &help);
            return None;
        }
        match filled {
            Json::Object(filled) => Some(filled),
            _ => None,
        }
    }
}

pub(super) fn argument_names(parameters: &Json) -> Vec<&str> {
    parameters["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// Whether a schema says that there may be arguments besides those under `properties`, or has no `properties`. One that lists some and
/// says nothing about others allows them, too, but there a name that it does not list is more likely a mistake.
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

/// How an expression gives what is wanted: a value that is one expression has the expression's type.
fn conversion_words(written: &JsonText, pointer: &str) -> &'static str {
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
