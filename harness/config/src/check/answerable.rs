//! Verifies that the environment of a task can evaluate the task's checks.

use super::checker::Checker;
use super::environment::Named;
use crate::file::{CheckFile, Located, Subject, Text, ToolcallFile};
use crate::source::Span;
use crate::suggest::listed;

impl Checker {
    pub(super) fn answerable(
        &mut self,
        check: &CheckFile,
        key: &str,
        subject: Subject,
        span: Span,
        env: &Named,
    ) {
        match (env, subject) {
            (Named::Process(_) | Named::Http(_) | Named::Openenv(_) | Named::InProcess(_), _) => self.problem(
                span,
                format!("`{key}` is not known to environments of kind `{}`, which grade themselves", env.key()),
                "never looked at",
                "remove the check, and have `grade` answer with what it found: `{\"score\": 1, \"checks\": [...]}`",
            ),
            (Named::Swe(_), _) => self.problem(
                span,
                format!("`{key}` is not looked at where tests decide"),
                "never looked at",
                "remove the check, and add a test that says the same to `test_files`",
            ),
            (Named::Gui(gui), Subject::Pages) => {
                if let Some(site) = check.requested.as_ref().and_then(|requested| requested.site.as_ref()) {
                    self.declared_site(site, gui);
                }
            }
            (Named::Gui(_), Subject::Answer) => {}
            (Named::Gui(_), _) => self.problem(
                span,
                format!("`{key}` is not known where there is a browser"),
                "not known here",
                "ask the page, the sites or the answer: `page_element`, `requested`, `downloaded`, `answer_equals`",
            ),
            (_, Subject::Pages) => self.problem(
                span,
                format!("`{key}` needs a browser, and this task has none"),
                "not known here",
                "remove the check, or write the task for `env: gui:`",
            ),
            (Named::Terminal(_), Subject::Answer | Subject::Tools) => self.problem(
                span,
                format!("`{key}` needs a tool-call environment, and this task has a terminal"),
                "not known here",
                "ask for the answer in a file and check that: `file_equals: { path: answer.txt, expected: \"42\\n\" }`",
            ),
            (Named::Toolcall(_), Subject::Processes) => self.problem(
                span,
                format!("`{key}` needs a terminal, and this task has tools"),
                "not known here",
                "check the answer, the calls or a file instead: `answer_equals`, `called`, `file_equals`",
            ),
            (Named::Toolcall(toolcall), Subject::Workspace)
                if toolcall.workspace.is_none() && !toolcall.runs_programs() =>
            {
                self.problem(
                    span,
                    format!("`{key}` looks at a workspace, and this task has none"),
                    "no files here",
                    "add `workspace: {}` beside `tools:`, or check the answer or the calls: `answer_equals`, `called`",
                );
            }
            (Named::Toolcall(toolcall), Subject::Tools) => self.tools_known(check, toolcall),
            (Named::Terminal(_), Subject::Workspace | Subject::Processes)
            | (Named::Toolcall(_), Subject::Answer)
            | (Named::Toolcall(_), Subject::Workspace) => {}
        }
    }

    /// The tools that a check names are there.
    fn tools_known(&mut self, check: &CheckFile, toolcall: &ToolcallFile) {
        let in_order = check.called_in_order.iter().flat_map(|calls| &calls.value);
        let expected = check.calls_match.iter().flat_map(|file| &file.calls.value);
        let named = check.called.iter().map(|called| &called.tool).chain(&check.not_called);
        for tool in named.chain(expected.map(|call| &call.tool)) {
            self.declared_tool(tool, tool.span, toolcall);
        }
        for call in in_order {
            let (tool, span) = Located::tool(call);
            self.declared_tool(tool, span, toolcall);
        }
        if let Some(stored) = &check.stored {
            self.is_store(&stored.tool, toolcall);
        }
    }

    fn is_store(&mut self, name: &Text, toolcall: &ToolcallFile) {
        if !self.declared_tool(name, name.span, toolcall) {
            return;
        }
        let Some(tool) = toolcall.tool(name) else { return };
        if tool.kind() == "store" {
            return;
        }
        let stores = toolcall.tools().filter(|(_, tool)| tool.kind() == "store");
        let stores: Vec<&str> = stores.map(|(name, _)| name.as_str()).collect();
        let help = match stores.as_slice() {
            [] => "declare one under `tools:`, such as `memo: { store: {} }`".to_owned(),
            stores => format!("stores of this task are {}", listed(stores.iter().copied())),
        };
        let message = format!("the tool `{}` keeps nothing: it is of kind `{}`", name.value, tool.kind());
        self.problem(name.span, message, "not a store", help);
    }
}
