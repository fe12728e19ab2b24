//! Whether an issue is resolved: every test that has to pass does.
//!
//! V1. A test of which the log says nothing did not pass. V2. A run that ends with an error and tells of no failed test
//! did not tell everything: nothing of it counts.
//!
//! Units: `fraction` in [0, 1]. Pure; nothing to cancel.
//! Source: SWE-bench 5.0.2, `grading` (evaluation `pass_and_fail`). Deviations: none.

use crate::results::{TestResults, TestStatus};

/// The tests that decide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpectedTests {
    /// They fail before the fix and pass with it.
    pub fail_to_pass: Vec<String>,
    /// They pass before the fix and have to pass still; one that is skipped is not broken.
    pub pass_to_pass: Vec<String>,
}

/// What became of one test that decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestOutcome {
    /// Its name, as expected.
    pub name: String,
    /// `None`: the log says nothing of it.
    pub status: Option<TestStatus>,
    /// Whether it is as it has to be.
    pub held: bool,
}

/// What became of all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// Whether every test is as it has to be.
    pub resolved: bool,
    /// Part of the tests that are, of both kinds together.
    pub fraction: f64,
    /// The run ended with an error that no test explains (V2).
    pub unexplained: bool,
    /// First those that failed before the fix.
    pub tests: Vec<TestOutcome>,
}

impl Resolution {
    /// Of a run that ended with this exit code; `None` where it did not end by itself.
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
    fn every_test_has_to_hold() {
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
    fn nothing_is_resolved_by_no_tests() {
        let found = Resolution::of(&ExpectedTests::default(), &TestResults::default(), Some(0));
        assert!(!found.resolved && found.fraction == 0.0);
    }
}
