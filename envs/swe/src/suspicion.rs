//! Finds words in a change that code under test seldom needs, but forging a test run does: names of the deciding tests,
//! of the runner, of calls that end a process, and of the runner's output.
//!
//! A hint for a reader of the attempt, not a proof: it does not affect the score, and an informed forger can avoid the
//! words.

use clawrl_core::LogParser;

use crate::resolution::ExpectedTests;

const NAMED: usize = 5;

/// The words in the added lines of a unified diff.
pub(crate) fn words(parser: LogParser, expected: &ExpectedTests, patch: &str) -> Vec<String> {
    let of_runner: &[&str] = match parser {
        LogParser::Pytest | LogParser::Unittest => {
            &["unittest", "pytest", "_exit(", "... ok", "PASSED", "sys.modules", "atexit"]
        }
        LogParser::Cargo => &["process::exit", "process::abort", "... ok"],
        LogParser::Go => &["os.Exit", "--- PASS"],
        LogParser::Jest => &["process.exit", "process.reallyExit", "jest", "✓"],
    };
    let names =
        expected.fail_to_pass.iter().chain(&expected.pass_to_pass).filter_map(|name| bare(parser, name));
    let mut words: Vec<&str> = of_runner.iter().copied().chain(names).collect();
    words.sort_unstable();
    words.dedup();
    let added: String = patch
        .split_inclusive('\n')
        .filter(|line| line.starts_with('+') && !line.starts_with("+++ "))
        .collect();
    words.retain(|word| added.contains(word));
    words.truncate(NAMED);
    words.into_iter().map(str::to_owned).collect()
}

/// A test's name in its file; `None` if that is a common word.
fn bare(parser: LogParser, name: &str) -> Option<&str> {
    let bare = match parser {
        LogParser::Pytest => name.split('[').next()?.rsplit("::").next()?,
        LogParser::Unittest => name.split(' ').next()?,
        LogParser::Cargo => name.rsplit("::").next()?,
        LogParser::Go => name.split('/').next()?,
        LogParser::Jest => name,
    };
    (bare.len() >= 8 && bare.to_lowercase().contains("test")).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patch: &str, expected: &[&str]) {
        let tests = ExpectedTests {
            fail_to_pass: vec!["test_add (a.A.test_add)".to_owned(), "test (a.A.test)".to_owned()],
            ..ExpectedTests::default()
        };
        assert_eq!(words(LogParser::Unittest, &tests, patch), expected, "{patch}");
    }

    #[test]
    fn only_added_lines_are_searched() {
        check("+++ b/unittest.py\n-import unittest\n test_add\n+return a + b\n+a test\n", &[]);
        check("+print('test_add')\n", &["test_add"]);
        check("+import unittest, os\n+os._exit(0)\n", &["_exit(", "unittest"]);
    }
}
