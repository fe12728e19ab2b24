//! Finds what the image of a Dockerfile starts: its ENTRYPOINT and CMD, if the framework does not override them.
//!
//! Source: the Dockerfile reference, "Understand how CMD and ENTRYPOINT interact". Deviation: the programs of the base
//! image are unknown, and are accepted.

use std::sync::Arc;

use clawrl_config::Source;

use super::lines::Instruction;
use super::words::json_list;
use crate::findings::Findings;
use crate::keep_alive::{only_waits, refuse_start};

/// Which programs of an image a framework starts in a task's container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartedPrograms {
    /// None: the framework's own program replaces them.
    Nothing,
    /// The entrypoint, with a waiting command of the framework.
    Entrypoint,
    EntrypointAndCommand,
}

/// A process that starts with an image, and the advice if it is refused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartRules {
    pub(crate) what: StartedPrograms,
    /// The advice: a text to write instead.
    pub(crate) instead: &'static str,
}

/// Refuses programs that would not run in our environments.
pub(crate) fn refuse_starts(
    source: &Arc<Source>,
    found: &[Instruction],
    starts: StartRules,
    findings: &mut Findings,
) {
    if let Some(instruction) = starting(found, starts.what) {
        let written = format!("{} {}", instruction.keyword, instruction.rest);
        refuse_start(source, instruction.span, &written, starts.instead, findings);
    }
}

/// A stage of the build.
#[derive(Debug, Clone, Default)]
struct Stage<'a> {
    name: &'a str,
    entrypoint: Option<&'a Instruction>,
    command: Option<&'a Instruction>,
    /// Whether the command is the stage's own, and not inherited.
    has_command: bool,
}

/// The instruction that starts more than a waiting program.
fn starting(found: &[Instruction], what: StartedPrograms) -> Option<&Instruction> {
    let mut stages: Vec<Stage<'_>> = Vec::new();
    for instruction in found {
        match (instruction.keyword.as_str(), stages.last_mut()) {
            ("FROM", _) => {
                let mut words = instruction.rest.split_whitespace();
                let image = words.next().unwrap_or_default();
                let is_called = |stage: &&Stage<'_>| stage.name.eq_ignore_ascii_case(image);
                let below = stages.iter().rev().find(is_called).cloned().unwrap_or_default();
                stages.push(Stage { name: words.nth(1).unwrap_or_default(), has_command: false, ..below });
            }
            ("ENTRYPOINT", Some(stage)) => {
                stage.entrypoint = Some(instruction);
                stage.command = stage.command.filter(|_| stage.has_command);
            }
            ("CMD", Some(stage)) => {
                stage.command = Some(instruction);
                stage.has_command = true;
            }
            _ => {}
        }
    }
    let last = stages.pop()?;
    if what == StartedPrograms::Nothing {
        return None;
    }
    let mut words = last.entrypoint.map(program).unwrap_or_default();
    if !only_waits(&words) {
        return last.entrypoint;
    }
    let command = last.command.filter(|_| what == StartedPrograms::EntrypointAndCommand)?;
    words.extend(program(command));
    (!only_waits(&words)).then_some(command)
}

/// A program with its arguments, from the shell form or the list form.
fn program(instruction: &Instruction) -> Vec<String> {
    json_list(&instruction.rest).unwrap_or_else(|| match instruction.rest.trim() {
        "" => Vec::new(),
        text => ["/bin/sh", "-c", text].map(str::to_owned).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dockerfile::instructions;

    /// Keywords of the refused instructions: if only the entrypoint starts, and if both start.
    fn check(text: &str, entrypoint: Option<&str>, both: Option<&str>) {
        let source = Arc::new(Source::new("Dockerfile".as_ref(), "Dockerfile".into(), text));
        let (found, _) = instructions(&source).unwrap();
        let refused = |what| starting(&found, what).map(|found| found.keyword.as_str());
        assert_eq!(refused(StartedPrograms::Nothing), None, "{text}");
        assert_eq!(refused(StartedPrograms::Entrypoint), entrypoint, "{text}");
        assert_eq!(refused(StartedPrograms::EntrypointAndCommand), both, "{text}");
    }

    #[test]
    fn started_programs_are_found() {
        let (entrypoint, command) = (Some("ENTRYPOINT"), Some("CMD"));
        check("FROM x\nRUN server", None, None);
        check("FROM x\nENTRYPOINT [\"/server\"]", entrypoint, entrypoint);
        check("FROM x\nENTRYPOINT /server --now", entrypoint, entrypoint);
        check("FROM x\nENTRYPOINT [\"bash\"]\nCMD [\"-l\"]", None, None);
        check("FROM x\nENTRYPOINT sleep infinity\nCMD server", None, None);
        check("FROM x\nENTRYPOINT []\nCMD bash", None, None);
        check("FROM x\nCMD [\"server\"]", None, command);
        check("FROM x\nENTRYPOINT [\"tini\", \"--\"]\nCMD [\"server\"]", None, command);
        check("FROM x\nENTRYPOINT [\"sh\", \"-c\"]\nCMD [\"server\"]", None, command);
    }

    #[test]
    fn last_entrypoint_counts_and_stages_inherit() {
        let (entrypoint, command) = (Some("ENTRYPOINT"), Some("CMD"));
        check("FROM x\nENTRYPOINT [\"server\"]\nENTRYPOINT [\"bash\"]", None, None);
        check("FROM x\nCMD [\"bash\"]\nCMD [\"server\"]", None, command);
        check("FROM x AS a\nENTRYPOINT [\"server\"]\nFROM x", None, None);
        check("FROM x AS a\nENTRYPOINT [\"server\"]\nFROM A as b\nRUN ls", entrypoint, entrypoint);
        check("FROM x AS a\nCMD [\"server\"]\nFROM a\nENTRYPOINT [\"bash\"]", None, None);
        check("FROM x AS a\nCMD [\"server\"]\nFROM a", None, command);
    }
}
