//! Parses the log of a test run into the status of each test.
//!
//! R1. A test that is reported twice has the worse status: a test that prints `PASSED` for another one gains nothing if
//! the runner disagrees.
//! R2. Colours and carriage returns are ignored.
//! R3. Any text is accepted, in time linear in its length; other lines are skipped.
//!
//! Names are those of SWE-bench's rows: `tests/test_a.py::test_x[1]`, `test_x (tests.test_a.A)`, `module::test`,
//! `TestX/case`. Pure; nothing to cancel. Source: output of pytest 9, unittest of Python 3.11, cargo test 1.95, jest
//! 29; go's documentation of `go test -v`; names as in SWE-bench 5.0.2 (`log_parsers`). Deviations: 1. R1, where
//! SWE-bench takes the last. 2. Names of pytest's parameters keep their spaces, and `XPASS` is a pass, as for pytest
//! itself.

mod lines;
mod parser;
mod pytest;
mod status;
mod unittest;

pub use status::{TestResults, TestStatus};
