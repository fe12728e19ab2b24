//! Checks an agent file.
//!
//! I1. One pass finds all mistakes. I2. Files contain names of variables, never values.
//!
//! Errors: [`ConfigError`], each problem with its span. Reads the file; nothing to cancel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clawrl_core::{AgentDoor, AgentLimits};

use super::file::{AgentFile, DoorFile, LimitsFile};
use crate::bounds;
use crate::dialect;
use crate::file::{Located, Text};
use crate::parse::parse;
use crate::problem::{ConfigError, Finding, Findings};
use crate::read::read;
use crate::source::Span;

/// Default maximum number of model answers to one program.
const MODEL_CALLS: u32 = 1_000;

/// Variables that the harness sets for the program.
const OWN: [&str; 4] = ["OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_API_KEY", "HOME"];

/// A checked agent file; the text that names its model is not checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFilePlan {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Absolute.
    pub folder: PathBuf,
    /// Names of variables.
    pub env: Vec<String>,
    /// Names of variables that hold secrets.
    pub secrets: Vec<String>,
    /// Protocol by which the program requests steps.
    pub door: AgentDoor,
    /// In the words of `--policy`; files are relative to [`AgentFilePlan::home`].
    pub model: Option<String>,
    /// The folder of the file, absolute.
    pub home: PathBuf,
    /// Resource limits of the program.
    pub limits: AgentLimits,
}

/// Reads and checks an agent file.
///
/// # Errors
/// A file that cannot be read or has the wrong shape is one problem; otherwise every problem that there is.
pub fn load_agent(path: &Path) -> Result<AgentFilePlan, ConfigError> {
    let source = read(path, &dialect::AGENT)?;
    let file: AgentFile = parse(&source, &dialect::AGENT)?;
    let mut checker = Checker { findings: Findings::new(&source) };
    let plan = checker.plan(file, path);
    checker.findings.finish()?;
    Ok(plan)
}

struct Checker {
    findings: Findings,
}

impl Checker {
    fn problem(&mut self, span: Span, message: impl Into<String>, label: &str, help: impl Into<String>) {
        self.findings.add(span, Finding { message: message.into(), label, help: help.into() });
    }

    fn plan(&mut self, file: AgentFile, path: &Path) -> AgentFilePlan {
        if *file.format < 1 {
            let help = format!("write `format: {}`", bounds::AGENT_FORMAT);
            self.problem(file.format.span, "there is no such format", "not a format", help);
        }
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let home = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        self.command(&file.command);
        let folder = match &file.folder {
            None => home.clone(),
            Some(folder) => {
                let joined = home.join(&folder.value);
                if !joined.is_dir() {
                    let message = format!("`folder` is no folder: {}", joined.display());
                    self.problem(folder.span, message, "not there", "name a folder, relative to this file");
                }
                joined
            }
        };
        if let Some(model) = file.model.as_ref().filter(|model| model.trim().is_empty()) {
            let help = "write `remote:policy.yaml`, `cassette:FILE` or the like, or leave it out";
            self.problem(model.span, "the model has no name", "empty", help);
        }
        AgentFilePlan {
            command: file.command.value.into_iter().map(|word| word.value).collect(),
            folder,
            env: self.names(file.env),
            secrets: self.names(file.secrets),
            door: match file.door {
                Some(DoorFile::Http) => AgentDoor::Http,
                Some(DoorFile::Stdio) | None => AgentDoor::Stdio,
            },
            model: file.model.map(|model| model.value),
            home,
            limits: self.limits(&file.limits.unwrap_or_default()),
        }
    }

    fn command(&mut self, command: &Located<Vec<Text>>) {
        let help = "write the program and its arguments, as in `command: [python3, agent.py]`";
        let Some(program) = command.first() else {
            self.problem(command.span, "`command` names no program", "empty", help);
            return;
        };
        // The program is started through env(1), which would read this as the assignment of a variable.
        if program.is_empty() || program.contains('=') || program.starts_with('-') {
            self.problem(program.span, "this is no program", "not a program", help);
        }
        for word in command.iter().filter(|word| word.contains('\0')) {
            self.problem(word.span, "an argument has a zero byte", "cannot be passed on", "leave it out");
        }
    }

    fn names(&mut self, names: Vec<Text>) -> Vec<String> {
        for name in &names {
            let mut chars = name.chars();
            let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
            if !starts || !chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
                // The text may be a secret that was written here by mistake.
                let help = "write names of variables, as in `env: [PATH]`; their values are taken from where clawrl runs";
                self.problem(name.span, "this is no name of an environment variable", "not a name", help);
            } else if OWN.contains(&name.as_str()) || name.starts_with("CLAWRL_") {
                let message = format!("`{}` is set by clawrl for each attempt", name.value);
                self.problem(name.span, message, "this name", "leave it out");
            }
        }
        names.into_iter().map(|name| name.value).collect()
    }

    fn limits(&mut self, file: &LimitsFile) -> AgentLimits {
        let calls = 1..=bounds::MAX_MODEL_CALLS;
        let model_calls = self.findings.whole("model_calls", file.model_calls.as_ref(), calls, MODEL_CALLS);
        let time = file.time_secs.as_ref().and_then(|seconds| {
            if (0.1..=bounds::MAX_TIMEOUT_SECS).contains(&seconds.value) {
                return Some(Duration::from_secs_f64(seconds.value));
            }
            let message = format!("`time_secs` cannot be {}", seconds.value);
            let help = format!("write seconds from 0.1 to {}", bounds::MAX_TIMEOUT_SECS);
            self.problem(seconds.span, message, "out of bounds", help);
            None
        });
        AgentLimits { time, model_calls }
    }
}
