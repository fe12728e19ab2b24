//! G2: runs of tests that hang, end early, print without end, or take all memory.

use std::time::Duration;

use clawrl_core::Grade;
use clawrl_testkit::{SWE_FIX, bash, swe_grade, swe_spec, swe_task};

use crate::support::with_provider;

/// Grades the code under test after a command changed it.
fn graded(code: &'static str, check: impl FnOnce(Grade)) {
    with_provider(|provider| async move {
        let mut spec = swe_spec();
        spec.tests.timeout = Duration::from_secs(5);
        let calls = [bash(SWE_FIX), bash(code)];
        check(swe_grade(provider.as_ref(), &swe_task(spec), &calls).await);
    });
}

#[test]
fn tests_that_hang_have_not_passed() {
    graded("printf 'import time\\ntime.sleep(1000)\\n' >> calc.py", |grade| {
        assert_eq!(
            (grade.score, grade.flags.as_slice()),
            (0.0, ["tests-timed-out".to_owned()].as_slice()),
            "{grade:?}"
        );
        assert!(grade.checks[0].message.ends_with("the tests did not end within 5.0 s"), "{grade:?}");
    });
}

#[test]
fn processes_left_by_tests_do_not_block() {
    graded(
        "printf 'import subprocess\\nsubprocess.Popen([\"sleep\", \"1000\"], start_new_session=True)\\n' >> calc.py",
        |grade| {
            assert!(grade.passed, "{grade:?}");
        },
    );
}

#[test]
fn binary_test_output_is_parsed() {
    graded(
        "printf 'import os\\nos.write(2, b\"\\\\xff\\\\xfe\\\\x00 test_x\\\\n\" * 1000)\\n' >> calc.py",
        |grade| {
            assert!(grade.passed && grade.flags.is_empty(), "{grade:?}");
        },
    );
}

#[test]
fn output_without_end_is_cut_and_flagged() {
    graded("printf 'import os\\nos.write(1, b\"x\" * (33 << 20))\\n' >> calc.py", |grade| {
        assert!(!grade.passed && grade.flags.contains(&"log-truncated".to_owned()), "{grade:?}");
    });
}

#[test]
fn out_of_memory_is_reported() {
    graded("printf 'import os, signal\\nx = bytearray(1 << 30)\\n' >> calc.py", |grade| {
        assert_eq!(grade.score, 0.0, "{grade:?}");
        let told =
            ["tests-killed", "tests-broke-off"].iter().any(|flag| grade.flags.contains(&(*flag).to_owned()));
        assert!(
            told || grade.checks.iter().any(|check| check.message.contains("log does not name it")),
            "{grade:?}"
        );
    });
}

#[test]
fn broken_import_is_reported() {
    graded("echo 'def' >> calc.py", |grade| {
        assert_eq!(grade.score, 0.0, "{grade:?}");
        assert!(grade.checks[1].message.ends_with("the log does not name it"), "{grade:?}");
    });
}
