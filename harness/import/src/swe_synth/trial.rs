//! Runs of a package's tests, by whoever has a sandbox (Y3), and what they say of a fault (Y1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Most tests that a fault lets fail: more is no bug that an issue would be written about.
const MOST_FAILING: usize = 40;

/// Part of the tests that a fault may let fail.
const FAILING_SHARE: f64 = 0.2;

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFile {
    /// Path from the package's root.
    pub path: String,
    /// Permission bits.
    pub mode: u32,
    /// Its bytes.
    pub content: Arc<[u8]>,
}

/// Tests to run.
#[derive(Debug, Clone)]
pub struct TestJob {
    /// The package.
    pub files: Arc<[TestFile]>,
    /// One of its files with other bytes.
    pub change: Option<TestFile>,
    /// For `bash -c` in the package's root.
    pub command: String,
    /// Who reads what it prints, as a suite calls it.
    pub parser: String,
    /// It is killed by then.
    pub timeout: Duration,
    /// `PYTHONHASHSEED`.
    pub hash_seed: u32,
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestEnd {
    /// It passed, or failed as it was expected to.
    Passed,
    /// It failed, or broke.
    Failed,
    /// It was not run.
    Skipped,
}

/// What came of a [`TestJob`].
#[derive(Debug, Clone, Default)]
pub struct TestRun {
    /// Every test that the log tells of.
    pub tests: BTreeMap<String, TestEnd>,
    /// None where it was killed.
    pub exit_code: Option<i32>,
    /// What was printed.
    pub log: String,
}

/// Who runs tests where they can do no harm.
pub trait TestRunner {
    /// Runs them; results come in the order of the jobs.
    ///
    /// # Errors
    /// What kept one of them from being run.
    fn run(&self, jobs: Vec<TestJob>) -> Result<Vec<TestRun>, String>;
}

/// Why a fault makes no task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unfit {
    /// Every test passes still.
    Unnoticed,
    /// It lets too many fail.
    TooMany,
    /// Tests are not told of any more: they could not be loaded, or the run broke off.
    Hidden,
    /// It was killed.
    Endless,
    /// Another run said something else.
    Unsteady,
    /// Its tests only break on an object of a wrong kind, as enough others do already.
    Crash,
}

/// Names by which a test can be told from all others: unittest also tells the first lines of descriptions.
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

/// The tests that a fault lets fail, of those that pass without it.
///
/// # Errors
/// Why it makes no task.
pub(super) fn failing(base: &BTreeSet<String>, run: &TestRun) -> Result<Vec<String>, Unfit> {
    if run.exit_code.is_none() {
        return Err(Unfit::Endless);
    }
    if base.iter().any(|name| !run.tests.contains_key(name)) {
        return Err(Unfit::Hidden);
    }
    let failed = base.iter().filter(|name| run.tests.get(*name) != Some(&TestEnd::Passed));
    let failed: Vec<String> = failed.cloned().collect();
    let most = ((base.len() as f64 * FAILING_SHARE) as usize).clamp(1, MOST_FAILING);
    match failed.len() {
        0 => Err(Unfit::Unnoticed),
        count if count > most => Err(Unfit::TooMany),
        _ => Ok(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(ends: &[(&str, TestEnd)], exit_code: Option<i32>, expected: Result<&[&str], Unfit>) {
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
    fn y1_faults_are_found_by_some_tests() {
        check(&[("test_3 (t.T)", TestEnd::Failed)], Some(1), Ok(&["test_3 (t.T)"]));
        check(&[("test_3 (t.T)", TestEnd::Failed)], None, Err(Unfit::Endless));
        check(&[("other (t.T)", TestEnd::Failed)], Some(1), Err(Unfit::Unnoticed));
        let many: Vec<String> = (0..3).map(|n| format!("test_{n} (t.T)")).collect();
        let many: Vec<_> = many.iter().map(|name| (name.as_str(), TestEnd::Failed)).collect();
        check(&many, Some(1), Err(Unfit::TooMany));
        let base = BTreeSet::from(["test_a (t.T)".to_owned()]);
        let empty = TestRun { exit_code: Some(1), ..TestRun::default() };
        assert_eq!(failing(&base, &empty), Err(Unfit::Hidden));
    }

    #[test]
    fn descriptions_are_no_names() {
        let mut run = TestRun::default();
        for name in ["test_a (t.T)", "Says what it is.", "setUpClass (t.T)", "a b (t.T)"] {
            run.tests.insert(name.to_owned(), TestEnd::Passed);
        }
        assert_eq!(passing(&run, "unittest").len(), 2);
        assert_eq!(passing(&run, "pytest").len(), 4);
    }
}
