//! Rows of SWE-bench and data sets of the same form, and its task repositories: issues of real repositories, with the
//! tests that show whether they are resolved.
//!
//! W1. A task is graded by the command and the parser that its row names, or else by those of its repository; a task
//! whose log none of our parsers reads is skipped and listed. W2. The agent's files hold neither the fix nor the tests.
//! W3. A wrong row is reported at its place, and the others are still read.
//!
//! Source: PyPI `swebench` 5.0.2 (`task/repo.py`, `harness/log_parsers`) and 4.1.0 (test commands by repository and
//! version, `get_test_directives`); PyPI `swesmith` (`profiles/python.py`); test commands of the harness of SWE-Gym; the
//! cards of SWE-smith, SWE-rebench and R2E-Gym and `server.py` of SWE-rebench-V2-OpenRewardEnv for columns and folders.
//! Deviations: 1. Installation commands of an `eval.sh` are left out, since no task has a network. 2. Test files that a
//! patch deletes are not named to the runner.

mod diff;
mod file_name;
mod instance;
mod options;
mod place;
mod repository;
mod rows;
mod runner;
mod script;
mod source;
mod task;

pub use options::SweOptions;
pub(crate) use rows::{head, import_rows};
