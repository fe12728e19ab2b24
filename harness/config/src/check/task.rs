//! From a row and chosen values to a task.

use std::time::Duration;

use clawrl_core::{ActionFormat, Check, CheckSpec, EnvSpec, Script, TaskSpec, ToolDecl, asked_by_pages};
use minijinja::Value;

use super::builder::TaskBuilder;
use super::environment::Named;
use super::row::Row;
use super::verifier::Around;

/// Default time for grading with a judge: reasoning models take minutes.
const JUDGING: Duration = Duration::from_secs(300);

/// Knowledge of a task's tools before the task runs.
#[derive(Clone, Copy)]
pub(super) enum Tools<'a> {
    Declared(&'a [ToolDecl]),
    /// Those of every software engineering environment.
    Swe,
    /// Those of every GUI environment.
    Gui,
    /// The environment lists them when an episode begins.
    ToldAtReset,
    /// The task lacks tools, or one of them is wrong.
    Unknown,
}

impl<'a> Tools<'a> {
    pub(super) fn declared(self) -> Option<&'a [ToolDecl]> {
        match self {
            Self::Declared(tools) => Some(tools),
            Self::Swe | Self::Gui | Self::ToldAtReset | Self::Unknown => None,
        }
    }
}

impl<'s> TaskBuilder<'_, '_, 's> {
    /// The question to the policy, on which alone the split depends.
    pub(crate) fn asked(&mut self, row: &'s Row, values: &Value) -> Option<String> {
        self.fill_in(values);
        let instruction = self.text(&row.instruction)?;
        let Named::Gui(gui) = &row.env else { return Some(instruction) };
        let start = self.start(gui)?;
        Some(asked_by_pages(&instruction, &start, &self.texts(gui.prepare.as_deref().unwrap_or_default())))
    }

    /// Builds the task. The result is valid only if no problem was reported.
    pub(crate) fn task(
        &mut self,
        suite: &str,
        row: &'s Row,
        index: Option<usize>,
        values: &Value,
    ) -> TaskSpec {
        self.fill_in(values);
        let mut settings = row.settings.clone();
        let instruction = self.text(&row.instruction).unwrap_or_default();
        if row.instruction.trim().is_empty() {
            let help = "say what the policy is asked to do: `instruction: Write hello into out.txt.`";
            self.problem(row.instruction.span, "the instruction is empty", "no words here", help);
        }
        // Unless there is exactly one environment, mismatches between it and checks or actions cannot be reported.
        let known = row.known_env();
        let mut verifier = None;
        let mut tools_are_good = false;
        let env = match &row.env {
            Named::Terminal(file) => {
                let terminal = self.terminal(file, &settings.timeouts);
                let around = Around {
                    sandbox: terminal.sandbox,
                    network: terminal.network,
                    image: terminal.image.as_ref(),
                    grade_given: row.given.grade,
                };
                let written = file.verifier.as_ref();
                verifier = written.map(|verifier| self.verifier(verifier, around, &mut settings.timeouts));
                EnvSpec::Terminal(terminal)
            }
            Named::Swe(file) => {
                EnvSpec::Swe(Box::new(self.swe(file, row.place, row.given, &mut settings.timeouts)))
            }
            Named::Toolcall(file) => {
                let needs_sandbox = row.checks_need_sandbox || file.runs_programs();
                let (toolcall, good) = self.toolcall(file, needs_sandbox, &settings.timeouts);
                tools_are_good = good;
                self.format_fits(file, row.given.action_format, &mut settings.action_format);
                EnvSpec::Toolcall(toolcall)
            }
            Named::Gui(file) => EnvSpec::Gui(Box::new(self.gui(file, row.place))),
            Named::Process(file) => EnvSpec::Custom(self.process_env(file, row.place)),
            Named::Http(file) => EnvSpec::Custom(self.http_env(file, row.place)),
            Named::Openenv(file) => EnvSpec::Custom(self.openenv(file, row.place)),
            Named::InProcess(file) => EnvSpec::InProcess(self.in_process(file, row.place)),
        };
        let tools = match &env {
            EnvSpec::Toolcall(toolcall) if tools_are_good => Tools::Declared(&toolcall.tools),
            EnvSpec::Swe(_) => Tools::Swe,
            EnvSpec::Gui(_) => Tools::Gui,
            EnvSpec::Custom(_) | EnvSpec::InProcess(_) => Tools::ToldAtReset,
            _ => Tools::Unknown,
        };
        // By default, replies are read so that they can call any tool.
        if matches!(env, EnvSpec::Custom(_)) && row.given.action_format.is_none() {
            settings.action_format = ActionFormat::Hermes;
        }
        let grades_itself = matches!(env, EnvSpec::Custom(_) | EnvSpec::InProcess(_) | EnvSpec::Swe(_));
        let graded_otherwise = verifier.is_some() || grades_itself;
        let checks: Vec<CheckSpec> = self.checks(row, graded_otherwise, tools, &settings.timeouts);
        let asks_judge = checks.iter().any(|check| matches!(check.check, Check::Rubric { .. }));
        if asks_judge && !row.given.grade {
            settings.timeouts.grade = settings.timeouts.grade.max(JUDGING);
        }
        let oracle = row.oracle.as_ref().and_then(|script| self.script(script, "oracle", known, tools));
        if let Some((_, turns)) = oracle
            && turns > settings.max_turns as usize
        {
            let max_turns = settings.max_turns;
            let message =
                format!("the oracle needs {turns} turns with its submit, `max_turns` is {max_turns}");
            let help = format!("write `max_turns: {turns}` or more, or shorten the oracle");
            self.problem(row.id.span, message, "in this task", help);
        }
        let mistakes = row.mistakes.iter().filter_map(|script| self.script(script, "mistake", known, tools));
        let mistakes: Vec<Script> = mistakes.map(|(script, _)| script).collect();
        TaskSpec {
            id: row.task_id(suite, index),
            suite: suite.to_owned(),
            family: row.id.value.clone(),
            instruction,
            env,
            checks,
            verifier,
            reward: settings.reward,
            oracle: oracle.map(|(script, _)| script),
            mistakes,
            action_format: settings.action_format,
            max_turns: settings.max_turns,
            timeouts: settings.timeouts,
        }
    }
}
