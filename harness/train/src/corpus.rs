//! The training text of a tokenizer: text that a policy will read and write in these tasks.
//!
//! I1. Only training tasks are used. I2. The order of texts is that of the tasks.

use clawrl_core::{
    ActionFormat, AnswerCheck, Check, EnvSpec, FixtureContent, FixtureFile, Script, TaskSpec, ToolCall,
    ToolKind, ToolcallSpec, hermes_text,
};
use serde_json::Value;

/// Messages of tool-call environments about calls that were refused, failed or timed out. Suites do not contain them.
const TOOL_PHRASES: &str = "error tool is missing a string number expected not of type there no key action must be one \
    get set delete list full answer within output call calls refused limit more than left end task submit";

/// Text that observations of pages add to the pages' own.
const PAGE_PHRASES: &str = "error: url: http://.localhost/ title: tabs: dialog: downloaded: [1] [2] [3] button link textbox \
    checkbox radio combobox option listbox list listitem heading form table row cell tab dialog image checked disabled \
    focused selected expanded options: \"\" =";

/// Instructions, files, tools, expected results and demonstrated actions of tasks.
pub(crate) fn corpus<'a>(tasks: impl IntoIterator<Item = &'a TaskSpec>) -> Vec<String> {
    let mut texts = Vec::new();
    let (mut calls_tools, mut browses) = (false, false);
    for task in tasks {
        texts.push(task.instruction.clone());
        match &task.env {
            EnvSpec::Terminal(terminal) => files(&terminal.files, &mut texts),
            EnvSpec::Swe(swe) => files(&swe.workspace.files, &mut texts),
            EnvSpec::Toolcall(toolcall) => {
                tools(toolcall, &mut texts);
                calls_tools = true;
            }
            EnvSpec::Gui(gui) => {
                gui.sites.iter().for_each(|site| files(&site.files, &mut texts));
                browses = true;
            }
            _ => {}
        }
        for check in &task.checks {
            match &check.check {
                Check::FileEquals { path, expected } => texts.extend([path.clone(), expected.clone()]),
                Check::FileContains { path, text } => texts.extend([path.clone(), text.clone()]),
                Check::Answer(AnswerCheck::Equals { expected } | AnswerCheck::Normalised { expected }) => {
                    texts.push(expected.clone());
                }
                _ => {}
            }
        }
        for script in task.oracle.iter().chain(&task.mistakes) {
            match task.action_format {
                ActionFormat::Hermes => texts.extend(written(script)),
                _ => texts.extend(said(script)),
            }
        }
    }
    texts.extend(calls_tools.then(|| TOOL_PHRASES.to_owned()));
    texts.extend(browses.then(|| PAGE_PHRASES.to_owned()));
    texts
}

fn files(files: &[FixtureFile], texts: &mut Vec<String>) {
    for file in files {
        texts.push(file.path.clone());
        if let FixtureContent::Inline(content) = &file.content {
            texts.push(content.clone());
        }
    }
}

/// Names, descriptions and results of tools.
fn tools(toolcall: &ToolcallSpec, texts: &mut Vec<String>) {
    for tool in &toolcall.tools {
        texts.extend([tool.name.clone(), tool.description.clone()]);
        match &tool.kind {
            ToolKind::Table { rows, missing } => {
                texts.extend(rows.iter().flat_map(|(key, answer)| [key.clone(), answer.clone()]));
                texts.push(missing.clone());
            }
            ToolKind::Store { initial } => {
                texts.extend(initial.iter().flat_map(|(key, value)| [key.clone(), value.clone()]));
            }
            ToolKind::Returns { text } | ToolKind::Fails { message: text } => texts.push(text.clone()),
            _ => {}
        }
    }
    if let Some(workspace) = &toolcall.workspace {
        files(&workspace.files, texts);
    }
}

/// The actions of a script in each text format, each script with its submission.
fn written(script: &Script) -> impl Iterator<Item = String> + '_ {
    let submit = ToolCall::new("submit", Value::Object(serde_json::Map::new()));
    let actions = script.calls().iter().map(|call| hermes_text(std::slice::from_ref(call)));
    actions.chain([hermes_text(&[submit])])
}

/// Every text among the arguments of a script's calls.
fn said(script: &Script) -> impl Iterator<Item = String> + '_ {
    let texts = |call: &ToolCall| -> Vec<String> {
        let arguments = call.arguments.as_object().into_iter().flat_map(|object| object.values());
        let texts = arguments.filter_map(|value| value.as_str().map(str::to_owned));
        texts.chain([call.name.clone()]).collect()
    };
    script.calls().iter().flat_map(texts)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use clawrl_core::{CheckSpec, ToolDecl};
    use clawrl_testkit::task;
    use serde_json::json;

    use super::*;

    fn check(task: &TaskSpec, expected: &[&str]) {
        assert_eq!(corpus([task]), expected);
    }

    #[test]
    fn a_terminal_task_is_its_files_and_commands() {
        let oracle = Script::Calls(vec![ToolCall::new("run", json!({ "command": "cat a", "wait": 2 }))]);
        check(&TaskSpec { oracle: Some(oracle), ..task("look") }, &["Do look.", "cat a", "run"]);
    }

    #[test]
    fn a_task_of_tools_is_what_they_answer_and_calls_in_its_format() {
        let tool = ToolDecl {
            name: "price".into(),
            description: "What it costs.".into(),
            parameters: json!({ "type": "object" }),
            text_argument: None,
            kind: ToolKind::Table {
                rows: BTreeMap::from([("apple".into(), "12".into())]),
                missing: "none".into(),
            },
            timeout: Duration::from_secs(1),
            max_calls: None,
        };
        let toolcall = ToolcallSpec {
            tools: vec![tool],
            mcp: Vec::new(),
            workspace: None,
            observation_chars: 400,
            max_parallel_calls: 8,
            step_rewards: Vec::new(),
        };
        let check_of = |check| CheckSpec { label: "a".into(), weight: 1.0, check };
        let oracle = Script::Calls(vec![ToolCall::new("price", json!({ "key": "apple" }))]);
        let asked = TaskSpec {
            env: EnvSpec::Toolcall(toolcall),
            checks: vec![check_of(Check::Answer(AnswerCheck::Equals { expected: "12".into() }))],
            oracle: Some(oracle),
            action_format: ActionFormat::Hermes,
            ..task("ask")
        };
        let call = "<tool_call>\n{\"name\": \"price\", \"arguments\": {\"key\": \"apple\"}}\n</tool_call>";
        let submit = "<tool_call>\n{\"name\": \"submit\", \"arguments\": {}}\n</tool_call>";
        let told = ["Do ask.", "price", "What it costs.", "apple", "12", "none", "12", call, submit];
        check(&asked, &[&told[..], &[TOOL_PHRASES]].concat());
    }
}
