//! The software engineering environment of a task: tests that decide, a repository to start from, time to run them.

use std::time::Duration;

use clawrl_core::{
    FixtureContent, Limit, LogParser, SandboxKind, SweSpec, TestNames, TestScore, TestSpec, Timeouts,
};

use super::builder::TaskBuilder;
use super::row::Given;
use crate::bounds;
use crate::file::{FilesFile, Located, NamesFile, SweFile, Text};
use crate::source::Span;
use crate::value;

/// Default time limit of the tests.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

/// Time for grading besides the tests: sandbox, setup, applying the submission.
const GRADING_BESIDES: Duration = Duration::from_secs(300);

/// Default time for a reset: images come with large histories.
const RESETTING: Duration = Duration::from_secs(300);

const DEFAULT_OBSERVATION: u32 = 10_000;

impl<'s> TaskBuilder<'_, '_, 's> {
    /// The environment. Default limits of setup and grading are raised to the required time.
    pub(super) fn swe(
        &mut self,
        file: &'s SweFile,
        place: Span,
        given: Given,
        timeouts: &mut Timeouts,
    ) -> SweSpec {
        let has_image = file.image.is_some();
        let mut workspace = self.workspace(file.workspace());
        let has_files = match file.files.as_deref() {
            Some(FilesFile::Folder(path)) => {
                if !workspace.files.is_empty() {
                    let files = self.fixtures().referenced_folder(path);
                    workspace.files = files.map(|files| files.to_vec()).unwrap_or_default();
                }
                true
            }
            Some(FilesFile::Map(entries)) => !entries.0.is_empty(),
            None => false,
        };
        if workspace.sandbox == SandboxKind::None {
            self.problem(
                place,
                "a software engineering task needs a sandbox, and this one has `sandbox: none`",
                "its tests would run on the host",
                "remove `sandbox: none`",
            );
        }
        if !has_files && !has_image {
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
        let test = self.needed(file.test.as_ref(), place, "test", "test: python3 -m unittest discover -v");
        let parser = match file.parser {
            Some(parser) => parser.into(),
            None => {
                let help = "name the runner: `parser: pytest`, `unittest`, `cargo`, `go` or `jest`";
                self.problem(place, "`swe` has no `parser`", "who reads what the tests print?", help);
                LogParser::Pytest
            }
        };
        let apply = file.apply.iter().flatten();
        SweSpec {
            workspace,
            base_commit: file.base_commit.as_ref().and_then(|commit| self.ruled(commit, value::commit)),
            apply: apply.filter_map(|patch| self.patch(patch)).collect(),
            setup: self.texts(file.setup.as_deref().unwrap_or_default()),
            activate: self.optional(file.activate.as_ref()).flatten(),
            tests: TestSpec {
                run: test.and_then(|test| self.text(test)).unwrap_or_default(),
                parser,
                files: file.test_files.as_ref().map(|files| self.files(files)).unwrap_or_default(),
                patch: file.test_patch.as_ref().and_then(|patch| self.patch(patch)),
                fail_to_pass: self.fail_to_pass(file.fail_to_pass.as_ref(), place),
                pass_to_pass: match &file.pass_to_pass {
                    Some(names) => self.test_names(names),
                    None => TestNames::Inline(Vec::new()),
                },
                protected: self.all_ruled(file.protected.as_deref().unwrap_or_default(), value::path_pattern),
                timeout: self.test_timeout(file.test_timeout_secs.as_ref(), given, timeouts),
                score: file.score.map_or(TestScore::Resolved, Into::into),
            },
            observation_chars: self.whole(
                "observation_chars",
                file.observation_chars.as_ref(),
                bounds::MIN_OBSERVATION..=bounds::MAX_OBSERVATION,
                DEFAULT_OBSERVATION,
            ),
        }
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

    fn fail_to_pass(&mut self, names: Option<&'s Located<NamesFile>>, place: Span) -> TestNames {
        let help =
            "list the tests that the fix makes pass: `fail_to_pass: [\"test_x (tests.test_a.A.test_x)\"]`";
        let Some(names) = names else {
            self.problem(place, "`swe` has no `fail_to_pass`", "nothing decides", help);
            return TestNames::Inline(Vec::new());
        };
        if matches!(&names.value, NamesFile::List(names) if names.is_empty()) {
            self.problem(names.span, "`fail_to_pass` is empty", "nothing to fix", help);
        }
        self.test_names(names)
    }

    /// Names of tests: a list, or a JSON list in a file beside the suite.
    fn test_names(&mut self, names: &'s Located<NamesFile>) -> TestNames {
        let from = match &names.value {
            NamesFile::List(names) => return TestNames::Inline(self.texts(names)),
            NamesFile::From(from) => &from.from,
        };
        let names = self.fixture(from, value::file_path, |fixtures, path| fixtures.test_names(path));
        names.unwrap_or_else(|| TestNames::Inline(Vec::new()))
    }

    /// A unified diff beside the suite.
    fn patch(&mut self, path: &Text) -> Option<FixtureContent> {
        self.fixture(path, value::file_path, |fixtures, path| fixtures.file(path)).map(|file| file.content)
    }
}
