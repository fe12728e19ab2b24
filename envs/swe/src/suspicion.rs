//! Words in a change that code under test seldom needs, and that forging a run of tests does: names of the tests that
//! decide, of the runner, of what ends a process, and what the runner prints.
//!
//! A hint for whoever reads the attempt, and no proof: nothing is scored by it, and who knows the words can do without them.

use clawrl_core::LogParser;

use crate::resolution::ExpectedTests;

/// Most words that are named.
const NAMED: usize = 5;

/// The words in what a unified diff adds.
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

/// What a test is called in its file; nothing where that is a word of every day.
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
    fn what_a_change_adds_is_looked_through() {
        check("+++ b/unittest.py\n-import unittest\n test_add\n+return a + b\n+a test\n", &[]);
        check("+print('test_add')\n", &["test_add"]);
        check("+import unittest, os\n+os._exit(0)\n", &["_exit(", "unittest"]);
    }
}
