//! Runs a verifier, and combines its score with the grade.

use std::time::Instant;

use clawrl_core::{
    Boundary, CheckReport, Fault, Grade, ImageSpec, Limit, Timeouts, VerifierSpec, WorkspaceSpec,
    printable_line,
};
use clawrl_sandbox::{
    Announcer, ExecError, ExecOutput, ExecSpec, NotRun, PutFile, Sandbox, SandboxBackend, SandboxCommand,
    SandboxFolder, SandboxSpec, TreeError, WorkspaceStart,
};

use super::artifacts::bring;
use super::reward::{FOLDER, VerifierScore, read_score, said_last};
use crate::checks::copy_fault;
use crate::fresh::{SIZE, blocking, bounds, copy_workspace, refuse_lost};

const TESTS: &str = "/tests";

/// Maximum bytes of its output that are read; a later summary is not seen.
pub(super) const OUTPUT_CAP: usize = 8 << 20;

pub(crate) struct Grading<'a> {
    pub(crate) backend: &'a dyn SandboxBackend,
    pub(crate) spec: &'a WorkspaceSpec,
    pub(crate) verifier: &'a VerifierSpec,
    pub(crate) files: Vec<PutFile>,
    pub(crate) label: String,
    /// The agent's sandbox, halted.
    pub(crate) sandbox: &'a dyn Sandbox,
    /// Deadline of the whole grading.
    pub(crate) deadline: Instant,
    pub(crate) timeouts: Timeouts,
    pub(crate) flags: Vec<String>,
}

/// Runs the verifier and combines its score with the grade of the checks, if there are any.
pub(crate) async fn verify(mut grading: Grading<'_>, checks: Option<Grade>) -> Result<Grade, Fault> {
    let verdict = match run(&mut grading).await? {
        Ok(verdict) => verdict,
        // I3.
        Err(error) => {
            grading.flags.extend(error.flag().map(str::to_owned));
            VerifierScore { score: 0.0, message: error.to_string(), lines: Vec::new() }
        }
    };
    Ok(joined(verdict, grading.flags, checks))
}

/// The score, or why the agent's workspace could not be copied.
async fn run(grading: &mut Grading<'_>) -> Result<Result<VerifierScore, TreeError>, Fault> {
    let verifier = grading.verifier;
    if verifier.apart.is_none() && grading.sandbox.verifies_in_place() {
        let files = std::mem::take(&mut grading.files);
        if let Err(gone) = grading.sandbox.has_workspace().await? {
            return Ok(Err(gone.into()));
        }
        grading.sandbox.replace_folder(TESTS.to_owned(), files).await?;
        grading.sandbox.replace_folder(FOLDER.to_owned(), Vec::new()).await?;
        return match judged(grading, grading.sandbox).await {
            // The agent owns the folder and the machine's programs: closing or removing them leaves no usable work, and
            // must not exclude the attempt from the count.
            Err(ExecError::NotRun { obstacle: NotRun::Folder | NotRun::Program, message }) => {
                let message = format!("the verifier was not run: {message}");
                Ok(Ok(VerifierScore { score: 0.0, message, lines: Vec::new() }))
            }
            verdict => Ok(Ok(verdict?)),
        };
    }
    let started = grading.backend.start(sandbox_spec(grading)).await?;
    let fresh = started.sandbox;
    make_logs(fresh.as_ref()).await?;
    match &verifier.apart {
        Some(apart) => {
            let bounds = bounds(grading.spec);
            grading.flags.extend(bring(&apart.artifacts, grading.sandbox, fresh.as_ref(), bounds).await?)
        }
        None => {
            let source = match grading.sandbox.workspace().await? {
                Ok(source) => source,
                Err(gone) => return Ok(Err(gone.into())),
            };
            match copy_workspace(source, fresh.as_ref(), grading.spec).await? {
                Ok(report) if report.skipped.is_empty() => {}
                Ok(_) => grading.flags.push("copy-incomplete".to_owned()),
                Err(error) if error.is_infrastructure() => {
                    return Err(copy_fault("workspace-copy-failed", &error, error.to_string()));
                }
                Err(error) => return Ok(Err(error)),
            }
        }
    }
    let verdict = judged(grading, fresh.as_ref()).await;
    refuse_lost(fresh.as_ref()).await?;
    fresh.kill().await?;
    Ok(Ok(verdict?))
}

/// A sandbox that the agent never used.
fn sandbox_spec(grading: &mut Grading<'_>) -> SandboxSpec {
    let verifier = grading.verifier;
    let (image, workspace): (Option<&ImageSpec>, _) = match &verifier.apart {
        Some(apart) => (apart.image.as_ref().or(grading.spec.image.as_ref()), WorkspaceStart::Unseen),
        None => (grading.spec.image.as_ref(), WorkspaceStart::Empty),
    };
    let files = std::mem::take(&mut grading.files);
    SandboxSpec {
        label: grading.label.clone(),
        main: SandboxCommand {
            program: "sleep".to_owned(),
            arguments: vec!["infinity".to_owned()],
            ..SandboxCommand::default()
        },
        announced_by: Announcer::Wrapper,
        size: SIZE,
        support_files: Vec::new(),
        limits: grading.spec.limits,
        network: verifier.network,
        image: image.cloned(),
        workspace,
        folders: vec![
            SandboxFolder { path: TESTS.to_owned(), files: Some(files) },
            SandboxFolder { path: "/logs".to_owned(), files: None },
        ],
        // A separate verifier has its own image, which contains what it needs.
        read_only: if verifier.apart.is_some() { Vec::new() } else { grading.spec.read_only.clone() },
        inner_sandbox: false,
    }
}

/// Creates the folder for the score, where the sandbox's folders can be reached.
async fn make_logs(sandbox: &dyn Sandbox) -> Result<(), Fault> {
    let exposed_folders = sandbox.exposed_folders().await;
    let Some(logs) = exposed_folders.into_iter().find(|place| place.path == "/logs") else { return Ok(()) };
    let made = blocking(move || logs.folder.make_dirs("verifier", 0o755, logs.owner)).await?;
    made.map_err(|error| Fault::transient(Boundary::Grader, "logs", error.to_string()))
}

/// Runs the command and reads the score.
async fn judged(grading: &Grading<'_>, sandbox: &dyn Sandbox) -> Result<VerifierScore, ExecError> {
    let verifier = grading.verifier;
    let mut environment = grading.spec.env.clone();
    environment.extend(verifier.env.clone());
    let own_deadline = Instant::now() + verifier.timeout;
    let exec = ExecSpec {
        command: SandboxCommand {
            program: "/bin/sh".to_owned(),
            arguments: vec!["-c".to_owned(), verifier.run.clone()],
            environment,
        },
        input: Vec::new(),
        output_cap: OUTPUT_CAP,
        deadline: grading.deadline.min(own_deadline),
        user: verifier.user.clone(),
    };
    let output = sandbox.exec(exec).await?;
    // Its remaining processes must not write any more.
    sandbox.halt().await?;
    if output.code.is_none() {
        return Err(timed_out(grading, own_deadline, &output).into());
    }
    Ok(read_score(verifier, sandbox, &output).await?)
}

fn timed_out(grading: &Grading<'_>, own_deadline: Instant, output: &ExecOutput) -> Fault {
    if grading.deadline < own_deadline {
        return Fault::limit(Boundary::Env, Limit::Grade, grading.timeouts.grade);
    }
    let message = format!(
        "the verifier reported no score within {:.1} s: raise `verifier: {{ timeout_secs: … }}` if it needs \
         longer; {}",
        grading.verifier.timeout.as_secs_f64(),
        said_last(output)
    );
    Fault::transient(Boundary::Env, "verifier-timeout", message)
}

/// The score is the verifier's times that of the checks. Lines of single tests follow with weight 0.
fn joined(verdict: VerifierScore, mut flags: Vec<String>, checks: Option<Grade>) -> Grade {
    let passed = verdict.score >= 1.0 && checks.as_ref().is_none_or(|grade| grade.passed);
    let score = verdict.score * checks.as_ref().map_or(1.0, |grade| grade.score);
    let mut reports = Vec::new();
    if let Some(grade) = checks {
        reports = grade.checks;
        flags.extend(grade.flags);
    }
    let report = |label: &str, score: f64, weight: f64, message: &str| CheckReport {
        label: label.to_owned(),
        score,
        weight,
        message: printable_line(message, 200),
    };
    reports.push(report("verifier", verdict.score, 1.0, &verdict.message));
    let lines = verdict.lines.iter();
    reports
        .extend(lines.map(|(passed, line)| report("verifier", if *passed { 1.0 } else { 0.0 }, 0.0, line)));
    let mut seen = std::collections::HashSet::new();
    flags.retain(|flag| seen.insert(flag.clone()));
    Grade { score, passed, checks: reports, flags, judge_usage: None, patch: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(score: f64) -> Grade {
        Grade {
            score,
            passed: score >= 1.0,
            judge_usage: None,
            patch: None,
            checks: Vec::new(),
            flags: vec!["tampered".to_owned()],
        }
    }

    #[test]
    fn scores_are_multiplied() {
        let check = |own: f64, others: Option<f64>, expected: (f64, bool)| {
            let verdict = VerifierScore {
                score: own,
                message: String::new(),
                lines: vec![(false, "FAILED x".to_owned())],
            };
            let grade = joined(verdict, vec!["tampered".to_owned()], others.map(checks));
            assert_eq!((grade.score, grade.passed), expected, "{own} {others:?}");
            assert_eq!(grade.flags, ["tampered"]);
            assert_eq!(grade.checks.len(), 2);
        };
        check(1.0, None, (1.0, true));
        check(0.5, None, (0.5, false));
        check(1.0, Some(1.0), (1.0, true));
        check(1.0, Some(0.5), (0.5, false));
        check(0.5, Some(0.5), (0.25, false));
        check(0.0, Some(1.0), (0.0, false));
    }
}
