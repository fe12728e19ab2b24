//! The environment of a task: exactly one kind, with the defaults of that kind laid below.

use super::checker::Checker;
use crate::file::{
    EnvFile, GuiFile, HttpEnvFile, InProcessFile, Located, OpenenvFile, ProcessEnvFile, SweFile,
    TerminalFile, ToolcallFile,
};
use crate::source::Span;
use crate::suggest::{did_you_mean, listed};

/// The one environment that an `env:` names.
#[derive(Debug, Clone)]
pub(crate) enum Named {
    Terminal(Box<TerminalFile>),
    Swe(Box<SweFile>),
    Toolcall(Box<ToolcallFile>),
    Gui(Box<GuiFile>),
    Process(Box<ProcessEnvFile>),
    Http(Box<HttpEnvFile>),
    Openenv(Box<OpenenvFile>),
    InProcess(Box<InProcessFile>),
}

impl Named {
    /// This one, with what it leaves open taken from the defaults. Those of another kind say nothing about it.
    pub(super) fn or(self, defaults: &Self) -> Self {
        match (self, defaults) {
            (Self::Terminal(own), Self::Terminal(below)) => Self::Terminal(Box::new(own.or(below))),
            (Self::Swe(own), Self::Swe(below)) => Self::Swe(Box::new(own.or(below))),
            (Self::Toolcall(own), Self::Toolcall(below)) => Self::Toolcall(Box::new(own.or(below))),
            (Self::Gui(own), Self::Gui(below)) => Self::Gui(Box::new(own.or(below))),
            (Self::Process(own), Self::Process(below)) => Self::Process(Box::new(own.or(below))),
            (Self::Http(own), Self::Http(below)) => Self::Http(Box::new(own.or(below))),
            (Self::Openenv(own), Self::Openenv(below)) => Self::Openenv(Box::new(own.or(below))),
            (Self::InProcess(own), Self::InProcess(below)) => Self::InProcess(Box::new(own.or(below))),
            (own, _) => own,
        }
    }

    /// The key in the suite file.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::Terminal(_) => "terminal",
            Self::Swe(_) => "swe",
            Self::Toolcall(_) => "toolcall",
            Self::Gui(_) => "gui",
            Self::Process(_) => "process",
            Self::Http(_) => "http",
            Self::Openenv(_) => "openenv",
            Self::InProcess(_) => "in_process",
        }
    }
}

impl Checker {
    /// The kind that is named, if any.
    pub(super) fn named_environment(&mut self, env: Located<EnvFile>) -> Option<Named> {
        let Located {
            value: EnvFile { terminal, swe, toolcall, gui, process, http, openenv, in_process },
            span,
        } = env;
        let mut named = [
            terminal.map(|file| Named::Terminal(Box::new(file))),
            swe.map(|file| Named::Swe(Box::new(file))),
            toolcall.map(|file| Named::Toolcall(Box::new(file))),
            gui.map(|file| Named::Gui(Box::new(file))),
            process.map(|file| Named::Process(Box::new(file))),
            http.map(|file| Named::Http(Box::new(file))),
            openenv.map(|file| Named::Openenv(Box::new(file))),
            in_process.map(|file| Named::InProcess(Box::new(file))),
        ]
        .into_iter()
        .flatten();
        let first = named.next();
        if let (Some(first), Some(second)) = (&first, named.next()) {
            let message = format!("`env:` names two environments, `{}` and `{}`", first.key(), second.key());
            let help = "keep one of them; another task may have the other";
            self.problem(span, message, "two in one", help);
        }
        first
    }

    pub(super) fn no_environment(&mut self, span: Span, message: &str) {
        self.problem(
            span,
            message,
            "no environment",
            "write `env: { terminal: {} }` or `env: { toolcall: { tools: {...} } }` here or under `defaults:`",
        );
    }

    /// Refuses the name of a tool that the task does not have.
    pub(super) fn declared_tool(&mut self, name: &str, span: Span, toolcall: &ToolcallFile) -> bool {
        if toolcall.tool(name).is_some() || toolcall.may_be_served(name) {
            return true;
        }
        let served: Vec<String> =
            toolcall.servers().flat_map(|(_, server)| server.names().map(|(_, name)| name)).collect();
        let known: Vec<&str> = toolcall.tool_names().chain(served.iter().map(String::as_str)).collect();
        let help = match known.as_slice() {
            [] => "declare it under `env: toolcall: tools:`".to_owned(),
            known => {
                let names = listed(known.iter().copied());
                format!("{}tools of this task are {names}", did_you_mean(name, known.iter().copied()))
            }
        };
        self.problem(span, format!("there is no tool `{name}` in this task"), "not declared", help);
        false
    }
}
