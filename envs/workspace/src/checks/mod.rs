//! Checks: from the evidence of an attempt to a grade.
//!
//! I1. Nothing here trusts the agent: files are read through [`clawrl_sandbox::SafeDir`], the host listed the
//! processes, commands run in a fresh sandbox on a copy.
//! I2. Results that the agent caused (a missing file, a link, a FIFO, a file that is too large) are a score of 0 with a
//! reason, and a flag if a reader should know. Results that the machine caused are a [`Fault`] at the grader boundary,
//! never a score: a full disk of the host, a command that was never run.
//! I3. Reports are in the order of the checks; every check gets exactly one.
//! I4. Command checks come last, one after another, and the runner is called only if it is needed.
//! I5. A message is one line of at most 200 characters without control characters.
//!
//! The caller keeps the order that makes the evidence sound: list the processes, then kill everything, then
//! [`evaluate`].
//!
//! Details of the kinds:
//! - `file_matches` tests the text and, if it ends with a newline, also the text without it: `^\d+$` accepts `42\n`, as
//!   in Perl and Python. `^` and `$` are the ends of the text unless `(?m)` is set.
//! - `file_absent` counts any entry as present, dangling links included.
//! - `json_value` compares numbers by value: 1 equals 1.0; integers of up to 64 bits are compared exactly.
//! - `process` tests command lines, which a program can rewrite; it does not prove what runs.
//! - `answer_command` is a command with the answer as its input; without an answer it is not run, and fails.
//!
//! Checks of calls, and of an answer by itself, are not evaluated here: environments with calls evaluate them.
//!
//! Cancellation: dropping the future of [`evaluate`] leaves at most one blocking pass over the files running, bounded
//! by [`CheckLimits`].
//!
//! [`Fault`]: clawrl_core::Fault

mod command;
mod difference;
mod evaluate;
mod evidence;
mod files;
mod json;
mod processes;
mod quote;
mod verdict;

#[cfg(test)]
mod tests;

pub use command::{CommandEnd, CommandError, CommandOutput, CommandRequest, CommandRunner};
pub use evaluate::evaluate;
pub use evidence::{Answer, CheckLimits, Evidence, UidMap};
pub use json::equal as equal_json;
pub(crate) use processes::processes_hold;
pub use quote::quote;
pub(crate) use verdict::copy_fault;
