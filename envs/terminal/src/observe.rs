//! Converts a step of the shell to the policy's observation and the record's facts.
//!
//! The text is the output, then one line in brackets that says how the step ended: `[exit 0]`, `[still running]`. The
//! same line always has the same meaning, so that a policy can learn it.

use std::fmt::Display;

use clawrl_core::{MalformedAction, Observation, Part, StepResult, StopReason};
use clawrl_sandbox::{StepEnd, StepNote, StepOutput};
use serde_json::{Map, Value};

/// The observation after some calls of one action.
#[derive(Debug, Default)]
pub struct Observed {
    texts: Vec<String>,
    full_texts: Vec<String>,
    facts: Map<String, Value>,
    cut: bool,
    end: Option<StopReason>,
}

impl Observed {
    /// Whether the episode ended, so that further calls of the action are not run.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.end.is_some()
    }

    /// Records the submission.
    pub fn submitted(&mut self) {
        self.end = Some(StopReason::Submitted);
    }

    /// Records a call that could not be parsed; nothing was done.
    pub fn refused(&mut self, error: &MalformedAction) {
        self.push(format!("[error: {error}]"), None);
        self.facts.insert("refused".to_owned(), error.reason.clone().into());
    }

    /// Records a call that could not be done.
    pub fn not_done(&mut self, error: &dyn Display) {
        self.push(format!("[error: {error}]"), None);
        self.facts.insert("refused".to_owned(), error.to_string().into());
    }

    /// Records a step of the shell.
    pub fn step(&mut self, output: StepOutput) {
        let ending = match output.end {
            StepEnd::Completed { exit_code: Some(code) } => {
                self.facts.insert("exit_code".to_owned(), code.into());
                format!("[exit {code}]")
            }
            StepEnd::Completed { exit_code: None } => {
                self.facts.insert("exit_code".to_owned(), Value::Null);
                "[exit unknown]".to_owned()
            }
            StepEnd::Running => "[still running]".to_owned(),
            StepEnd::Incomplete => unfinished(output.missing.as_deref()),
            StepEnd::TimedOut { shell_lost: false } => "[timed out and killed]".to_owned(),
            StepEnd::TimedOut { shell_lost: true } if output.has(StepNote::NewShell) => {
                format!("[timed out and killed, and the shell with it; {NEW_SHELL}]")
            }
            StepEnd::TimedOut { shell_lost: true } => {
                self.end = Some(StopReason::Ended("shell-lost".to_owned()));
                "[timed out and killed, and the shell with it]".to_owned()
            }
            StepEnd::ShellExited => {
                self.end = Some(StopReason::Ended("shell-exited".to_owned()));
                "[the shell has exited]".to_owned()
            }
            StepEnd::ShellReplaced { exit_code } => {
                self.facts.insert("exit_code".to_owned(), exit_code.into());
                format!("[the shell has ended, exit {exit_code}; {NEW_SHELL}]")
            }
            StepEnd::Cancelled => "[cancelled]".to_owned(),
        };
        self.ended_step(output, ending);
    }

    /// Records a step that left an incomplete command, which was dropped.
    pub fn dropped(&mut self, output: StepOutput) {
        let missing =
            output.missing.as_deref().map_or(String::new(), |missing| format!(": {missing} is missing"));
        self.ended_step(output, format!("[the command was not finished{missing}; dropped]"));
    }

    fn ended_step(&mut self, output: StepOutput, ending: String) {
        self.facts.insert("end".to_owned(), end_name(output.end).into());
        if let Some(folder) = &output.folder {
            self.facts.insert("folder".to_owned(), folder.clone().into());
        }
        if !output.notes.is_empty() {
            let names: Vec<Value> = output.notes.iter().map(|note| note.name().into()).collect();
            self.facts.insert("notes".to_owned(), names.into());
        }
        let mut text = output.text;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        for note in output.notes.iter().filter_map(|&note| remark(note)) {
            text.push_str(note);
            text.push('\n');
        }
        let reports_new_shell =
            matches!(output.end, StepEnd::ShellReplaced { .. } | StepEnd::TimedOut { .. });
        if !reports_new_shell && output.notes.contains(&StepNote::NewShell) {
            text.push_str(&format!("[{NEW_SHELL}]\n"));
        }
        text.push_str(&ending);
        self.push_text(text, output.full_text);
    }

    /// The combined result.
    #[must_use]
    pub fn into_result(self) -> StepResult {
        let observation = Observation {
            parts: vec![Part::Text { text: self.texts.join("\n") }],
            tools: Vec::new(),
            pictures: Vec::new(),
            facts: self.facts,
            full_text: self.cut.then(|| self.full_texts.join("\n")),
        };
        StepResult { observation, end: self.end, process_reward: None }
    }

    /// Adds a text that no shell wrote; `full_text` is the uncut text if it was cut.
    pub fn push_text(&mut self, text: String, full_text: Option<String>) {
        self.cut |= full_text.is_some();
        self.push(text, full_text);
    }

    fn push(&mut self, text: String, full_text: Option<String>) {
        self.full_texts.push(full_text.unwrap_or_else(|| text.clone()));
        self.texts.push(text);
    }
}

fn end_name(end: StepEnd) -> &'static str {
    match end {
        StepEnd::Completed { .. } => "completed",
        StepEnd::Running => "running",
        StepEnd::Incomplete => "incomplete",
        StepEnd::TimedOut { .. } => "timed_out",
        StepEnd::ShellExited => "shell_exited",
        StepEnd::ShellReplaced { .. } => "shell_replaced",
        StepEnd::Cancelled => "cancelled",
    }
}

/// Note about a shell that replaced another one.
const NEW_SHELL: &str = "a new shell has begun: folder, variables and functions of the old one are gone";

/// Note about a shell that waits for the rest of a command.
fn unfinished(missing: Option<&str>) -> String {
    let missing = missing.map_or(String::new(), |missing| format!("{missing} finishes it, "));
    format!("[the shell waits for the rest of an unfinished command: {missing}C-c abandons it]")
}

/// The note for the policy, if it needs one to continue; other notes are only recorded.
fn remark(note: StepNote) -> Option<&'static str> {
    match note {
        StepNote::TypedIntoProgram => Some("[a program was running: the command was typed into it]"),
        StepNote::InputUnread => Some("[some of the input was not read]"),
        StepNote::NothingRunning => Some("[nothing is running]"),
        StepNote::MarksLost => Some("[the prompt was changed: the exit code is unknown]"),
        StepNote::OutOfMemory => Some(
            "[the sandbox ran out of memory, which files in the workspace, /tmp, /dev/shm and the home folder take, too]",
        ),
        _ => None,
    }
}
