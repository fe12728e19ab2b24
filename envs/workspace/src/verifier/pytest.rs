//! Parses pytest's short summary.
//!
//! All tests must pass. A skipped test and an expected failure count as passed; an unexpected pass does not. Lines of
//! single tests exist with `pytest -rA`; without it, only failures have a line, and the counts in the last line tell
//! the rest.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum lines kept for the record.
const MAX_LINES: usize = 50;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// Tests that count as passed, and all others.
    pub(super) passed: u64,
    pub(super) failed: u64,
    /// Lines of single tests, failures first: whether it passed, and the line.
    pub(super) lines: Vec<(bool, String)>,
}

/// Parses an output; `None` when it has no result of pytest.
pub(super) fn summary(output: &str) -> Option<Summary> {
    let mut summary = Summary::default();
    let mut has_summary = false;
    let (mut listed_passed, mut listed_failed) = (0, 0);
    // A verifier may call pytest more than once: every summary counts.
    let mut in_section = false;
    for line in output.lines().map(without_colour) {
        let line = line.trim();
        if let Some(title) = bar(line) {
            in_section = title == "short test summary info";
            if let Some((passed, failed)) = counts(title) {
                has_summary = true;
                summary.passed += passed;
                summary.failed += failed;
            }
        } else if in_section && let Some((passed, number)) = outcome(line) {
            *if passed { &mut listed_passed } else { &mut listed_failed } += number;
            summary.lines.push((passed, line.to_owned()));
        }
    }
    if !has_summary && listed_passed + listed_failed == 0 {
        return None;
    }
    summary.passed = summary.passed.max(listed_passed);
    summary.failed = summary.failed.max(listed_failed);
    if summary.passed + summary.failed == 0 {
        return None;
    }
    summary.lines.sort_by_key(|&(passed, _)| passed);
    summary.lines.truncate(MAX_LINES);
    Some(summary)
}

/// The text of a line between two rows of `=`. With `-q`, the last line has none.
fn bar(line: &str) -> Option<&str> {
    let title = line.trim_matches('=');
    let has_bar = line.starts_with("==") && line.ends_with("==");
    if has_bar || counts(line).is_some() { Some(title.trim()) } else { None }
}

/// Passed and other tests in `2 failed, 3 passed, 1 warning in 0.12s`.
fn counts(title: &str) -> Option<(u64, u64)> {
    static SHAPE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let kind = r"\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?|rerun)";
        Regex::new(&format!(r"^({kind}(?:, {kind})*) in [\d.]+s(?: \([\d:, a-z]+\))?$")).ok()
    });
    let list = SHAPE.as_ref()?.captures(title)?.get(1)?.as_str().to_owned();
    let (mut passed, mut failed) = (0u64, 0u64);
    for part in list.split(", ") {
        let (number, kind) = part.split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match kind {
            "passed" | "skipped" | "xfailed" => passed = passed.saturating_add(number),
            "failed" | "error" | "errors" | "xpassed" => failed = failed.saturating_add(number),
            _ => {}
        }
    }
    Some((passed, failed))
}

/// Whether the tests of a line have passed, and their number: `SKIPPED [3] …` stands for three.
fn outcome(line: &str) -> Option<(bool, u64)> {
    let (word, rest) = line.split_once(' ')?;
    let passed = match word {
        "PASSED" | "XFAIL" => true,
        "FAILED" | "ERROR" | "XPASS" => false,
        "SKIPPED" => {
            let number =
                rest.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(number, _)| number);
            return Some((true, number.and_then(|number| number.parse().ok()).unwrap_or(1)));
        }
        _ => return None,
    };
    Some((passed, 1))
}

/// A line without colour escapes.
fn without_colour(line: &str) -> String {
    let mut plain = String::new();
    let mut parts = line.split("\u{1b}[");
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        plain.push_str(&part[end..]);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, expected: Option<(u64, u64)>) {
        let found = summary(output).map(|summary| (summary.passed, summary.failed));
        assert_eq!(found, expected, "{output}");
    }

    #[test]
    fn results_are_read() {
        check("", None);
        check("Traceback (most recent call last):\nImportError", None);
        check("==== 3 passed in 0.02s ====", Some((3, 0)));
        check("==== 1 failed, 2 passed, 1 warning in 61.50s (0:01:01) ====", Some((2, 1)));
        check("2 passed in 0.01s", Some((2, 0)));
        check("==== 1 passed, 1 xpassed in 0.01s ====", Some((1, 1)));
        check("==== 1 skipped, 1 xfailed in 0.01s ====", Some((2, 0)));
        check("==== no tests ran in 0.01s ====", None);
        check("==== 2 warnings in 0.01s ====", None);
        check(
            "\u{1b}[32m==== \u{1b}[1m3 passed\u{1b}[0m\u{1b}[32m in 0.02s\u{1b}[0m ====\u{1b}[0m",
            Some((3, 0)),
        );
    }

    #[test]
    fn lines_are_read_in_their_section_only() {
        let output = "FAILED not::this\n\
                      =========== short test summary info ===========\n\
                      PASSED tests/a.py::one\nSKIPPED [2] tests/a.py:4: later\nXFAIL tests/a.py::two - known\n\
                      ERROR tests/b.py\n\
                      =========== 1 passed, 2 skipped, 1 xfailed, 1 error in 0.10s ===========\n\
                      FAILED nor::this\n";
        let found = summary(output).unwrap();
        assert_eq!((found.passed, found.failed), (4, 1));
        let lines: Vec<_> = found.lines.iter().map(|(passed, line)| (*passed, line.as_str())).collect();
        assert_eq!(lines[0], (false, "ERROR tests/b.py"));
        assert_eq!(lines.len(), 4);
    }

    #[test]
    fn every_run_counts() {
        check("==== 3 passed in 0.02s ====\n==== 1 failed in 0.02s ====", Some((3, 1)));
    }

    #[test]
    fn kept_lines_are_bounded() {
        let lines: String = (0..10_000).map(|number| format!("PASSED t.py::n{number}\n")).collect();
        let found = summary(&format!("== short test summary info ==\n{lines}FAILED t.py::bad\n")).unwrap();
        assert_eq!((found.passed, found.failed, found.lines.len()), (10_000, 1, MAX_LINES));
        assert!(!found.lines[0].0);
    }
}
