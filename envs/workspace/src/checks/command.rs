//! Checks that run commands.

use std::time::Duration;

use clawrl_core::{Boundary, BoxFuture, Fault};
use clawrl_sandbox::{SkippedEntries, TreeError};
use memchr::memmem;

use super::difference::first_difference;
use super::quote::quote;
use super::verdict::{CheckOutcome, walk_failure};

/// Maximum characters shown of a command's output, and of an expected text.
const SHOWN: usize = 50;

/// A command to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandRequest<'a> {
    /// For `sh -c`, in the workspace's folder.
    pub command: &'a str,
    /// Its standard input.
    pub input: &'a [u8],
    /// The command is killed after this time, counted from its own start.
    pub timeout: Duration,
    /// Maximum bytes of standard output to keep; the rest is read and discarded.
    pub stdout_cap: usize,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandEnd {
    /// It exited by itself.
    Exited(i32),
    /// A signal that was not ours ended it.
    Signalled(i32),
    /// It was killed at the timeout.
    TimedOut,
}

/// Result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// How it ended.
    pub end: CommandEnd,
    /// Standard output, up to the cap.
    pub stdout: Vec<u8>,
    /// Whether output was left out.
    pub stdout_truncated: bool,
    /// Entries that the copy of the workspace lacked.
    pub left_out: SkippedEntries,
}

/// Why a command was not run.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The workspace could not be copied. The error tells whether the agent or the machine caused that.
    #[error(transparent)]
    Copy(#[from] TreeError),
    /// The machine failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// Runs the commands of checks, each in a fresh sandbox on its own copy of the workspace, so that no check sees the
/// effects of another.
///
/// Called by [`super::evaluate`], at most once per command check, one after another, in the order of the checks, after
/// all other checks; never called if no check is a command, or there is no workspace. Dropping the future must end the
/// command and its sandbox. Implementations must not write to the workspace itself.
pub trait CommandRunner: Send + Sync {
    /// Runs one command and waits for it.
    ///
    /// # Errors
    /// [`CommandError`]. A command that fails or is killed is not an error; one that was never run is.
    fn run<'a>(&'a self, request: CommandRequest<'a>) -> BoxFuture<'a, Result<CommandOutput, CommandError>>;
}

/// The expected result of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    pub(super) exit_code: i32,
    pub(super) stdout_equals: Option<&'a str>,
    pub(super) stdout_contains: Option<&'a str>,
}

pub(super) async fn command(
    runner: &dyn CommandRunner,
    request: CommandRequest<'_>,
    expected: Expected<'_>,
) -> Result<CheckOutcome, Fault> {
    let longest =
        [expected.stdout_equals, expected.stdout_contains].into_iter().flatten().map(str::len).max();
    // One byte more than expected, so that excess output is noticed.
    let stdout_cap = request.stdout_cap.max(longest.map_or(0, |longest| longest + 1));
    let request = CommandRequest { stdout_cap, ..request };
    match runner.run(request).await {
        Ok(output) => Ok(judge(&output, request, expected)),
        Err(CommandError::Copy(error)) => walk_failure(&error),
        Err(CommandError::Fault(fault)) => Err(Fault { boundary: Boundary::Grader, ..fault }),
    }
}

fn judge(output: &CommandOutput, request: CommandRequest<'_>, expected: Expected<'_>) -> CheckOutcome {
    let flag = (!output.left_out.is_empty()).then_some("copy-incomplete");
    match failure(output, request, expected) {
        None => CheckOutcome::pass(format_args!("exit code {}, output as expected", expected.exit_code)),
        Some(failure) => match output.left_out.named().first() {
            None => CheckOutcome::fail(failure),
            Some(first) => {
                let count = output.left_out.count();
                CheckOutcome::fail(format_args!("{failure}; {count} not copied, first {:?}", first.path))
            }
        },
    }
    .flagged(flag)
}

/// Explains a shell's own exit codes. A program may also end with one of them.
fn hint(code: i32) -> &'static str {
    match code {
        126 => " (a shell's word for a program that cannot be run)",
        127 => " (a shell's word for a program that was not found)",
        _ => "",
    }
}

fn failure(output: &CommandOutput, request: CommandRequest<'_>, expected: Expected<'_>) -> Option<String> {
    let stdout = output.stdout.as_slice();
    let code = match output.end {
        CommandEnd::Exited(code) => code,
        CommandEnd::Signalled(signal) => {
            return Some(format!("expected exit code {}, killed by signal {signal}", expected.exit_code));
        }
        CommandEnd::TimedOut => {
            return Some(format!("timed out after {:.1} s", request.timeout.as_secs_f64()));
        }
    };
    if code != expected.exit_code {
        let (stdout, hint) = (quote(stdout, SHOWN), hint(code));
        return Some(format!(
            "expected exit code {}, found {code}{hint}; stdout {stdout}",
            expected.exit_code
        ));
    }
    if let Some(difference) =
        expected.stdout_equals.and_then(|wanted| first_difference(wanted.as_bytes(), stdout))
    {
        return Some(format!("stdout: {difference}"));
    }
    let wanted = expected.stdout_contains?;
    if memmem::find(stdout, wanted.as_bytes()).is_some() {
        return None;
    }
    let (wanted, shown) = (quote(wanted.as_bytes(), SHOWN), quote(stdout, SHOWN));
    let cut =
        if output.stdout_truncated { format!(" (first {} bytes)", stdout.len()) } else { String::new() };
    Some(format!("expected {wanted} in stdout{cut}, found {shown}"))
}
