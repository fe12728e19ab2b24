//! Runs of a package's tests in the caller's sandbox (Y3), and their verdict on a fault (Y1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Maximum tests that a fault breaks: an issue would not describe a larger bug.
const MAX_FAILING: usize = 40;

/// Maximum share of the tests that a fault breaks.
const FAILING_SHARE: f64 = 0.2;

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFile {
    /// Path from the package's root.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Content.
    pub content: Arc<[u8]>,
}

/// A test run.
#[derive(Debug, Clone)]
pub struct TestJob {
    /// The package.
    pub files: Arc<[TestFile]>,
    /// One of its files, with other content.
    pub change: Option<TestFile>,
    /// For `bash -c` in the package's root.
    pub command: String,
    /// The parser of its output, as a suite names it.
    pub parser: String,
    /// Time limit, after which it is killed.
    pub timeout: Duration,
    /// `PYTHONHASHSEED`.
    pub hash_seed: u32,
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestEnd {
    /// It passed, or failed as expected.
    Passed,
    /// It failed, or raised an error.
    Failed,
    /// It was not run.
    Skipped,
}

/// Result of a [`TestJob`].
#[derive(Debug, Clone, Default)]
pub struct TestRun {
    /// All tests in the log.
    pub tests: BTreeMap<String, TestEnd>,
    /// `None` if it was killed.
    pub exit_code: Option<i32>,
    /// Its output.
    pub log: String,
}

/// Runs tests in isolation.
pub trait TestRunner {
    /// Runs the jobs; results have the order of the jobs.
    ///
    /// # Errors
    /// Why a job could not run.
    fn run(&self, jobs: Vec<TestJob>) -> Result<Vec<TestRun>, String>;
}

/// Why a fault does not become a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rejection {
    /// All tests still pass.
    Unnoticed,
    /// It breaks too many tests.
    TooMany,
    /// Tests are missing from the log: they could not be loaded, or the run broke off.
    Hidden,
    /// It was killed.
    Endless,
    /// Two runs differ.
    Unsteady,
    /// Its tests only raise a type error, and enough other tasks do already.
    Crash,
}

/// Names that identify a test: unittest also prints the first lines of docstrings.
pub(super) fn passing(run: &TestRun, parser: &str) -> BTreeSet<String> {
    let is_name = |name: &str| parser != "unittest" || is_of_unittest(name);
    let passed = run.tests.iter().filter(|(name, end)| **end == TestEnd::Passed && is_name(name));
    passed.map(|(name, _)| name.clone()).collect()
}

/// `test_x (tests.test_a.A)`.
fn is_of_unittest(name: &str) -> bool {
    let is_word = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_' || more.contains(c))
    };
    name.strip_suffix(')')
        .and_then(|name| name.split_once(" ("))
        .is_some_and(|(test, class)| is_word(test, "") && is_word(class, "."))
}

/// The tests that a fault breaks, of those that pass without it.
///
/// # Errors
/// Why it does not become a task.
pub(super) fn failing(base: &BTreeSet<String>, run: &TestRun) -> Result<Vec<String>, Rejection> {
    if run.exit_code.is_none() {
        return Err(Rejection::Endless);
    }
    if base.iter().any(|name| !run.tests.contains_key(name)) {
        return Err(Rejection::Hidden);
    }
    let failed = base.iter().filter(|name| run.tests.get(*name) != Some(&TestEnd::Passed));
    let failed: Vec<String> = failed.cloned().collect();
    let max = ((base.len() as f64 * FAILING_SHARE) as usize).clamp(1, MAX_FAILING);
    match failed.len() {
        0 => Err(Rejection::Unnoticed),
        count if count > max => Err(Rejection::TooMany),
        _ => Ok(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ends: &[(&str, TestEnd)], exit_code: Option<i32>, expected: Result<&[&str], Rejection>) {
        let base: BTreeSet<String> = (0..10).map(|n| format!("test_{n} (t.T)")).collect();
        let mut run = TestRun { exit_code, ..TestRun::default() };
        for name in &base {
            run.tests.insert(name.clone(), TestEnd::Passed);
        }
        for (name, end) in ends {
            run.tests.insert((*name).to_owned(), *end);
        }
        let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(failing(&base, &run), expected, "{ends:?}");
    }

    #[test]
    fn y1_fault_fails_some_tests() {
        check(&[("test_3 (t.T)", TestEnd::Failed)], Some(1), Ok(&["test_3 (t.T)"]));
        check(&[("test_3 (t.T)", TestEnd::Failed)], None, Err(Rejection::Endless));
        check(&[("other (t.T)", TestEnd::Failed)], Some(1), Err(Rejection::Unnoticed));
        let many: Vec<String> = (0..3).map(|n| format!("test_{n} (t.T)")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), TestEnd::Failed)).collect();
        check(&many, Some(1), Err(Rejection::TooMany));
        let base = BTreeSet::from(["test_a (t.T)".to_owned()]);
        let empty = TestRun { exit_code: Some(1), ..TestRun::default() };
        assert_eq!(failing(&base, &empty), Err(Rejection::Hidden));
    }

    #[test]
    fn docstrings_are_not_test_names() {
        let mut run = TestRun::default();
        for name in ["test_a (t.T)", "Says what it is.", "setUpClass (t.T)", "a b (t.T)"] {
            run.tests.insert(name.to_owned(), TestEnd::Passed);
        }
        assert_eq!(passing(&run, "unittest").len(), 2);
        assert_eq!(passing(&run, "pytest").len(), 4);
    }
}
