//! Runners that print one line per result: cargo test, go test, jest. Also removes colours from logs.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::{TestResults, TestStatus};

#[expect(clippy::expect_used, reason = "a constant; every test of this module compiles it")]
pub(super) fn constant(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

/// The text without colours and carriage returns (R2).
pub(super) fn plain(log: &str) -> Cow<'_, str> {
    static LOOKS: LazyLock<Regex> = LazyLock::new(|| constant(r"\x1b\[[0-9;?]*[A-Za-z]|\r"));
    LOOKS.replace_all(log, "")
}

/// `test module::name ... ok`, and names of documentation tests: `src/lib.rs - name (line 3)`.
pub(super) fn cargo(log: &str, results: &mut TestResults) {
    static LINE: LazyLock<Regex> = LazyLock::new(|| {
        constant(
            r"(?m)^\s*test (?<name>.+?)(?: - should panic)? \.\.\. (?<status>ok|FAILED|ignored)(?:$|[ ,])",
        )
    });
    each(&LINE, ["ok", "FAILED"], log, results);
}

/// `--- PASS: TestX/case (0.00s)`, subtests indented.
pub(super) fn go(log: &str, results: &mut TestResults) {
    static LINE: LazyLock<Regex> =
        LazyLock::new(|| constant(r"(?m)^\s*--- (?<status>PASS|FAIL|SKIP): (?<name>.+) \([0-9.]+s\)$"));
    each(&LINE, ["PASS", "FAIL"], log, results);
}

/// `✓ name (5 ms)`, without the names of the enclosing blocks.
pub(super) fn jest(log: &str, results: &mut TestResults) {
    static LINE: LazyLock<Regex> = LazyLock::new(|| {
        constant(r"(?m)^\s*(?<status>✓|✕|○|✎) (?:(?:skipped|todo) )?(?<name>.+?)(?: \([0-9.]+ m?s\))?$")
    });
    each(&LINE, ["✓", "✕"], log, results);
}

/// Records every line's `name` with its `status`; any other word means that it was not run.
fn each(line: &Regex, [passed, failed]: [&str; 2], log: &str, results: &mut TestResults) {
    for found in line.captures_iter(log) {
        let status = match &found["status"] {
            word if word == passed => TestStatus::Passed,
            word if word == failed => TestStatus::Failed,
            _ => TestStatus::Skipped,
        };
        results.note(&found["name"], status);
    }
}

#[cfg(test)]
mod tests {
    use super::super::parser::tests::check;
    use super::*;
    use TestStatus::{Failed, Passed, Skipped};
    use clawrl_core::LogParser;

    #[test]
    fn cargo_prints_one_line_per_test() {
        let log = "\nrunning 5 tests\ntest a::b ... ok\r\ntest c ... \u{1b}[31mFAILED\u{1b}[0m\n\
                   test d - should panic ... ok\ntest e ... ignored, later\n\
                   test src/lib.rs - f (line 3) ... ok\ntest result: FAILED. 3 passed; 1 failed\n";
        let expected = [
            ("a::b", Passed),
            ("c", Failed),
            ("d", Passed),
            ("e", Skipped),
            ("src/lib.rs - f (line 3)", Passed),
        ];
        check(LogParser::Cargo, log, &expected);
    }

    #[test]
    fn go_indents_subtests() {
        let log = "=== RUN   TestA\n=== RUN   TestA/some_case\n--- FAIL: TestA (0.01s)\n    --- PASS: TestA/some_case (0.00s)\n\
                   --- SKIP: TestB (0.00s)\nPASS\nok  \texample.com/a\t0.003s\n";
        check(LogParser::Go, log, &[("TestA", Failed), ("TestA/some_case", Passed), ("TestB", Skipped)]);
    }

    #[test]
    fn jest_names_lack_their_blocks() {
        let log = include_str!("../../tests/fixtures/jest.txt");
        let expected =
            [("adds (small) numbers", Passed), ("fails", Failed), ("later", Skipped), ("some day", Skipped)];
        check(LogParser::Jest, log, &expected);
    }
}
