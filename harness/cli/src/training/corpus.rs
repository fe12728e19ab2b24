//! The text that a tokenizer is trained on: what a policy will read and write in these tasks.
//!
//! I1. Only tasks to train on are looked at. I2. The order of texts is that of the tasks.

use clawrl_core::{Check, EnvSpec, FixtureContent, Script, TaskSpec};

/// Instructions, files, expected results and demonstrated commands of tasks.
pub(crate) fn corpus<'a>(tasks: impl IntoIterator<Item = &'a TaskSpec>) -> Vec<String> {
    let mut texts = Vec::new();
    for task in tasks {
        texts.push(task.instruction.clone());
        if let EnvSpec::Terminal(terminal) = &task.env {
            for file in &terminal.files {
                texts.push(file.path.clone());
                if let FixtureContent::Inline(content) = &file.content {
                    texts.push(content.clone());
                }
            }
        }
        for check in &task.checks {
            match &check.check {
                Check::FileEquals { path, expected } => texts.extend([path.clone(), expected.clone()]),
                Check::FileContains { path, text } => texts.extend([path.clone(), text.clone()]),
                _ => {}
            }
        }
        for script in task.oracle.iter().chain(&task.mistakes) {
            texts.extend(said(script));
        }
    }
    texts
}

/// Every text among the arguments of a script's calls.
fn said(script: &Script) -> impl Iterator<Item = String> + '_ {
    let texts = |call: &clawrl_core::ToolCall| -> Vec<String> {
        let arguments = call.arguments.as_object().into_iter().flat_map(|object| object.values());
        let texts = arguments.filter_map(|value| value.as_str().map(str::to_owned));
        texts.chain([call.name.clone()]).collect()
    };
    script.calls.iter().flat_map(texts)
}
