//! Software engineering environments.

use clawrl_core::{SweSpec, TestNames, TestSpec};
use minijinja::Value;

use super::filler::Filler;
use crate::file::Text;
use crate::row::{NamesRow, SweRow};
use crate::value;

impl<'s> Filler<'_, '_, 's> {
    pub(super) fn swe(&mut self, row: &'s SweRow, values: &Value) -> Option<SweSpec> {
        let workspace = self.workspace(&row.workspace, values);
        let base_commit = row.base_commit.as_ref().map(|commit| self.ruled(commit, values, value::commit));
        let setup = self.texts(&row.setup, values);
        let activate = row.activate.as_ref().map(|line| self.text(line, values));
        let run = row.test.as_ref().and_then(|test| self.text(test, values));
        let files = self.files_of(&row.test_files, values);
        let fail_to_pass = self.names(&row.fail_to_pass, values);
        let pass_to_pass = self.names(&row.pass_to_pass, values);
        let protected: Vec<_> =
            row.protected.iter().map(|pattern| self.ruled(pattern, values, value::path_pattern)).collect();
        Some(SweSpec {
            workspace: workspace?,
            base_commit: match base_commit {
                Some(commit) => Some(commit?),
                None => None,
            },
            apply: row.apply.clone(),
            setup: setup?,
            activate: match activate {
                Some(line) => Some(line?),
                None => None,
            },
            tests: TestSpec {
                run: run?,
                parser: row.parser,
                files: files?,
                patch: row.test_patch.clone(),
                fail_to_pass: fail_to_pass?,
                pass_to_pass: pass_to_pass?,
                protected: protected.into_iter().collect::<Option<_>>()?,
                timeout: row.timeout,
                score: row.score,
            },
            observation_chars: row.observation_chars,
        })
    }

    pub(super) fn texts(&mut self, rows: &'s [Text], values: &Value) -> Option<Vec<String>> {
        let texts: Vec<_> = rows.iter().map(|row| self.text(row, values)).collect();
        texts.into_iter().collect()
    }

    fn names(&mut self, row: &'s NamesRow, values: &Value) -> Option<TestNames> {
        match row {
            NamesRow::List(names) => self.texts(names, values).map(TestNames::Inline),
            NamesRow::File(names) => Some(names.clone()),
        }
    }
}
