//! Oracles and mistakes: sequences of actions that could be played.

use clawrl_core::Solver;

use super::checker::Checker;
use super::toolcall::arguments_text;
use crate::bounds;
use crate::file::{ActionFile, Located, ScriptFile, Text};
use crate::row::{ActionRow, EnvRow, ScriptRow, ToolcallRow};
use crate::source::Span;
use crate::suggest::listed;
use crate::value;

/// What a software engineering environment offers, and a script may call by name.
const SWE_TOOLS: &[&str] = &["bash", "view", "edit"];

/// What a GUI environment offers.
const GUI_TOOLS: &[&str] = &[
    "act",
    "click",
    "hover",
    "drag",
    "scroll",
    "type",
    "press",
    "select",
    "upload",
    "navigate",
    "back",
    "tab",
    "dialog",
    "wait",
    "screenshot",
];

impl Checker {
    /// `what` is `oracle` or `mistake`. `env` is `None` where the task has none, which is a problem of its own.
    pub(super) fn script(
        &mut self,
        script: Located<ScriptFile>,
        what: &str,
        env: Option<&EnvRow>,
    ) -> Option<ScriptRow> {
        let Located { value, span } = script;
        let actions: Vec<(ActionRow, _)> = match value {
            ScriptFile::Commands(commands) => commands.into_iter().map(run).collect(),
            ScriptFile::Fields(fields) => {
                match (fields.commands, fields.actions, fields.patch, fields.solver) {
                    (None, None, None, Some(solver)) => {
                        return self.solver(&solver, env).map(ScriptRow::Solver);
                    }
                    (Some(commands), None, None, None) => commands.into_iter().map(run).collect(),
                    (None, Some(actions), None, None) => {
                        actions.into_iter().filter_map(|action| self.action(action)).collect()
                    }
                    (None, None, Some(patch), None) => vec![self.patch_text(&patch)?],
                    _ => {
                        let message =
                            format!("the {what} needs one of `commands`, `actions`, `patch` and `solver`");
                        let help = "write `{ commands: [\"echo hi > out.txt\"] }`, or `{ actions: [{ run: vi a }, { keys: \"Escape : q Enter\" }] }`";
                        self.problem(span, message, "none, or several", help);
                        return None;
                    }
                }
            }
        };
        if actions.is_empty() {
            let message = format!("the {what} is empty");
            let help = if what == "oracle" {
                "list the commands that solve the task, or remove `oracle:`"
            } else {
                "list the commands of a plausible wrong attempt, or remove the entry"
            };
            self.problem(span, message, "no actions", help);
            return None;
        }
        if let Some(env) = env {
            self.playable(&actions, env);
        }
        for ((action, _), (_, next)) in actions.iter().zip(actions.iter().skip(1)) {
            if matches!(action, ActionRow::Submit(_)) {
                let message = "nothing is played after a submit: it ends the episode";
                self.problem(*next, message, "never played", "move the submit to the end, or remove this");
            }
        }
        Some(ScriptRow::Actions(actions.into_iter().map(|(action, _)| action).collect()))
    }

    /// A solver by its name. They read pages.
    fn solver(&mut self, name: &Text, env: Option<&EnvRow>) -> Option<Solver> {
        if !matches!(env, Some(EnvRow::Gui(_)) | None) {
            let help = "list what is to be done, `{ commands: [...] }` or `{ actions: [...] }`, or write `env: gui:`";
            self.problem(name.span, "`solver` needs a browser, and this task has none", "reads pages", help);
            return None;
        }
        let found = Solver::ALL.into_iter().find(|solver| solver.name() == name.value);
        if found.is_none() {
            let help = format!("solvers are {}", listed(Solver::ALL.iter().map(|solver| solver.name())));
            self.problem(name.span, format!("there is no solver `{}`", name.value), "not a solver", help);
        }
        found
    }

    /// Every action is one that the environment takes.
    fn playable(&mut self, actions: &[(ActionRow, Span)], env: &EnvRow) {
        for (action, span) in actions {
            match (env, action) {
                (EnvRow::Swe(_) | EnvRow::Gui(_), ActionRow::Call { name, .. }) if name.value == "submit" => {
                    self.submit_by_name(name);
                }
                (EnvRow::Swe(_), ActionRow::Call { name, .. }) => self.offered_tool(name, SWE_TOOLS),
                (EnvRow::Gui(_), ActionRow::Call { name, .. }) => self.offered_tool(name, GUI_TOOLS),
                (EnvRow::Gui(_), ActionRow::Type(_) | ActionRow::Keys(_) | ActionRow::Signal(_)) => self.problem(
                    *span,
                    format!("`{}` needs a terminal, and this task has a browser", action.key()),
                    "not for browsers",
                    "write a line: `run: type 3 Ada`, `run: press Ctrl+A`; or `call: { name: click, arguments: { element: 3 } }`",
                ),
                (
                    EnvRow::Swe(_),
                    ActionRow::Type(_) | ActionRow::Keys(_) | ActionRow::Wait(_) | ActionRow::Signal(_),
                ) => self.problem(
                    *span,
                    format!("`{}` needs a terminal, and this task has a repository", action.key()),
                    "no program is typed into",
                    "write a command, `run: sed -i s/a/b/ x.py`, or `call: { name: edit, arguments: {...} }`",
                ),
                (
                    EnvRow::Terminal(_) | EnvRow::Toolcall(_) | EnvRow::Gui(_) | EnvRow::Custom(_),
                    ActionRow::Patch(_),
                ) => self.problem(
                        *span,
                        "`patch` needs a software engineering task",
                        "no repository to patch",
                        "write commands or actions, or `env: swe:`",
                    ),
                (EnvRow::Terminal(_), ActionRow::Call { .. }) => self.problem(
                    *span,
                    "`call` needs a tool-call environment, and this task has a terminal",
                    "no tools to call",
                    "write a command: `run: ls`; or `text`, `keys`, `wait` and `signal`",
                ),
                (EnvRow::Toolcall(toolcall), ActionRow::Call { name, .. }) => {
                    self.called_tool(name, toolcall)
                }
                (EnvRow::Custom(_), ActionRow::Call { name, .. }) if name.value == "submit" => {
                    self.submit_by_name(name);
                }
                (EnvRow::Custom(custom), other)
                    if !matches!(other, ActionRow::Call { .. } | ActionRow::Submit(_)) =>
                {
                    let message = format!(
                        "this action needs a terminal, and this task has an environment of kind `{}`",
                        custom.key()
                    );
                    self.problem(
                        *span,
                        message,
                        "no shell here",
                        "write `{ actions: [{ call: { name: TOOL, arguments: {...} } }, { submit: ANSWER }] }`",
                    );
                }
                (EnvRow::Toolcall(toolcall), other) if !matches!(other, ActionRow::Submit(_)) => {
                    let what = match other {
                        ActionRow::Run(_) => "a command".to_owned(),
                        other => format!("`{}`", other.key()),
                    };
                    let message = format!("{what} needs a terminal, and this task has tools");
                    self.problem(*span, message, "no shell here", call_instead(toolcall));
                }
                _ => {}
            }
        }
    }

    fn offered_tool(&mut self, name: &Text, offered: &[&str]) {
        if !offered.contains(&name.value.as_str()) {
            let help = format!("tools of this task are {}", listed(offered.iter().copied()));
            self.problem(name.span, format!("there is no tool `{}`", name.value), "not a tool here", help);
        }
    }

    /// The text of a unified diff, which is handed in as it is.
    fn patch_text(&mut self, path: &Text) -> Option<(ActionRow, Span)> {
        if !self.fixture_path(path, value::file_path) {
            return None;
        }
        match self.fixtures.list(path, bounds::MAX_TEXT_BYTES) {
            Ok((_, text)) => Some((ActionRow::Patch(text), path.span)),
            Err(error) => {
                self.fixture_problem(path.span, error);
                None
            }
        }
    }

    fn called_tool(&mut self, name: &Text, toolcall: &ToolcallRow) {
        if name.value == "submit" && toolcall.tool("submit").is_none() {
            self.submit_by_name(name);
            return;
        }
        self.declared_tool(name, name.span, toolcall);
    }

    fn submit_by_name(&mut self, name: &Text) {
        self.problem(
            name.span,
            "the end of an episode is an action of its own",
            "not called by name",
            "write `submit:` or `submit: ANSWER` instead of `call:`",
        );
    }

    fn action(&mut self, action: Located<ActionFile>) -> Option<(ActionRow, Span)> {
        let Located { value: action, span } = action;
        let wait = match &action.wait {
            // What is wrong with it is reported there.
            Some(wait) => {
                Some(ActionRow::Wait(self.seconds("wait", Some(wait), bounds::MAX_WAIT_SECS)?.as_secs_f64()))
            }
            None => None,
        };
        let given = [
            action.run.map(ActionRow::Run),
            action.text.map(ActionRow::Type),
            action.keys.map(ActionRow::Keys),
            wait,
            action.signal.map(ActionRow::Signal),
            action.call.map(|call| ActionRow::Call {
                name: call.name,
                arguments: call.arguments.map(arguments_text),
            }),
            action.submit.map(|submit| ActionRow::Submit(submit.0)),
        ];
        let mut given: Vec<ActionRow> = given.into_iter().flatten().collect();
        match (given.pop(), given.is_empty()) {
            (Some(action), true) => Some((action, span)),
            (None, _) => {
                let help = "name one of `run`, `text`, `keys`, `wait`, `signal`, `call` and `submit`";
                self.problem(span, "this action does nothing", "no kind of action", help);
                None
            }
            (Some(_), false) => {
                let help = "start each action with its own `- `; they are played in order";
                self.problem(span, "this action is more than one", "several in one", help);
                None
            }
        }
    }
}

fn call_instead(toolcall: &ToolcallRow) -> String {
    let names = listed(toolcall.tools.iter().map(|tool| tool.name.value.as_str()));
    let tools = if names.is_empty() { String::new() } else { format!("; tools of this task are {names}") };
    format!(
        "write `{{ actions: [{{ call: {{ name: TOOL, arguments: {{...}} }} }}, {{ submit: ANSWER }}] }}`{tools}"
    )
}

fn run(command: Text) -> (ActionRow, Span) {
    let span = command.span;
    (ActionRow::Run(command), span)
}
