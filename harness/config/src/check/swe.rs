//! The software engineering environment of a task: tests that decide, a repository to start from, time to run them.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{
    FixtureContent, FixtureFile, Limit, LogParser, SandboxKind, TestNames, TestScore, Timeouts,
};

use super::checker::Checker;
use crate::bounds;
use crate::file::{FilesFile, Located, NamesFile, SweFile, Text};
use crate::row::{FilesRow, NamesRow, SweRow};
use crate::source::Span;
use crate::value;

/// Time limit of the tests when nothing else is said.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// What grading takes besides the tests: a sandbox, setup, what was submitted.
const GRADING_BESIDES: Duration = Duration::from_secs(300);

/// What resetting may take when nothing else is said: images come with large histories.
const RESETTING: Duration = Duration::from_secs(300);

const DEFAULT_OBSERVATION: u32 = 10_000;

/// The checker's view of a limit that was or was not written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    pub(super) setup: bool,
    pub(super) grade: bool,
}

impl Checker {
    /// The environment. Limits of setup and grading that nobody wrote are raised to what they take.
    pub(super) fn swe(
        &mut self,
        mut file: SweFile,
        place: Span,
        given: Given,
        timeouts: &mut Timeouts,
    ) -> SweRow {
        let has_image = file.image.is_some();
        let folder = match file.files.as_deref() {
            Some(FilesFile::Folder(path)) => Some(path.clone()),
            _ => None,
        };
        let mut workspace = self.workspace(file.take_workspace());
        if let (FilesRow::Folder(files), Some(folder)) = (&mut workspace.files, folder) {
            *files = self.by_reference(files, &folder);
        }
        if workspace.sandbox == SandboxKind::None {
            self.problem(
                place,
                "a software engineering task needs a sandbox, and this one has `sandbox: none`",
                "its tests would run on the host",
                "remove `sandbox: none`",
            );
        }
        let is_empty = matches!(&workspace.files, FilesRow::Map(files) if files.is_empty());
        if is_empty && !has_image {
            self.problem(
                place,
                "the task has no repository",
                "neither `files` nor an image",
                "name a folder with it, `files: fixtures/repo`, or an image that has it in its `workdir`",
            );
        }
        if let (Some(commit), false) = (&file.base_commit, has_image) {
            let help = "remove it: `files` have no history, and the base commit is made of them";
            self.problem(
                commit.span,
                "`base_commit` needs an image that has the repository",
                "no history",
                help,
            );
        }
        let test =
            self.needed(file.test.as_ref(), place, "test", "test: python3 -m unittest discover -v").cloned();
        let parser = match file.parser {
            Some(parser) => parser.into(),
            None => {
                let help = "name the runner: `parser: pytest`, `unittest`, `cargo`, `go` or `jest`";
                self.problem(place, "`swe` has no `parser`", "who reads what the tests print?", help);
                LogParser::Pytest
            }
        };
        let apply = file.apply.unwrap_or_default();
        SweRow {
            workspace,
            base_commit: file.base_commit,
            apply: apply.iter().filter_map(|patch| self.patch(patch)).collect(),
            setup: file.setup.unwrap_or_default(),
            activate: file.activate,
            test,
            parser,
            test_files: file.test_files.map_or_else(|| FilesRow::Map(Vec::new()), |files| self.files(files)),
            test_patch: file.test_patch.and_then(|patch| self.patch(&patch)),
            fail_to_pass: self.fail_to_pass(file.fail_to_pass, place),
            pass_to_pass: file
                .pass_to_pass
                .map_or_else(|| NamesRow::List(Vec::new()), |names| self.names_of(names)),
            protected: file.protected.unwrap_or_default(),
            timeout: self.test_timeout(file.test_timeout_secs.as_ref(), given, timeouts),
            score: file.score.map_or(TestScore::Resolved, Into::into),
            observation_chars: self.whole(
                "observation_chars",
                file.observation_chars.as_ref(),
                bounds::MIN_OBSERVATION..=bounds::MAX_OBSERVATION,
                DEFAULT_OBSERVATION,
            ),
        }
    }

    /// Many tasks share a repository; their plan holds none of it.
    fn by_reference(&self, files: &[FixtureFile], folder: &str) -> Arc<[FixtureFile]> {
        let folder = folder.trim_end_matches('/');
        let refer = |file: &FixtureFile| {
            let content = self.fixtures.reference(&format!("{folder}/{}", file.path));
            FixtureFile { content: content.unwrap_or_else(|| file.content.clone()), ..file.clone() }
        };
        files.iter().map(refer).collect()
    }

    fn needed<'f>(
        &mut self,
        given: Option<&'f Text>,
        place: Span,
        key: &str,
        example: &str,
    ) -> Option<&'f Text> {
        match given {
            Some(text) if !text.trim().is_empty() => {}
            Some(text) => {
                self.problem(
                    text.span,
                    format!("`{key}` is empty"),
                    "nothing to run",
                    format!("write `{example}`"),
                );
            }
            None => {
                self.problem(
                    place,
                    format!("`swe` has no `{key}`"),
                    "nothing decides",
                    format!("add `{example}`"),
                );
            }
        }
        given
    }

    fn test_timeout(
        &mut self,
        written: Option<&Located<f64>>,
        given: Given,
        timeouts: &mut Timeouts,
    ) -> Duration {
        let timeout = self.seconds("test_timeout_secs", written, bounds::MAX_TIMEOUT_SECS);
        let chosen = timeout.unwrap_or(DEFAULT_TIMEOUT);
        if !given.setup {
            timeouts.setup = timeouts.setup.max(RESETTING);
        }
        if !given.grade {
            timeouts.grade = timeouts.grade.max(chosen + GRADING_BESIDES);
        } else if let (Some(number), true) = (written, chosen > timeouts.grade) {
            let (needed, grade) = (chosen.as_secs_f64(), timeouts.grade.as_secs_f64());
            let message = format!("the tests may take {needed} s, all of grading only {grade} s");
            let help = format!("lower it, or write `{}: {needed}` or more", Limit::Grade.key());
            self.problem(number.span, message, "can never fire", help);
        }
        chosen.min(timeouts.grade)
    }

    fn fail_to_pass(&mut self, names: Option<Located<NamesFile>>, place: Span) -> NamesRow {
        let help =
            "list the tests that the fix makes pass: `fail_to_pass: [\"test_x (tests.test_a.A.test_x)\"]`";
        match names {
            Some(Located { value: NamesFile::List(names), span }) if names.is_empty() => {
                self.problem(span, "`fail_to_pass` is empty", "nothing to fix", help);
                NamesRow::List(names)
            }
            Some(names) => self.names_of(names),
            None => {
                self.problem(place, "`swe` has no `fail_to_pass`", "nothing decides", help);
                NamesRow::List(Vec::new())
            }
        }
    }

    fn names_of(&mut self, names: Located<NamesFile>) -> NamesRow {
        let from = match names.value {
            NamesFile::List(names) => return NamesRow::List(names),
            NamesFile::From(from) => from.from,
        };
        self.names_in(&from).map_or_else(|| NamesRow::List(Vec::new()), NamesRow::File)
    }

    /// A JSON list of names in a file beside the suite.
    fn names_in(&mut self, path: &Text) -> Option<TestNames> {
        if !self.fixture_path(path, value::file_path) {
            return None;
        }
        let text = match self.fixtures.list(path, bounds::MAX_ROWS_BYTES) {
            Ok((_, text)) => text,
            Err(error) => {
                self.fixture_problem(path.span, error);
                return None;
            }
        };
        if let Err(error) = serde_json::from_str::<Vec<String>>(&text) {
            let message = format!("`{}` is no JSON list of names: {error}", path.value);
            self.problem(path.span, message, "read from here", "write `[\"test_a\", \"test_b\"]` into it");
            return None;
        }
        match self.fixtures.reference(path)? {
            FixtureContent::Host { path, sha256 } => Some(TestNames::Host { path, sha256 }),
            FixtureContent::Inline(_) => None,
        }
    }

    /// A unified diff beside the suite.
    pub(super) fn patch(&mut self, path: &Text) -> Option<FixtureContent> {
        if !self.fixture_path(path, value::file_path) {
            return None;
        }
        match self.fixtures.file(path) {
            Ok(file) => Some(file.content),
            Err(error) => {
                self.fixture_problem(path.span, error);
                None
            }
        }
    }
}
