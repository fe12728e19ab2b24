//! Which runner wrote a log, and who reads it.

use super::{TestResults, lines, pytest, unittest};

/// Which runner wrote a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogParser {
    /// `pytest -rA` or `pytest -v`, also under xdist.
    Pytest,
    /// `python -m unittest -v`, and the runner of Django.
    Unittest,
    /// `cargo test`.
    Cargo,
    /// `go test -v`.
    Go,
    /// `jest --verbose`.
    Jest,
}

impl TestResults {
    /// Reads a log.
    #[must_use]
    pub fn read(parser: LogParser, log: &str) -> Self {
        let mut results = Self::default();
        let log = lines::plain(log);
        match parser {
            LogParser::Pytest => pytest::read(&log, &mut results),
            LogParser::Unittest => unittest::read(&log, &mut results),
            LogParser::Cargo => lines::cargo(&log, &mut results),
            LogParser::Go => lines::go(&log, &mut results),
            LogParser::Jest => lines::jest(&log, &mut results),
        }
        results
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::results::TestStatus;

    fn check(parser: LogParser, log: &str, expected: &[(&str, TestStatus)]) {
        let results = TestResults::read(parser, log);
        assert_eq!(results.iter().collect::<Vec<_>>(), expected, "{log}");
    }

    #[test]
    fn r1_the_worse_status_counts() {
        let log = "test a ... ok\ntest a ... FAILED\ntest a ... ok\n";
        check(LogParser::Cargo, log, &[("a", TestStatus::Failed)]);
    }

    #[test]
    fn names_that_were_cut_stand_for_all_that_begin_so() {
        let log = "PASSED t.py::a[x y]\nPASSED t.py::a[x z]\nFAILED t.py::b[x y]\nPASSED t.py::b[x z]\n";
        let results = TestResults::read(LogParser::Pytest, log);
        assert_eq!(results.status("t.py::a[x"), Some(TestStatus::Passed));
        assert_eq!(results.status("t.py::b[x"), None);
        assert_eq!(results.status("t.py::b[x y]"), Some(TestStatus::Failed));
        assert_eq!(results.status("t.py::a"), None);
        assert_eq!(results.status("t.py::c[x"), None);
    }

    proptest! {
        #[test]
        fn r3_any_text_is_read(log in r"(PASSED|FAILED|ok|test |--- PASS: | \.\.\. |✓|\[|\]|::|\(|\)|\x1b\[3|é| - |\n|\r){0,60}") {
            use LogParser::{Cargo, Go, Jest, Pytest, Unittest};
            for parser in [Pytest, Unittest, Cargo, Go, Jest] {
                for (name, _) in TestResults::read(parser, &log).iter() {
                    prop_assert!(!name.is_empty() && !name.contains('\n'));
                }
            }
        }
    }
}
