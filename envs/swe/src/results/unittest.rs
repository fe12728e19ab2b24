//! The log of Python's unittest (`-v`), and of Django's runner, which has the same format.
//!
//! A test with a description is reported on two lines, the second with the description; both are names of it. A test's
//! own output comes between its name and its status.

use std::sync::LazyLock;

use regex::Regex;

use super::lines::constant;
use super::{TestResults, TestStatus};

pub(super) fn read(log: &str, results: &mut TestResults) {
    static NAME: LazyLock<Regex> = LazyLock::new(|| constant(r"^\s*(\w+ \([\w.]+\))"));
    static STATUS: LazyLock<Regex> = LazyLock::new(|| {
        constant(
            r"^(?:.* \.\.\. )?\s*(ok|OK|FAIL|ERROR|skipped(?: .*)?|expected failure|unexpected success)\s*$",
        )
    });
    static ENDED: LazyLock<Regex> = LazyLock::new(|| constant(r"^(FAIL|ERROR): (\w+ \([\w.]+\))"));
    // Names of the test without a status so far.
    let mut open: Vec<&str> = Vec::new();
    let mut described = None;
    for line in log.lines() {
        if let Some(found) = ENDED.captures(line) {
            let status = if &found[1] == "FAIL" { TestStatus::Failed } else { TestStatus::Error };
            results.note(&found[2], status);
            open.clear();
            continue;
        }
        let own = NAME.captures(line).and_then(|found| found.get(1)).map(|name| name.as_str());
        let told = match line.split_once(" ... ") {
            Some((before, told)) => {
                open = own.or(described.take()).into_iter().collect();
                if own.is_none() {
                    open.push(before);
                }
                told
            }
            // It may be the end of a test that printed something.
            None if own.is_none() => line,
            // Its description follows.
            None => {
                described = own.filter(|name| line.trim() == *name);
                continue;
            }
        };
        let Some(status) = STATUS.captures(told).and_then(|found| status(&found[1])) else { continue };
        open.drain(..).for_each(|name| results.note(name, status));
    }
}

fn status(words: &str) -> Option<TestStatus> {
    Some(match words {
        "ok" | "OK" => TestStatus::Passed,
        "FAIL" | "unexpected success" => TestStatus::Failed,
        "ERROR" => TestStatus::Error,
        "expected failure" => TestStatus::ExpectedFailure,
        other if other.starts_with("skipped") => TestStatus::Skipped,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use TestStatus::{Error, ExpectedFailure, Failed, Passed, Skipped};
    use clawrl_core::LogParser;

    fn check(log: &str, expected: &[(&str, TestStatus)]) {
        super::super::parser::tests::check(LogParser::Unittest, log, expected);
    }

    #[test]
    fn a_log_of_everything() {
        check(
            include_str!("../../tests/fixtures/unittest.txt"),
            &[
                ("Says what it is.", Passed),
                ("setUpClass (test_u.B)", Error),
                ("test_doc (test_u.A.test_doc)", Passed),
                ("test_error (test_u.A.test_error)", Error),
                ("test_fail (test_u.A.test_fail)", Failed),
                ("test_ok (test_u.A.test_ok)", Passed),
                ("test_prints (test_u.A.test_prints)", Passed),
                ("test_skip (test_u.A.test_skip)", Skipped),
                ("test_sub (test_u.A.test_sub)", Failed),
                ("test_xfail (test_u.A.test_xfail)", ExpectedFailure),
                ("test_xpass (test_u.A.test_xpass)", Failed),
            ],
        );
    }

    #[test]
    fn test_output_is_not_another_tests_status() {
        check(
            "test_a (t.A) ... System check identified no issues (0 silenced).\nok\nok\n",
            &[("test_a (t.A)", Passed)],
        );
        check("test_a (t.A) ... started\ntest_b (t.A) ... ok\nok\n", &[("test_b (t.A)", Passed)]);
        check("book\nok\n", &[]);
    }
}
