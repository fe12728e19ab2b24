//! Whether an issue is resolved: all required tests pass.
//!
//! V1. A test that the log does not mention did not pass.
//! V2. If a run ends with an error and reports no failed test, its log is incomplete: none of it counts.
//!
//! Units: `fraction` in [0, 1]. Pure; nothing to cancel. Source: SWE-bench 5.0.2, `grading` (evaluation
//! `pass_and_fail`). Deviations: none.

use crate::results::{TestResults, TestStatus};

/// The deciding tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpectedTests {
    /// Tests that fail before the fix and pass with it.
    pub fail_to_pass: Vec<String>,
    /// Tests that pass before the fix and must still pass; a skipped one is not broken.
    pub pass_to_pass: Vec<String>,
}

/// Result of one deciding test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestOutcome {
    /// Its name, as expected.
    pub name: String,
    /// `None`: not in the log.
    pub status: Option<TestStatus>,
    /// Whether it meets the requirement.
    pub held: bool,
}

/// Results of all deciding tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// Whether every test meets the requirement.
    pub resolved: bool,
    /// Fraction of the tests that do, both kinds together.
    pub fraction: f64,
    /// The run ended with an error that no test explains (V2).
    pub unexplained: bool,
    /// Those that failed before the fix come first.
    pub tests: Vec<TestOutcome>,
}

impl Resolution {
    /// For a run that ended with this exit code; `None` if it did not end by itself.
    #[must_use]
    pub fn of(expected: &ExpectedTests, results: &TestResults, exit_code: Option<i32>) -> Self {
        let unexplained = exit_code != Some(0) && !results.any_failed();
        let outcome = |name: &String, may_be_skipped: bool| {
            let status = results.status(name);
            let passed = status
                .is_some_and(|status| status.passed() || (may_be_skipped && status == TestStatus::Skipped));
            TestOutcome { name: name.clone(), status, held: passed && !unexplained }
        };
        let fixed = expected.fail_to_pass.iter().map(|name| outcome(name, false));
        let kept = expected.pass_to_pass.iter().map(|name| outcome(name, true));
        let tests: Vec<TestOutcome> = fixed.chain(kept).collect();
        let held = tests.iter().filter(|test| test.held).count();
        Self {
            resolved: !tests.is_empty() && held == tests.len(),
            fraction: if tests.is_empty() { 0.0 } else { held as f64 / tests.len() as f64 },
            unexplained,
            tests,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clawrl_core::LogParser;

    fn check(log: &str, exit_code: Option<i32>, expected: (bool, f64, bool)) {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let tests = ExpectedTests { fail_to_pass: names(&["a", "b"]), pass_to_pass: names(&["c", "d"]) };
        let results = TestResults::read(LogParser::Cargo, log);
        let found = Resolution::of(&tests, &results, exit_code);
        assert_eq!((found.resolved, found.fraction, found.unexplained), expected, "{log}");
    }

    #[test]
    fn every_required_test_must_pass() {
        let all = "test a ... ok\ntest b ... ok\ntest c ... ok\ntest d ... ok\n";
        check(all, Some(0), (true, 1.0, false));
        // Others may fail.
        check(&format!("{all}test e ... FAILED\n"), Some(101), (true, 1.0, false));
        check(&all.replace("d ... ok", "d ... ignored"), Some(0), (true, 1.0, false));
        check(&all.replace("a ... ok", "a ... ignored"), Some(0), (false, 0.75, false));
        check(&all.replace("b ... ok", "b ... FAILED"), Some(101), (false, 0.75, false));
        // V1.
        check(&all.replace("test b ... ok\n", ""), Some(0), (false, 0.75, false));
        check("", Some(0), (false, 0.0, false));
        // V2.
        check(all, Some(1), (false, 0.0, true));
        check(all, None, (false, 0.0, true));
    }

    #[test]
    fn issue_without_tests_is_not_resolved() {
        let found = Resolution::of(&ExpectedTests::default(), &TestResults::default(), Some(0));
        assert!(!found.resolved && found.fraction == 0.0);
    }
}
