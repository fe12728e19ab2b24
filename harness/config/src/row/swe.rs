//! A software engineering environment.

use std::time::Duration;

use clawrl_core::{FixtureContent, LogParser, TestNames, TestScore};

use super::terminal::{FilesRow, WorkspaceRow};
use super::text::{Visit, texts};
use crate::file::Text;

/// A repository, and tests that decide.
#[derive(Debug)]
pub(crate) struct SweRow {
    pub(crate) workspace: WorkspaceRow,
    pub(crate) base_commit: Option<Text>,
    /// Never templates, as the test patch.
    pub(crate) apply: Vec<FixtureContent>,
    pub(crate) setup: Vec<Text>,
    pub(crate) activate: Option<Text>,
    pub(crate) test: Option<Text>,
    pub(crate) parser: LogParser,
    pub(crate) test_files: FilesRow,
    pub(crate) test_patch: Option<FixtureContent>,
    pub(crate) fail_to_pass: NamesRow,
    pub(crate) pass_to_pass: NamesRow,
    pub(crate) protected: Vec<Text>,
    pub(crate) timeout: Duration,
    pub(crate) score: TestScore,
    pub(crate) observation_chars: u32,
}

/// Names of tests.
#[derive(Debug)]
pub(crate) enum NamesRow {
    List(Vec<Text>),
    /// Never templates.
    File(TestNames),
}

impl SweRow {
    pub(super) fn each_text<'s>(&'s self, visit: &mut Visit<'_, 's>) {
        self.workspace.each_text(visit);
        self.test_files.each_text(visit);
        let lines = self.base_commit.iter().chain(&self.setup).chain(&self.activate).chain(&self.test);
        texts(lines.chain(&self.protected), visit);
        for names in [&self.fail_to_pass, &self.pass_to_pass] {
            if let NamesRow::List(names) = names {
                texts(names, visit);
            }
        }
    }
}
