//! What the image of a Dockerfile starts by itself: its ENTRYPOINT and CMD, where a framework lets it.
//!
//! Source: the Dockerfile reference, "Understand how CMD and ENTRYPOINT interact". Deviation: what an image that
//! FROM names would start is not known, and passes.

use std::sync::Arc;

use clawrl_config::Source;

use super::lines::Instruction;
use super::words::json_list;
use crate::findings::Findings;
use crate::keep_alive::{only_waits, refuse_start};

/// What a framework lets an image start, when a task's container is made of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Started {
    /// The framework's own program runs instead.
    Nothing,
    /// With a command of the framework's, which waits.
    Entrypoint,
    EntrypointAndCommand,
}

/// Who lets an image start what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Starts {
    pub(crate) what: Started,
    /// For whoever has to change it.
    pub(crate) instead: &'static str,
}

/// Refuses what would be missed: nothing of it runs in an environment here.
pub(crate) fn refuse_starts(
    source: &Arc<Source>,
    found: &[Instruction],
    starts: Starts,
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
    /// Its own, not that of the stage it begins with.
    has_command: bool,
}

/// The instruction by which the image starts more than a program that waits.
fn starting(found: &[Instruction], what: Started) -> Option<&Instruction> {
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
    if what == Started::Nothing {
        return None;
    }
    let mut words = last.entrypoint.map(program).unwrap_or_default();
    if !only_waits(&words) {
        return last.entrypoint;
    }
    let command = last.command.filter(|_| what == Started::EntrypointAndCommand)?;
    words.extend(program(command));
    (!only_waits(&words)).then_some(command)
}

/// A program with its arguments, in either form.
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

    /// The keyword of what is refused, where only the entrypoint counts and where both do.
    fn check(text: &str, entrypoint: Option<&str>, both: Option<&str>) {
        let source = Arc::new(Source::new("Dockerfile".as_ref(), "Dockerfile".into(), text));
        let (found, _) = instructions(&source).unwrap();
        let refused = |what| starting(&found, what).map(|found| found.keyword.as_str());
        assert_eq!(refused(Started::Nothing), None, "{text}");
        assert_eq!(refused(Started::Entrypoint), entrypoint, "{text}");
        assert_eq!(refused(Started::EntrypointAndCommand), both, "{text}");
    }

    #[test]
    fn what_an_image_starts_is_known() {
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
    fn the_last_word_counts_and_stages_hand_theirs_on() {
        let (entrypoint, command) = (Some("ENTRYPOINT"), Some("CMD"));
        check("FROM x\nENTRYPOINT [\"server\"]\nENTRYPOINT [\"bash\"]", None, None);
        check("FROM x\nCMD [\"bash\"]\nCMD [\"server\"]", None, command);
        check("FROM x AS a\nENTRYPOINT [\"server\"]\nFROM x", None, None);
        check("FROM x AS a\nENTRYPOINT [\"server\"]\nFROM A as b\nRUN ls", entrypoint, entrypoint);
        check("FROM x AS a\nCMD [\"server\"]\nFROM a\nENTRYPOINT [\"bash\"]", None, None);
        check("FROM x AS a\nCMD [\"server\"]\nFROM a", None, command);
    }
}
