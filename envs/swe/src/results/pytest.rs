//! The log of pytest: its summary (`-rA`), and its progress lines (`-v`).

use std::sync::LazyLock;

use regex::Regex;

use super::lines::constant;
use super::{TestResults, TestStatus};

pub(super) fn read(log: &str, results: &mut TestResults) {
    // Under xdist, the worker and its progress come first.
    static SUMMARY: LazyLock<Regex> = LazyLock::new(|| {
        constant(r"^(?:\[gw\d+\] (?:\[ *\d+%\] )?)?(PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS) (\S.*)$")
    });
    static AS_IT_GOES: LazyLock<Regex> = LazyLock::new(|| {
        constant(r"^(\S.*::.*\S) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)(?: \(.*\))?\s*(?:\[ *\d+%\])?$")
    });
    for line in log.lines() {
        if let Some(found) = SUMMARY.captures(line) {
            // `SKIPPED [2] test_a.py:18: reason` counts tests and names none.
            if !(&found[1] == "SKIPPED" && found[2].starts_with('[')) {
                results.note(name(&found[2]), status(&found[1]));
            }
        } else if let Some(found) = AS_IT_GOES.captures(line) {
            results.note(&found[1], status(&found[2]));
        }
    }
}

fn status(word: &str) -> TestStatus {
    match word {
        "PASSED" | "XPASS" => TestStatus::Passed,
        "XFAIL" => TestStatus::ExpectedFailure,
        "SKIPPED" => TestStatus::Skipped,
        "FAILED" => TestStatus::Failed,
        _ => TestStatus::Error,
    }
}

/// The part before the reason; parameters may contain a dash like the one before the reason.
fn name(rest: &str) -> &str {
    let (mut depth, mut last) = (0_i64, 0);
    let dashes = rest.match_indices(" - ").map(|(at, _)| at);
    let mut first = None;
    for at in dashes {
        first.get_or_insert(at);
        depth += balance(&rest[last..at]);
        last = at;
        if depth == 0 {
            return &rest[..at];
        }
    }
    depth += balance(&rest[last..]);
    // Unbalanced brackets, possibly of the reason: as SWE-bench does it.
    if depth == 0 { rest } else { first.map_or(rest, |at| &rest[..at]) }
}

fn balance(text: &str) -> i64 {
    text.chars().map(|c| i64::from(c == '[') - i64::from(c == ']')).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use TestStatus::{Error, ExpectedFailure, Failed, Passed, Skipped};
    use clawrl_core::LogParser;

    fn check(log: &str, expected: &[(&str, TestStatus)]) {
        super::super::parser::tests::check(LogParser::Pytest, log, expected);
    }

    /// One of the tests prints that two others passed: it gains nothing.
    #[test]
    fn dash_in_parameter_does_not_start_reason() {
        check(
            "PASSED t.py::a[c - d]\nFAILED t.py::a[c - e] - assert 1 == 2\nPASSED t.py::b\n",
            &[("t.py::a[c - d]", Passed), ("t.py::a[c - e]", Failed), ("t.py::b", Passed)],
        );
    }

    #[test]
    fn a_summary_of_all() {
        check(
            include_str!("../../tests/fixtures/pytest.txt"),
            &[
                ("test_a.py::test_errors", Error),
                ("test_a.py::test_fails", Failed),
                ("test_a.py::test_forges", Passed),
                ("test_a.py::test_param[a b]", Passed),
                ("test_a.py::test_param[c - d]", Failed),
                ("test_a.py::test_param[e[f]]", Passed),
                ("test_a.py::test_xfail", ExpectedFailure),
                ("test_a.py::test_xpass", Passed),
            ],
        );
    }

    #[test]
    fn lines_as_it_goes_in_colour() {
        check(
            include_str!("../../tests/fixtures/pytest-verbose.txt"),
            &[
                ("test_a.py::test_errors", Error),
                ("test_a.py::test_fails", Failed),
                ("test_a.py::test_forges", Passed),
                ("test_a.py::test_param[a b]", Passed),
                ("test_a.py::test_param[c - d]", Failed),
                ("test_a.py::test_param[e[f]]", Passed),
                ("test_a.py::test_skipped", Skipped),
                ("test_a.py::test_xfail", ExpectedFailure),
                ("test_a.py::test_xpass", Passed),
            ],
        );
    }

    #[test]
    fn workers_and_odd_names() {
        check(
            "[gw1] [ 50%] PASSED a.py::b\n[gw0] FAILED a.py::c\n",
            &[("a.py::b", Passed), ("a.py::c", Failed)],
        );
        check("FAILED a.py::b[[ - x", &[("a.py::b[[", Failed)]);
        check("ERROR a.py - ImportError: no\nERROR b.py", &[("a.py", Error), ("b.py", Error)]);
        check("SKIPPED [1] a.py:3: PASSED\nSKIPPED a.py::b\n PASSED a.py::c", &[("a.py::b", Skipped)]);
    }
}
