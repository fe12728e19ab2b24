//! Selects the parser of a log.

use clawrl_core::LogParser;

use super::{TestResults, lines, pytest, unittest};

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
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::results::TestStatus;

    pub(in crate::results) fn check(parser: LogParser, log: &str, expected: &[(&str, TestStatus)]) {
        let results = TestResults::read(parser, log);
        assert_eq!(results.iter().collect::<Vec<_>>(), expected, "{log}");
    }

    #[test]
    fn r1_the_worse_status_counts() {
        let log = "test a ... ok\ntest a ... FAILED\ntest a ... ok\n";
        check(LogParser::Cargo, log, &[("a", TestStatus::Failed)]);
    }

    #[test]
    fn cut_names_match_by_prefix() {
        let log = "PASSED t.py::a[x y]\nPASSED t.py::a[x z]\nFAILED t.py::b[x y]\nPASSED t.py::b[x z]\n";
        let results = TestResults::read(LogParser::Pytest, log);
        assert_eq!(results.status("t.py::a[x"), Some(TestStatus::Passed));
        assert_eq!(results.status("t.py::b[x"), None);
        assert_eq!(results.status("t.py::b[x y]"), Some(TestStatus::Failed));
        assert_eq!(results.status("t.py::a"), None);
        assert_eq!(results.status("t.py::c[x"), None);
    }

    #[test]
    fn names_of_unittest_stand_for_those_of_any_python() {
        let log = "test_x (tests.test_a.A) ... ok\ntest_y (tests.test_a.A.test_y) ... FAIL\n";
        let results = TestResults::read(LogParser::Unittest, log);
        for (name, expected) in [
            ("test_x (tests.test_a.A)", Some(TestStatus::Passed)),
            ("test_x (tests.test_a.A.test_x)", Some(TestStatus::Passed)),
            ("test_y (tests.test_a.A)", Some(TestStatus::Failed)),
            ("test_z (tests.test_a.A)", None),
            ("test_x (tests.test_b.A)", None),
        ] {
            assert_eq!(results.status(name), expected, "{name}");
        }
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
