//! Oracles and mistakes: sequences of actions that could be played.

use clawrl_core::{Script, Solver, ToolCall};
use serde_json::json;

use super::builder::{TaskBuilder, WrittenJson};
use super::checker::Checker;
use super::environment::Named;
use super::task::Tools;
use crate::bounds;
use crate::file::{ActionFile, Located, ScriptFile, Text, ToolcallFile};
use crate::source::Span;
use crate::suggest::listed;
use crate::value;

/// Tools of a software engineering environment, which a script may call by name.
const SWE_TOOLS: &[&str] = &["bash", "view", "edit"];

/// Tools of a GUI environment.
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

/// One action, and its place.
struct Action<'s> {
    kind: Kind<'s>,
    span: Span,
}

enum Kind<'s> {
    Run(&'s Text),
    Type(&'s Text),
    Keys(&'s Text),
    Wait(f64),
    Signal(&'s Text),
    /// The name is never a template.
    Call {
        name: &'s Text,
        arguments: Option<WrittenJson<'s>>,
    },
    Submit(Option<&'s Text>),
    /// Ends the episode by handing in this file, a unified diff.
    Patch(&'s Text),
}

impl Kind<'_> {
    /// The key in the suite file.
    fn key(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Type(_) => "text",
            Self::Keys(_) => "keys",
            Self::Wait(_) => "wait",
            Self::Signal(_) => "signal",
            Self::Call { .. } => "call",
            Self::Submit(_) => "submit",
            Self::Patch(_) => "patch",
        }
    }
}

impl<'s> TaskBuilder<'_, '_, 's> {
    /// A script, and the turns that it takes with the submit that a scripted policy adds; 0 for a solver. `what` is `oracle` or
    /// `mistake`. `env` is `None` where the task has none, which is a problem of its own.
    pub(super) fn script(
        &mut self,
        script: &'s Located<ScriptFile>,
        what: &str,
        env: Option<&Named>,
        tools: Tools<'_>,
    ) -> Option<(Script, usize)> {
        let Located { value, span } = script;
        let actions: Vec<Action<'s>> = match value {
            ScriptFile::Commands(commands) => commands.iter().map(run).collect(),
            ScriptFile::Fields(fields) => {
                match (&fields.commands, &fields.actions, &fields.patch, &fields.solver) {
                    (None, None, None, Some(solver)) => {
                        return self.solver(solver, env).map(|solver| (Script::Solver(solver), 0));
                    }
                    (Some(commands), None, None, None) => commands.iter().map(run).collect(),
                    (None, Some(actions), None, None) => {
                        actions.iter().filter_map(|action| self.action(action)).collect()
                    }
                    (None, None, Some(patch), None) => {
                        vec![Action { kind: Kind::Patch(patch), span: patch.span }]
                    }
                    _ => {
                        let message =
                            format!("the {what} needs one of `commands`, `actions`, `patch` and `solver`");
                        let help = "write `{ commands: [\"echo hi > out.txt\"] }`, or `{ actions: [{ run: vi a }, { keys: \"Escape : q Enter\" }] }`";
                        self.problem(*span, message, "none, or several", help);
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
            self.problem(*span, message, "no actions", help);
            return None;
        }
        if let Some(env) = env {
            self.playable(&actions, env);
        }
        for (action, next) in actions.iter().zip(actions.iter().skip(1)) {
            if matches!(action.kind, Kind::Submit(_)) {
                let message = "nothing is played after a submit: it ends the episode";
                self.problem(
                    next.span,
                    message,
                    "never played",
                    "move the submit to the end, or remove this",
                );
            }
        }
        let submits = matches!(actions.last().map(|last| &last.kind), Some(Kind::Submit(_) | Kind::Patch(_)));
        let turns = actions.len() + usize::from(!submits);
        let calls = actions.into_iter().filter_map(|action| self.played(action.kind, tools)).collect();
        Some((Script::Calls(calls), turns))
    }

    fn played(&mut self, action: Kind<'s>, tools: Tools<'_>) -> Option<ToolCall> {
        let (name, arguments) = match action {
            Kind::Run(command) => {
                let command = self.text(command)?;
                match tools {
                    Tools::Swe => ("bash", json!({ "command": command })),
                    Tools::Gui => ("act", json!({ "line": command })),
                    _ => ("run", json!({ "command": command })),
                }
            }
            Kind::Type(text) => ("text", json!({ "text": self.text(text)? })),
            Kind::Keys(keys) => ("keys", json!({ "keys": self.ruled(keys, value::keys)? })),
            Kind::Wait(seconds) => ("wait", json!({ "seconds": seconds })),
            Kind::Signal(name) => ("signal", json!({ "name": self.ruled(name, value::signal)? })),
            Kind::Call { name, arguments } => return self.tool_call(name, arguments, tools),
            Kind::Patch(path) => {
                let patch = self.fixture(path, value::file_path, |fixtures, path| fixtures.text(path))?;
                ("submit", json!({ "patch": &*patch }))
            }
            Kind::Submit(None) => ("submit", json!({})),
            Kind::Submit(Some(answer)) => ("submit", json!({ "answer": self.text(answer)? })),
        };
        Some(ToolCall::new(name, arguments))
    }

    fn action(&mut self, action: &'s Located<ActionFile>) -> Option<Action<'s>> {
        let Located { value: action, span } = action;
        let wait = match &action.wait {
            // Problems of the number are reported there.
            Some(wait) => {
                Some(Kind::Wait(self.seconds("wait", Some(wait), bounds::MAX_WAIT_SECS)?.as_secs_f64()))
            }
            None => None,
        };
        let given = [
            action.run.as_ref().map(Kind::Run),
            action.text.as_ref().map(Kind::Type),
            action.keys.as_ref().map(Kind::Keys),
            wait,
            action.signal.as_ref().map(Kind::Signal),
            action.call.as_ref().map(|call| Kind::Call {
                name: &call.name,
                arguments: call.arguments.as_ref().map(WrittenJson::from),
            }),
            action.submit.as_ref().map(|submit| Kind::Submit(submit.0.as_ref())),
        ];
        let mut given: Vec<Kind<'s>> = given.into_iter().flatten().collect();
        match (given.pop(), given.is_empty()) {
            (Some(kind), true) => Some(Action { kind, span: *span }),
            (None, _) => {
                let help = "name one of `run`, `text`, `keys`, `wait`, `signal`, `call` and `submit`";
                self.problem(*span, "this action does nothing", "no kind of action", help);
                None
            }
            (Some(_), false) => {
                let help = "start each action with its own `- `; they are played in order";
                self.problem(*span, "this action is more than one", "several in one", help);
                None
            }
        }
    }
}

impl Checker {
    /// A solver by its name. They read pages.
    fn solver(&mut self, name: &Text, env: Option<&Named>) -> Option<Solver> {
        if !matches!(env, Some(Named::Gui(_)) | None) {
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

    /// Checks that the environment supports every action.
    fn playable(&mut self, actions: &[Action<'_>], env: &Named) {
        for Action { kind: action, span } in actions {
            match (env, action) {
                (Named::Swe(_) | Named::Gui(_), Kind::Call { name, .. }) if name.value == "submit" => {
                    self.submit_by_name(name);
                }
                (Named::Swe(_), Kind::Call { name, .. }) => self.offered_tool(name, SWE_TOOLS),
                (Named::Gui(_), Kind::Call { name, .. }) => self.offered_tool(name, GUI_TOOLS),
                (Named::Gui(_), Kind::Type(_) | Kind::Keys(_) | Kind::Signal(_)) => self.problem(
                    *span,
                    format!("`{}` needs a terminal, and this task has a browser", action.key()),
                    "not for browsers",
                    "write a line: `run: type 3 Ada`, `run: press Ctrl+A`; or `call: { name: click, arguments: { element: 3 } }`",
                ),
                (
                    Named::Swe(_),
                    Kind::Type(_) | Kind::Keys(_) | Kind::Wait(_) | Kind::Signal(_),
                ) => self.problem(
                    *span,
                    format!("`{}` needs a terminal, and this task has a repository", action.key()),
                    "no program is typed into",
                    "write a command, `run: sed -i s/a/b/ x.py`, or `call: { name: edit, arguments: {...} }`",
                ),
                (
                    Named::Terminal(_)
                    | Named::Toolcall(_)
                    | Named::Gui(_)
                    | Named::Process(_)
                    | Named::Http(_)
                    | Named::Openenv(_)
                    | Named::InProcess(_),
                    Kind::Patch(_),
                ) => self.problem(
                        *span,
                        "`patch` needs a software engineering task",
                        "no repository to patch",
                        "write commands or actions, or `env: swe:`",
                    ),
                (Named::Terminal(_), Kind::Call { .. }) => self.problem(
                    *span,
                    "`call` needs a tool-call environment, and this task has a terminal",
                    "no tools to call",
                    "write a command: `run: ls`; or `text`, `keys`, `wait` and `signal`",
                ),
                (Named::Toolcall(toolcall), Kind::Call { name, .. }) => {
                    self.called_tool(name, toolcall)
                }
                (Named::Process(_) | Named::Http(_) | Named::Openenv(_) | Named::InProcess(_), Kind::Call { name, .. }) if name.value == "submit" => {
                    self.submit_by_name(name);
                }
                (Named::Process(_) | Named::Http(_) | Named::Openenv(_) | Named::InProcess(_), other)
                    if !matches!(other, Kind::Call { .. } | Kind::Submit(_)) =>
                {
                    let message = format!(
                        "this action needs a terminal, and this task has an environment of kind `{}`",
                        env.key()
                    );
                    self.problem(
                        *span,
                        message,
                        "no shell here",
                        "write `{ actions: [{ call: { name: TOOL, arguments: {...} } }, { submit: ANSWER }] }`",
                    );
                }
                (Named::Toolcall(toolcall), other) if !matches!(other, Kind::Submit(_)) => {
                    let what = match other {
                        Kind::Run(_) => "a command".to_owned(),
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

    fn called_tool(&mut self, name: &Text, toolcall: &ToolcallFile) {
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
}

fn call_instead(toolcall: &ToolcallFile) -> String {
    let names = listed(toolcall.tool_names());
    let tools = if names.is_empty() { String::new() } else { format!("; tools of this task are {names}") };
    format!(
        "write `{{ actions: [{{ call: {{ name: TOOL, arguments: {{...}} }} }}, {{ submit: ANSWER }}] }}`{tools}"
    )
}

fn run(command: &Text) -> Action<'_> {
    Action { kind: Kind::Run(command), span: command.span }
}
