//! Checks of the processes that ran before everything was stopped.

use clawrl_core::{Check, CheckSpec, Fault};
use clawrl_sandbox::ProcessFacts;
use regex::Regex;

use super::quote::quote;
use super::verdict::{CheckOutcome, invalid};

/// Maximum characters shown of the expression and of a command line.
const SHOWN: usize = 60;

/// Whether every process check passes for the current processes. A check that cannot be evaluated fails.
pub(crate) fn processes_hold(checks: &[CheckSpec], processes: &[ProcessFacts]) -> bool {
    checks.iter().all(|spec| match &spec.check {
        Check::Process { regex, running } => {
            process(processes, regex, *running).is_ok_and(|verdict| verdict.holds())
        }
        _ => true,
    })
}

pub(super) fn process(processes: &[ProcessFacts], regex: &str, running: bool) -> Result<CheckOutcome, Fault> {
    let compiled = Regex::new(regex).map_err(|error| invalid(error.to_string().replace('\n', " ")))?;
    let wanted = quote(regex.as_bytes(), SHOWN);
    let found = processes
        .iter()
        .map(|process| process.command_line.as_str())
        .find(|line| compiled.is_match(line))
        .map(|line| quote(line.as_bytes(), SHOWN));
    Ok(match (running, found) {
        (true, Some(line)) => CheckOutcome::pass(format_args!("{line} matches {wanted}")),
        (true, None) => CheckOutcome::fail(format_args!(
            "expected a process that matches {wanted}, found none among {}",
            processes.len()
        )),
        (false, None) => CheckOutcome::pass(format_args!("no process matches {wanted}")),
        (false, Some(line)) => {
            CheckOutcome::fail(format_args!("expected no process that matches {wanted}, found {line}"))
        }
    })
}
