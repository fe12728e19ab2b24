//! Statuses of tests, by name.

use std::collections::BTreeMap;

/// How a test ended, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestStatus {
    /// It passed.
    Passed,
    /// It failed as expected.
    ExpectedFailure,
    /// It was not run.
    Skipped,
    /// It failed.
    Failed,
    /// It failed before it produced a result.
    Error,
}

/// The statuses of tests, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestResults(BTreeMap<String, TestStatus>);

impl TestResults {
    /// The status of a test; `None` if the log does not mention it.
    ///
    /// SWE-bench cut names in its rows at the first space, within a parameter: such a name stands for all names with
    /// this prefix, if they agree on whether they passed. Names of unittest contain the test once, or since Python 3.11
    /// twice: either form stands for both.
    #[must_use]
    pub fn status(&self, name: &str) -> Option<TestStatus> {
        if let (None, Some(other)) = (self.0.get(name), other_form(name)) {
            return self.0.get(&other).copied();
        }
        let is_cut = name.matches('[').count() > name.matches(']').count();
        if let (None, true) = (self.0.get(name), is_cut) {
            let mut begun = self.0.range(name.to_owned()..).take_while(|(of, _)| of.starts_with(name));
            let (_, first) = begun.next()?;
            return begun.all(|(_, other)| other.passed() == first.passed()).then_some(*first);
        }
        self.0.get(name).copied()
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, TestStatus)> {
        self.0.iter().map(|(name, status)| (name.as_str(), *status))
    }

    /// Whether some test failed or had an error.
    #[must_use]
    pub fn any_failed(&self) -> bool {
        self.0.values().any(|status| *status >= TestStatus::Failed)
    }

    /// R1.
    pub(super) fn note(&mut self, name: &str, status: TestStatus) {
        let name = name.trim();
        if !name.is_empty() {
            let known = self.0.entry(name.to_owned()).or_insert(status);
            *known = status.max(*known);
        }
    }
}

impl TestStatus {
    /// Word for reports.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::ExpectedFailure => "failed, as expected",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Error => "broke",
        }
    }

    /// Whether it counts as passed.
    #[must_use]
    pub fn passed(self) -> bool {
        matches!(self, Self::Passed | Self::ExpectedFailure)
    }
}

/// `test_x (tests.A.test_x)` for `test_x (tests.A)`, and the other way round.
fn other_form(name: &str) -> Option<String> {
    let (test, dotted) = name.strip_suffix(')')?.split_once(" (")?;
    match dotted.strip_suffix(test).and_then(|class| class.strip_suffix('.')) {
        Some(class) => Some(format!("{test} ({class})")),
        None => Some(format!("{test} ({dotted}.{test})")),
    }
}
