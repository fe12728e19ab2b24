//! Whether the environment of a task can answer what its checks ask.

use super::checker::Checker;
use crate::file::Text;
use crate::row::{CheckKind, EnvRow, PageCheckRow, Subject, ToolKindRow, ToolcallRow};
use crate::source::Span;
use crate::suggest::listed;

impl Checker {
    pub(super) fn answerable(&mut self, kind: &CheckKind, span: Span, env: &EnvRow) {
        let key = kind.key();
        match (env, kind.subject()) {
            (EnvRow::Custom(custom), _) => self.problem(
                span,
                format!("`{key}` is not known to environments of kind `{}`, which grade themselves", custom.key()),
                "never looked at",
                "remove the check, and have `grade` answer with what it found: `{\"score\": 1, \"checks\": [...]}`",
            ),
            (EnvRow::Swe(_), _) => self.problem(
                span,
                format!("`{key}` is not looked at where tests decide"),
                "never looked at",
                "remove the check, and add a test that says the same to `test_files`",
            ),
            (EnvRow::Gui(gui), Subject::Pages) => {
                if let CheckKind::Page(check) = kind
                    && let PageCheckRow::Requested { site: Some(site), .. } = check.as_ref()
                {
                    self.declared_site(site, gui);
                }
            }
            (EnvRow::Gui(_), Subject::Answer) => {}
            (EnvRow::Gui(_), _) => self.problem(
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
            (EnvRow::Terminal(_), Subject::Answer | Subject::Tools) => self.problem(
                span,
                format!("`{key}` needs a tool-call environment, and this task has a terminal"),
                "not known here",
                "ask for the answer in a file and check that: `file_equals: { path: answer.txt, expected: \"42\\n\" }`",
            ),
            (EnvRow::Toolcall(_), Subject::Processes) => self.problem(
                span,
                format!("`{key}` needs a terminal, and this task has tools"),
                "not known here",
                "check the answer, the calls or a file instead: `answer_equals`, `called`, `file_equals`",
            ),
            (EnvRow::Toolcall(toolcall), Subject::Workspace)
                if toolcall.workspace.is_none() && !toolcall.runs_programs() =>
            {
                self.problem(
                    span,
                    format!("`{key}` looks at a workspace, and this task has none"),
                    "no files here",
                    "add `workspace: {}` beside `tools:`, or check the answer or the calls: `answer_equals`, `called`",
                );
            }
            (EnvRow::Toolcall(toolcall), Subject::Tools) => self.tools_known(kind, toolcall),
            (EnvRow::Terminal(_), Subject::Workspace | Subject::Processes)
            | (EnvRow::Toolcall(_), Subject::Answer)
            | (EnvRow::Toolcall(_), Subject::Workspace) => {}
        }
    }

    /// The tools that a check names are there.
    fn tools_known(&mut self, kind: &CheckKind, toolcall: &ToolcallRow) {
        match kind {
            CheckKind::Called { call, .. } => {
                self.declared_tool(&call.tool, call.tool.span, toolcall);
            }
            CheckKind::NotCalled(tool) => {
                self.declared_tool(tool, tool.span, toolcall);
            }
            CheckKind::CalledInOrder(calls) | CheckKind::CallsMatch { calls, .. } => {
                for call in calls {
                    self.declared_tool(&call.tool, call.tool.span, toolcall);
                }
            }
            CheckKind::Stored { tool, .. } => self.is_store(tool, toolcall),
            _ => {}
        }
    }

    fn is_store(&mut self, name: &Text, toolcall: &ToolcallRow) {
        if !self.declared_tool(name, name.span, toolcall) {
            return;
        }
        let Some(tool) = toolcall.tool(name) else { return };
        if matches!(tool.kind, ToolKindRow::Store { .. }) {
            return;
        }
        let stores = toolcall.tools.iter().filter(|tool| matches!(tool.kind, ToolKindRow::Store { .. }));
        let stores: Vec<&str> = stores.map(|tool| tool.name.value.as_str()).collect();
        let help = match stores.as_slice() {
            [] => "declare one under `tools:`, such as `memo: { store: {} }`".to_owned(),
            stores => format!("stores of this task are {}", listed(stores.iter().copied())),
        };
        let message = format!("the tool `{}` keeps nothing: it is of kind `{}`", name.value, tool.kind.key());
        self.problem(name.span, message, "not a store", help);
    }
}
