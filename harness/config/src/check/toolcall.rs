//! The tool-call environment of a task: each tool of one kind, with what that kind needs.

use std::time::Duration;

use clawrl_core::{ActionFormat, Limit, Timeouts};
use serde_json::Value;

use super::checker::Checker;
use crate::bounds;
use crate::file::{Entries, Located, Scalar, TableFile, Text, ToolFile, ToolcallFile, WorkspaceFile};
use crate::problem::{Finding, Problem};
use crate::row::{CheckRow, JsonText, ToolKindRow, ToolRow, ToolcallRow};
use crate::source::Span;
use crate::value;

/// Time limit of a call when nothing else is said.
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(10);

impl Checker {
    pub(super) fn toolcall(&mut self, file: ToolcallFile, timeouts: &Timeouts) -> ToolcallRow {
        let tools = file.tools.unwrap_or_default().0;
        let tools: Vec<ToolRow> =
            tools.into_iter().map(|(name, tool)| self.tool(name, tool, timeouts)).collect();
        self.one_takes_text(&tools);
        let mcp = self.servers(file.mcp.unwrap_or_default().0, &tools, timeouts);
        let most = 1..=bounds::MAX_PARALLEL_CALLS;
        let row = ToolcallRow {
            tools,
            mcp,
            workspace: file.workspace.map(|workspace| self.workspace(workspace)),
            needs_sandbox: false,
            observation_chars: self.observation_chars(file.observation_chars.as_ref()),
            max_parallel_calls: self.whole("max_parallel_calls", file.max_parallel_calls.as_ref(), most, 8),
            step_rewards: self.step_rewards(file.step_rewards.unwrap_or_default()),
        };
        self.rewarded_tools_known(&row);
        row
    }

    /// Settles whether there is a sandbox: where a tool or a check needs one.
    pub(super) fn sandbox_for(&mut self, toolcall: &mut ToolcallRow, checks: &[CheckRow]) {
        toolcall.needs_sandbox =
            toolcall.runs_programs() || checks.iter().any(|check| check.kind.needs_sandbox());
        if toolcall.needs_sandbox && toolcall.workspace.is_none() {
            toolcall.workspace = Some(self.workspace(WorkspaceFile::default()));
        }
    }

    /// How replies are read has to suit the tools: without a word about it, it does.
    pub(super) fn format_fits(
        &mut self,
        toolcall: &ToolcallRow,
        given: Option<Span>,
        format: &mut ActionFormat,
    ) {
        let takes_text = toolcall.tools.iter().any(|tool| tool.text_argument.is_some());
        let is_text = matches!(format, ActionFormat::Raw | ActionFormat::Fenced);
        if toolcall.tools.is_empty() && toolcall.mcp.is_empty() || takes_text || !is_text {
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

    fn one_takes_text(&mut self, tools: &[ToolRow]) {
        let mut taking = tools.iter().filter_map(|tool| Some((tool, tool.text_argument.as_ref()?)));
        let Some((first, first_argument)) = taking.next() else { return };
        for (tool, argument) in taking {
            let problem = Problem::new(
                format!("`{}` and `{}` both take plain text", first.name.value, tool.name.value),
                "keep one `text_argument`: a raw reply is the text of one tool",
            )
            .at(&self.findings.source, argument.span, "the second one")
            .and_at(first_argument.span, "the first one");
            self.findings.push(problem);
        }
    }

    /// A tool. With a problem in it, its name stays known.
    fn tool(&mut self, name: Text, file: Located<ToolFile>, timeouts: &Timeouts) -> ToolRow {
        self.named(&name, value::tool_name);
        let file = file.value;
        if let (Some(stdin), None) = (&file.stdin, &file.command) {
            let help = "remove it, or say what runs: `command: [sort]`";
            self.problem(
                stdin.span,
                "`stdin` belongs to `command`, which is not given",
                "nothing reads it",
                help,
            );
        }
        let mut kinds = [
            file.python.map(|_| ToolKindRow::Python),
            file.command.map(|command| self.command_tool(command, file.stdin)),
            file.table.map(|table| self.table(table)),
            file.store.map(|store| ToolKindRow::Store { initial: self.written_entries(store.initial) }),
            file.arithmetic.map(|_| ToolKindRow::Arithmetic),
            file.http.map(|http| self.http_tool(http)),
            file.returns.map(ToolKindRow::Returns),
            file.fails.map(ToolKindRow::Fails),
            file.never.map(|_| ToolKindRow::Never),
        ]
        .into_iter()
        .flatten();
        let kind = kinds.next();
        match (&kind, kinds.next()) {
            (Some(kind), None) => {
                self.described(&name, kind, file.description.as_ref(), file.parameters.as_ref());
            }
            (None, _) => self.problem(
                name.span,
                format!("the tool `{}` has no kind", name.value),
                "does nothing",
                "name one: `python`, `command`, `table`, `store`, `arithmetic`, `http`, `returns`, `fails` or `never`",
            ),
            (Some(one), Some(other)) => {
                let message =
                    format!("the tool `{}` has two kinds, `{}` and `{}`", name.value, one.key(), other.key());
                self.problem(name.span, message, "two in one", "give each its own name under `tools:`");
            }
        }
        // What stands for a kind that is missing asks for nothing.
        let kind = kind.unwrap_or(ToolKindRow::Never);
        let parameters = file.parameters.filter(|_| own_arguments(&kind).is_none());
        ToolRow {
            description: file.description,
            parameters: parameters.map(json_text),
            text_argument: file.text_argument,
            timeout: self.call_timeout(file.timeout_secs.as_ref(), timeouts),
            max_calls: file
                .max_calls
                .map(|most| self.whole("max_calls", Some(&most), 1..=bounds::MAX_CALLS, 1)),
            name,
            kind,
        }
    }

    /// Description and parameters: needed where the kind has none of its own, and parameters refused where it has.
    fn described(
        &mut self,
        name: &Text,
        kind: &ToolKindRow,
        description: Option<&Text>,
        parameters: Option<&Located<Value>>,
    ) {
        let key = kind.key();
        match (own_arguments(kind), parameters) {
            (Some(arguments), Some(parameters)) => {
                let message = format!("tools of kind `{key}` have parameters of their own");
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
        if own_arguments(kind).is_none() && description.is_none() {
            self.problem(
                name.span,
                format!("the tool `{}` has no `description`", name.value),
                "what does it do?",
                "say it in a sentence or two: `description: Lists the files of a folder.`",
            );
        }
    }

    fn command_tool(&mut self, command: Located<Vec<Text>>, stdin: Option<Text>) -> ToolKindRow {
        let span = command.value.first().map_or(command.span, |program| program.span);
        if command.value.first().is_none_or(|program| program.trim().is_empty()) {
            let help = "name a program and its arguments: `command: [wc, -l, \"{path}\"]`";
            self.problem(span, "the command is empty", "nothing to run", help);
        }
        ToolKindRow::Command { argv: command.value, stdin }
    }

    fn table(&mut self, table: TableFile) -> ToolKindRow {
        ToolKindRow::Table { rows: self.written_entries(table.rows), missing: table.missing }
    }

    fn written_entries(&self, entries: Entries<Located<Scalar>>) -> Vec<(Text, Text)> {
        entries.0.into_iter().map(|(key, value)| (key, self.written(value))).collect()
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

/// What the arguments of a kind are, where the kind itself says so.
fn own_arguments(kind: &ToolKindRow) -> Option<&'static str> {
    match kind {
        ToolKindRow::Python => Some("its argument is `code`"),
        ToolKindRow::Table { .. } => Some("its argument is `key`"),
        ToolKindRow::Store { .. } => Some("its arguments are `action`, `key` and `value`"),
        ToolKindRow::Arithmetic => Some("its arguments are `left`, `operator` and `right`"),
        ToolKindRow::Http { .. } => Some("its arguments are `url`, `method`, `body` and `headers`"),
        ToolKindRow::Command { .. }
        | ToolKindRow::Returns(_)
        | ToolKindRow::Fails(_)
        | ToolKindRow::Never => None,
    }
}

/// A JSON value with the place that all of its strings share.
pub(super) fn json_text(value: Located<Value>) -> JsonText {
    JsonText { value: value.value, span: value.span }
}

/// Arguments, as the object that they are.
pub(super) fn arguments_text(arguments: Located<serde_json::Map<String, Value>>) -> JsonText {
    JsonText { value: Value::Object(arguments.value), span: arguments.span }
}
