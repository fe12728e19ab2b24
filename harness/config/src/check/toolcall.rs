//! Checks the tool-call environment of a task: every tool has exactly one kind, and the settings of that kind.

use std::collections::BTreeMap;
use std::time::Duration;

use clawrl_core::{
    ActionFormat, CommandPiece, Limit, PlaceholderError, Timeouts, ToolDecl, ToolKind, ToolcallSpec,
    command_pieces,
};
use serde_json::{Value as Json, json};

use super::builder::{TaskBuilder, WrittenJson};
use super::calls::{argument_names, arguments_words};
use super::checker::Checker;
use crate::bounds;
use crate::file::{Entries, Located, Scalar, Text, ToolFile, ToolcallFile, WorkspaceRef};
use crate::problem::{Finding, Problem};
use crate::source::Span;
use crate::suggest::{did_you_mean, listed};
use crate::value;

/// Default time limit of a call.
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Default error of a table for a missing key.
const DEFAULT_MISSING: &str = "not found";

impl<'s> TaskBuilder<'_, '_, 's> {
    /// The environment, and whether all of its tools are good.
    pub(super) fn toolcall(
        &mut self,
        file: &'s ToolcallFile,
        needs_sandbox: bool,
        timeouts: &Timeouts,
    ) -> (ToolcallSpec, bool) {
        let tools: Option<Vec<ToolDecl>> = file
            .tools()
            .map(|(name, tool)| self.tool(name, tool, timeouts))
            .collect::<Vec<_>>()
            .into_iter()
            .collect();
        self.one_takes_text(file);
        let mcp = self.servers(file, timeouts);
        // Defaults may have workspace settings that some tasks do not need.
        let workspace = file.workspace.as_ref().map(|workspace| self.workspace(workspace.workspace()));
        let workspace = match needs_sandbox {
            true => workspace.or_else(|| Some(self.workspace(WorkspaceRef::default()))),
            false => None,
        };
        let bounds = 1..=bounds::MAX_PARALLEL_CALLS;
        let step_rewards = self.step_rewards(file, tools.as_deref());
        let are_good = tools.is_some();
        let spec = ToolcallSpec {
            tools: tools.unwrap_or_default(),
            mcp,
            workspace,
            observation_chars: self.observation_chars(file.observation_chars.as_ref()),
            max_parallel_calls: self.whole("max_parallel_calls", file.max_parallel_calls.as_ref(), bounds, 8),
            step_rewards,
        };
        (spec, are_good)
    }

    /// The tool, if it is valid.
    fn tool(&mut self, name: &'s Text, file: &'s ToolFile, timeouts: &Timeouts) -> Option<ToolDecl> {
        self.named(name, value::tool_name);
        if let (Some(stdin), None) = (&file.stdin, &file.command) {
            let help = "remove it, or say what runs: `command: [sort]`";
            self.problem(
                stdin.span,
                "`stdin` belongs to `command`, which is not given",
                "nothing reads it",
                help,
            );
        }
        let mut kinds = file.kinds();
        match (kinds.next(), kinds.next()) {
            (Some(kind), None) => self.described(name, kind, file),
            (None, _) => self.problem(
                name.span,
                format!("the tool `{}` has no kind", name.value),
                "does nothing",
                "name one: `python`, `command`, `table`, `store`, `arithmetic`, `http`, `returns`, `fails` or `never`",
            ),
            (Some(one), Some(other)) => {
                let message = format!("the tool `{}` has two kinds, `{one}` and `{other}`", name.value);
                self.problem(name.span, message, "two in one", "give each its own name under `tools:`");
            }
        }
        let timeout = self.call_timeout(file.timeout_secs.as_ref(), timeouts);
        let max_calls = file
            .max_calls
            .as_ref()
            .map(|number| self.whole("max_calls", Some(number), 1..=bounds::MAX_CALLS, 1));
        let kind = self.tool_kind(file);
        let description = match &file.description {
            Some(description) => self.ruled(description, value::not_blank),
            None => kind.as_ref().and_then(ToolKind::own_description).map(str::to_owned),
        };
        let written = file.parameters.as_ref().filter(|_| own_arguments(file.kind()).is_none());
        let parameters = match written {
            Some(parameters) => self.parameters(parameters.into()),
            None => kind.as_ref().and_then(ToolKind::own_parameters),
        };
        let text_argument = self.optional(file.text_argument.as_ref());
        let (kind, parameters) = (kind?, parameters?);
        let are_good = self.placeholders(file, &kind, &parameters);
        let text_argument = text_argument?;
        if let (Some(argument), Some(text)) = (&text_argument, &file.text_argument) {
            self.takes_text(text, argument, &parameters)?;
        }
        let (name, description) = (name.value.clone(), description?);
        are_good.then_some(ToolDecl {
            name,
            description,
            parameters,
            text_argument,
            kind,
            timeout,
            max_calls,
        })
    }

    fn tool_kind(&mut self, file: &'s ToolFile) -> Option<ToolKind> {
        Some(if file.python.is_some() {
            ToolKind::Python
        } else if let Some(command) = &file.command {
            self.names_a_program(
                command,
                "name a program and its arguments: `command: [wc, -l, \"{path}\"]`",
            );
            let argv: Vec<_> = command.iter().map(|entry| self.text(entry)).collect();
            let stdin = self.optional(file.stdin.as_ref());
            ToolKind::Command { argv: argv.into_iter().collect::<Option<_>>()?, stdin: stdin? }
        } else if let Some(table) = &file.table {
            let rows = self.unique_entries(&table.rows);
            let missing = self.optional(table.missing.as_ref());
            ToolKind::Table { rows: rows?, missing: missing?.unwrap_or_else(|| DEFAULT_MISSING.to_owned()) }
        } else if let Some(store) = &file.store {
            ToolKind::Store { initial: self.unique_entries(&store.initial)? }
        } else if file.arithmetic.is_some() {
            ToolKind::Arithmetic
        } else if let Some(http) = &file.http {
            self.http_tool(http)
        } else if let Some(text) = &file.returns {
            ToolKind::Returns { text: self.text(text)? }
        } else if let Some(text) = &file.fails {
            ToolKind::Fails { message: self.text(text)? }
        } else {
            ToolKind::Never
        })
    }

    /// Keys and values, no key twice.
    fn unique_entries(&mut self, written: &'s Entries<Located<Scalar>>) -> Option<BTreeMap<String, String>> {
        let filled: Vec<_> = written
            .0
            .iter()
            .map(|(key, value)| (key, self.text(key), self.text(self.written(value))))
            .collect();
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
    fn parameters(&mut self, written: WrittenJson<'s>) -> Option<Json> {
        let schema = self.json(written)?;
        self.schema(written, &schema)?;
        if schema["type"] != json!("object") {
            let message = "the arguments of a call are an object, and this schema does not say so".to_owned();
            let help = "write `type: object` at its top, with the arguments under `properties:`";
            self.found_in(written, "/type", message, "not an object", help);
            return None;
        }
        Some(schema)
    }

    /// Checks that the placeholders of a command name arguments of the tool.
    fn placeholders(&mut self, file: &'s ToolFile, kind: &ToolKind, parameters: &Json) -> bool {
        let (Some(command), ToolKind::Command { argv, stdin }) = (&file.command, kind) else { return true };
        let mut good = true;
        for (text, filled) in command.iter().chain(&file.stdin).zip(argv.iter().chain(stdin)) {
            match command_pieces(filled) {
                Ok(pieces) => {
                    for piece in pieces {
                        if let CommandPiece::Argument(name) = piece {
                            good &= self.placeholder(text, name, parameters).is_some();
                        }
                    }
                }
                Err(error) => {
                    self.bad_braces(text, error);
                    good = false;
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
}

impl Checker {
    /// Checks that the action format suits the tools. If it was not written, chooses one that does.
    pub(super) fn format_fits(
        &mut self,
        toolcall: &ToolcallFile,
        given: Option<Span>,
        format: &mut ActionFormat,
    ) {
        let takes_text = toolcall.tools().any(|(_, tool)| tool.text_argument.is_some());
        let is_text = matches!(format, ActionFormat::Raw | ActionFormat::Fenced);
        let has_none = toolcall.tools().next().is_none() && toolcall.servers().next().is_none();
        if has_none || takes_text || !is_text {
            return;
        }
        let Some(span) = given else {
            *format = ActionFormat::Hermes;
            return;
        };
        let finding = Finding {
            message: "replies are read as plain text, which no tool of this task takes".to_owned(),
            label: "only `submit` can be said like this",
            help: "write `action_format: hermes` or `tool_calls`, or give a tool a `text_argument`"
                .to_owned(),
        };
        self.findings.warn(span, finding);
    }

    fn one_takes_text(&mut self, toolcall: &ToolcallFile) {
        let mut taking =
            toolcall.tools().filter_map(|(name, tool)| Some((name, tool.text_argument.as_ref()?)));
        let Some((first, first_argument)) = taking.next() else { return };
        for (name, argument) in taking {
            let problem = Problem::new(
                format!("`{}` and `{}` both take plain text", first.value, name.value),
                "keep one `text_argument`: a raw reply is the text of one tool",
            )
            .at(&self.findings.source, argument.span, "the second one")
            .and_at(first_argument.span, "the first one");
            self.findings.push(problem);
        }
    }

    /// Refuses a command without a program.
    pub(super) fn names_a_program(&mut self, command: &Located<Vec<Text>>, help: &str) {
        let program = command.value.first();
        if program.is_none_or(|program| program.trim().is_empty()) {
            let span = program.map_or(command.span, |program| program.span);
            self.problem(span, "the command is empty", "nothing to run", help);
        }
    }

    /// Description and parameters: required if the kind does not have its own, parameters refused if it has.
    fn described(&mut self, name: &Text, kind: &str, file: &ToolFile) {
        match (own_arguments(kind), &file.parameters) {
            (Some(arguments), Some(parameters)) => {
                let message = format!("tools of kind `{kind}` have parameters of their own");
                let help = format!("remove `parameters:`; {arguments}");
                self.problem(parameters.span, message, "already settled", help);
            }
            (None, None) => self.problem(
                name.span,
                format!("the tool `{}` has no `parameters`", name.value),
                "what does a call say?",
                "add a JSON schema of the arguments, such as `parameters: { type: object, properties: { path: { type: \
                 string } }, required: [path] }`; `{ type: object }` for none",
            ),
            (Some(_), None) | (None, Some(_)) => {}
        }
        if own_arguments(kind).is_none() && file.description.is_none() {
            self.problem(
                name.span,
                format!("the tool `{}` has no `description`", name.value),
                "what does it do?",
                "say it in a sentence or two: `description: Lists the files of a folder.`",
            );
        }
    }

    pub(super) fn call_timeout(&mut self, number: Option<&Located<f64>>, timeouts: &Timeouts) -> Duration {
        let given = self.seconds("timeout_secs", number, bounds::MAX_TIMEOUT_SECS);
        if let (Some(given), Some(number)) = (given, number)
            && given > timeouts.step
        {
            let step = timeouts.step.as_secs_f64();
            let message =
                format!("`timeout_secs` is {}, longer than a whole step may take ({step} s)", number.value);
            let help = format!("lower it, or write `{}: {}` or more", Limit::Step.key(), number.value);
            self.problem(number.span, message, "can never fire", help);
        }
        given.unwrap_or(DEFAULT_CALL_TIMEOUT.min(timeouts.step))
    }
}

/// The arguments of a kind of tool that has its own.
fn own_arguments(kind: &str) -> Option<&'static str> {
    match kind {
        "python" => Some("its argument is `code`"),
        "table" => Some("its argument is `key`"),
        "store" => Some("its arguments are `action`, `key` and `value`"),
        "arithmetic" => Some("its arguments are `left`, `operator` and `right`"),
        "http" => Some("its arguments are `url`, `method`, `body` and `headers`"),
        _ => None,
    }
}
