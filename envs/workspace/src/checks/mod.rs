//! Checks: from the evidence that an attempt left to a grade.
//!
//! I1. Nothing here trusts the agent: files are read through [`clawrl_sandbox::SafeDir`], processes were
//!     listed by the host, commands run in a fresh sandbox on a copy.
//! I2. What the agent caused (a missing file, a link, a FIFO, a file that is too large) is a score of 0
//!     with its reason, and a flag where a reader must know. What the machine caused is a [`Fault`] at
//!     the grader boundary, never a score: a full disk of the host, a command that was never run.
//! I3. Reports stand in the order of the checks; every check gets exactly one.
//! I4. Command checks come last, one after another, and a runner that is not needed is not called.
//! I5. A message is one line of at most 200 characters without control characters.
//!
//! The caller keeps the order that makes the evidence sound: list the processes, then kill everything,
//! then [`evaluate`].
//!
//! Meaning of the kinds, where their names leave it open:
//! - `file_matches` looks at the text as it is and, if it ends with a newline, also without that newline:
//!   `^\d+$` accepts `42\n`, as in Perl and Python. `^` and `$` are the ends of the text unless `(?m)` is set.
//! - `file_absent` takes any entry as present, links that point nowhere included.
//! - `json_value` compares numbers by value: 1 equals 1.0; integers of up to 64 bits are compared exactly.
//! - `process` looks at command lines, which a program can rewrite; it is no proof of what runs.
//! - `answer_command` is a command with the answer as its input; without an answer it is not run, and fails.
//!
//! Checks of calls, and of an answer by itself, are not evaluated here: an environment that has calls judges them.
//!
//! Cancellation: dropping the future of [`evaluate`] leaves at most one blocking pass over the files
//! behind, bounded by [`CheckLimits`].
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
