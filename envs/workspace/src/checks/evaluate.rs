//! Evaluates all checks of a workspace.

use clawrl_core::{Boundary, Check, CheckSpec, Fault, Grade};
use clawrl_sandbox::{ProcessFacts, SafeReadError};

use super::command::{CommandRequest, Expected, command};
use super::files::Files;
use super::processes::process;
use super::verdict::{CheckOutcome, invalid, read_failure};
use super::{Answer, Evidence};

/// Grades the evidence of an attempt.
///
/// # Errors
/// A [`Fault`] at the grader boundary: the machine failed (retry sound), or a check cannot be evaluated
/// (`check-invalid`, retry never), for example because it is not about a workspace.
pub async fn evaluate(checks: &[CheckSpec], evidence: &Evidence<'_>) -> Result<Grade, Fault> {
    let mut verdicts = without_commands(checks, evidence).await?;
    let mut reports = Vec::with_capacity(checks.len());
    let mut flags: Vec<String> = Vec::new();
    for (spec, verdict) in checks.iter().zip(verdicts.drain(..)) {
        let verdict = match verdict {
            Some(verdict) => verdict,
            None => run_command(&spec.check, evidence).await?,
        };
        for flag in &verdict.flags {
            if !flags.iter().any(|known| known == flag) {
                flags.push((*flag).to_owned());
            }
        }
        reports.push(verdict.into_report(spec));
    }
    Ok(Grade::from_checks(reports, flags))
}

/// One blocking pass; `None` stands for a command, which runs later.
async fn without_commands(
    checks: &[CheckSpec],
    evidence: &Evidence<'_>,
) -> Result<Vec<Option<CheckOutcome>>, Fault> {
    checks.iter().try_for_each(|spec| refuse_foreign(&spec.check, evidence.answer))?;
    let workspace = match evidence.workspace {
        Ok(workspace) => workspace.clone(),
        Err(gone) => {
            let looks = checks.iter().map(|spec| without_workspace(&spec.check, evidence.processes, gone));
            return looks.map(|verdict| verdict.map(Some)).collect();
        }
    };
    let files = Files { workspace, uid_map: evidence.uid_map, limits: evidence.limits };
    let checks: Vec<Check> = checks.iter().map(|spec| spec.check.clone()).collect();
    let processes = evidence.processes.to_vec();
    let is_answered = matches!(evidence.answer, Answer::Given(_));
    let pass = move || checks.iter().map(|check| look(check, &files, &processes, is_answered)).collect();
    tokio::task::spawn_blocking(pass).await.unwrap_or_else(|error| {
        Err(Fault::permanent(
            Boundary::Grader,
            "grader-panicked",
            format!("a check failed to finish: {error}"),
        ))
    })
}

/// Process checks are evaluated without a workspace; files count as missing, but their absence does not pass a check.
fn without_workspace(
    check: &Check,
    processes: &[ProcessFacts],
    gone: &SafeReadError,
) -> Result<CheckOutcome, Fault> {
    match check {
        Check::Process { regex, running } => process(processes, regex, *running),
        _ if gone.is_infrastructure() => read_failure(gone),
        _ => Ok(CheckOutcome::fail(format_args!("the workspace: {gone}")).flagged(gone.flag())),
    }
}

/// A check that is not about a workspace must not count as failed.
fn refuse_foreign(check: &Check, answer: Answer<'_>) -> Result<(), Fault> {
    match check {
        Check::FileEquals { .. }
        | Check::FileContains { .. }
        | Check::FileMatches { .. }
        | Check::FileAbsent { .. }
        | Check::FileMode { .. }
        | Check::FileOwner { .. }
        | Check::TreeHash { .. }
        | Check::Process { .. }
        | Check::JsonValue { .. }
        | Check::Command { .. } => Ok(()),
        Check::AnswerCommand { .. } if answer != Answer::NotTaken => Ok(()),
        other => Err(invalid(format_args!("a workspace cannot be checked by {other:?}"))),
    }
}

fn look(
    check: &Check,
    files: &Files,
    processes: &[ProcessFacts],
    is_answered: bool,
) -> Result<Option<CheckOutcome>, Fault> {
    match check {
        Check::FileEquals { path, expected } => files.equals(path, expected),
        Check::FileContains { path, text } => files.contains(path, text),
        Check::FileMatches { path, regex } => files.matches(path, regex),
        Check::FileAbsent { path } => files.absent(path),
        Check::FileMode { path, mode } => files.mode(path, *mode),
        Check::FileOwner { path, uid } => files.owner(path, *uid),
        Check::TreeHash { path, sha256 } => files.tree_hash(path, sha256),
        Check::Process { regex, running } => process(processes, regex, *running),
        Check::JsonValue { path, pointer, equals } => files.json_value(path, pointer, equals),
        Check::Command { .. } => return Ok(None),
        Check::AnswerCommand { .. } if is_answered => return Ok(None),
        Check::AnswerCommand { .. } => Ok(CheckOutcome::fail("no answer was submitted")),
        other => Err(invalid(format_args!("a workspace cannot be checked by {other:?}"))),
    }
    .map(Some)
}

async fn run_command(check: &Check, evidence: &Evidence<'_>) -> Result<CheckOutcome, Fault> {
    let stdout_cap = evidence.limits.stdout_bytes;
    let (request, expected) = match (check, evidence.answer) {
        (Check::Command { run, exit_code, stdout_equals, stdout_contains, timeout }, _) => {
            let (stdout_equals, stdout_contains) = (stdout_equals.as_deref(), stdout_contains.as_deref());
            let request = CommandRequest { command: run, input: &[], timeout: *timeout, stdout_cap };
            (request, Expected { exit_code: *exit_code, stdout_equals, stdout_contains })
        }
        (Check::AnswerCommand { run, exit_code, timeout }, Answer::Given(answer)) => {
            let input = answer.as_bytes();
            let request = CommandRequest { command: run, input, timeout: *timeout, stdout_cap };
            (request, Expected { exit_code: *exit_code, stdout_equals: None, stdout_contains: None })
        }
        _ => return Err(invalid(format_args!("{check:?} was left for a command"))),
    };
    command(evidence.commands, request, expected).await
}
