//! Grades an attempt: tests the submission in a sandbox that the agent never used.
//!
//! G1. All processes of the agent are ended before its tree is read.
//! G2. A test run that hangs, ends early or prints endlessly is attributed to the code under test: the attempt fails.
//! What prevents a run from starting is a fault.
//! G3. Results from a sandbox that something else ended are a fault.
//!
//! Errors: a [`Fault`] of the machine, of a plan that cannot be graded, or of a limit. Cancellation: `ctx.cancel` ends
//! grading early; dropping the future ends the sandbox that was started for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    Boundary, CheckReport, Fault, Grade, Limit, StepCtx, SweSpec, TaskSpec, TestScore, TestSpec,
    printable_line,
};
use clawrl_sandbox::{
    Announcer, ExecOutput, ExecSpec, PutFile, Sandbox, SandboxBackend, SandboxCommand, SandboxFolder,
    SandboxSpec, WorkspaceStart,
};
use clawrl_workspace::{FixtureReader, refuse_lost};

use crate::prepare::{TaskInputs, as_file, prepare};
use crate::protection::{Protection, TestDeclaration};
use crate::repository::Script;
use crate::resolution::{ExpectedTests, Resolution, TestOutcome};
use crate::results::TestResults;
use crate::submission::{BaseTree, FOLDER, RejectedSubmission, Submission, SubmittedWork, adopt};
use crate::suspicion;

/// Columns and rows of the unused terminal.
const SIZE: (u16, u16) = (80, 24);

/// Maximum bytes read of a test run.
const LOG_CAP: usize = 32 << 20;

/// Maximum tests named in a report.
const NAMED: usize = 50;

/// Maximum characters of a line in a report.
const LINE: usize = 200;

pub(crate) struct Grading<'a> {
    /// The agent's sandbox. No process of the agent runs in it afterwards.
    pub(crate) sandbox: &'a dyn Sandbox,
    pub(crate) backend: &'a dyn SandboxBackend,
    pub(crate) task: &'a TaskSpec,
    pub(crate) spec: &'a SweSpec,
    pub(crate) fixtures: &'a Arc<FixtureReader>,
    pub(crate) label: &'a str,
    /// Environment variables of the task's own commands and of its tests.
    pub(crate) variables: &'a BTreeMap<String, String>,
    /// The diff that the agent submitted in place of its tree.
    pub(crate) patch: Option<&'a str>,
}

struct TestRun {
    output: ExecOutput,
    resolution: Resolution,
}

/// Grades the attempt.
pub(crate) async fn grade(grading: Grading<'_>, ctx: &StepCtx) -> Result<Grade, Fault> {
    let (sandbox, limit) = (grading.sandbox, grading.task.timeouts.grade);
    let graded = tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(Fault::transient(Boundary::Grader, "cancelled", "grading was \
            cancelled")),
        graded = tokio::time::timeout_at(ctx.deadline.into(), graded(&grading, ctx.deadline)) => {
            graded.unwrap_or_else(|_| Err(Fault::limit(Boundary::Grader, Limit::Grade, limit)))
        }
    };
    // G3.
    refuse_lost(sandbox).await?;
    graded.map_err(|fault| match fault.boundary {
        // Those of the grading sandbox, not of the agent's.
        Boundary::Env => Fault { boundary: Boundary::Grader, ..fault },
        _ => fault,
    })
}

async fn graded(grading: &Grading<'_>, deadline: Instant) -> Result<Grade, Fault> {
    let Grading { sandbox, backend, spec, fixtures, patch, .. } = *grading;
    let expected = Arc::new(ExpectedTests::read(&spec.tests, fixtures).await?);
    let ingredients = TaskInputs::read(spec, fixtures).await?;
    let laid = fixtures.read(spec.tests.files.clone()).await?;
    let test_patch = fixtures.read(spec.tests.patch.iter().map(as_file).collect()).await?.pop();
    refuse_lost(sandbox).await?;
    sandbox.halt().await?;
    let left = match patch {
        Some(patch) => SubmittedWork::Patch(patch),
        None => match sandbox.workspace().await? {
            Ok(tree) => SubmittedWork::Tree(tree),
            Err(gone) => {
                let message = format!("the agent left no repository: {gone}");
                return Ok(refused(RejectedSubmission {
                    flag: gone.flag().unwrap_or("no-repository"),
                    message,
                }));
            }
        },
    };
    let started = backend.start(fresh_spec(grading)).await?;
    let fresh = started.sandbox;
    let result = async {
        prepare(fresh.as_ref(), spec, ingredients, grading.variables, deadline).await?;
        let base = BaseTree::of(fresh.as_ref(), deadline).await?;
        let touched = match &test_patch {
            Some(patch) => touched(fresh.as_ref(), &base, patch, deadline).await?,
            None => Vec::new(),
        };
        let files = laid.iter().map(|file| file.path.clone()).chain(touched);
        let TestSpec { parser, run, protected, .. } = &spec.tests;
        let deciding = TestDeclaration { parser: *parser, run, patterns: protected, expected: &expected };
        let protection = Protection::new(deciding, files, &base.paths)?;
        match adopt(left, fresh.as_ref(), &base, spec, &protection, deadline).await? {
            Err(reason) => Ok(refused(reason)),
            Ok(submission) => {
                write_test_files(fresh.as_ref(), laid, test_patch, deadline).await?;
                let tested = run_tests(fresh.as_ref(), grading, &expected, deadline).await?;
                Ok(report(spec, &expected, submission, &tested))
            }
        }
    }
    .await;
    refuse_lost(fresh.as_ref()).await?;
    fresh.kill().await?;
    result
}

/// A sandbox like the agent's, with an additional folder for the agent's tree.
fn fresh_spec(grading: &Grading<'_>) -> SandboxSpec {
    let workspace = &grading.spec.workspace;
    SandboxSpec {
        label: format!("{}-tests", grading.label),
        main: SandboxCommand {
            program: "sleep".to_owned(),
            arguments: vec!["infinity".to_owned()],
            ..SandboxCommand::default()
        },
        announced_by: Announcer::Wrapper,
        size: SIZE,
        support_files: Vec::new(),
        limits: workspace.limits,
        network: workspace.network,
        image: workspace.image.clone(),
        workspace: WorkspaceStart::Image,
        folders: vec![SandboxFolder { path: FOLDER.to_owned(), files: None }],
        read_only: workspace.read_only.clone(),
        inner_sandbox: false,
    }
}

/// Prints the paths that the diff on standard input touches, old names included; `$1` is the fresh repository's tree.
const TOUCHED: &str = r#"
export GIT_INDEX_FILE=$PWD/.git/clawrl.touched
git read-tree "$1"
git apply --cached --whitespace=nowarn -
git diff-index --cached --no-renames --name-only -z "$1"
rm -f .git/clawrl.touched
"#;

/// Paths that a diff of the task touches.
async fn touched(
    fresh: &dyn Sandbox,
    base: &BaseTree,
    patch: &PutFile,
    deadline: Instant,
) -> Result<Vec<String>, Fault> {
    let script = Script {
        arguments: &[&base.tree],
        input: patch.content.to_vec(),
        output_cap: 4 << 20,
        ..Script::new(TOUCHED, deadline)
    };
    let output = script.expect(fresh, "applying the task's test patch").await?;
    let paths = output.split(|&byte| byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect())
}

/// Removes what only the comparison needed. The folder itself may be a mount point, and stays; closed folders are
/// opened.
const CLEARED: &str = r#"
rm -f .git/info/attributes
find /submission -mindepth 1 -type d ! -perm -700 -exec chmod u+rwx {} \;
find /submission -mindepth 1 -delete
"#;

/// Writes the test files over the repository, and removes the compared tree.
async fn write_test_files(
    fresh: &dyn Sandbox,
    files: Vec<PutFile>,
    patch: Option<PutFile>,
    deadline: Instant,
) -> Result<(), Fault> {
    if let Some(patch) = patch {
        let script = Script {
            input: patch.content.to_vec(),
            ..Script::new("git apply --whitespace=nowarn -", deadline)
        };
        script.expect(fresh, "applying the task's test patch").await?;
    }
    Script::new(CLEARED, deadline).expect(fresh, "removing the agent's tree").await?;
    fresh.put(files).await
}

async fn run_tests(
    fresh: &dyn Sandbox,
    grading: &Grading<'_>,
    expected: &Arc<ExpectedTests>,
    deadline: Instant,
) -> Result<TestRun, Fault> {
    let spec = grading.spec;
    let activate = spec.activate.as_deref().unwrap_or_default();
    let own_deadline = Instant::now() + spec.tests.timeout;
    let exec = ExecSpec {
        command: SandboxCommand {
            program: "bash".to_owned(),
            arguments: vec!["-c".to_owned(), format!("exec 2>&1\n{activate}\n{}", spec.tests.run)],
            environment: grading.variables.clone(),
        },
        input: Vec::new(),
        output_cap: LOG_CAP,
        deadline: deadline.min(own_deadline),
        user: None,
    };
    let output = fresh.exec(exec).await.map_err(Fault::from)?;
    if output.code.is_none() && deadline < own_deadline {
        // All of grading took too long: the tests' share of that is unknown.
        std::future::pending::<()>().await;
    }
    fresh.halt().await?;
    // Parsing a log of many megabytes takes a while.
    let (parser, expected) = (spec.tests.parser, Arc::clone(expected));
    let read = tokio::task::spawn_blocking(move || {
        let results = TestResults::read(parser, &String::from_utf8_lossy(&output.stdout));
        let resolution = Resolution::of(&expected, &results, output.code);
        TestRun { output, resolution }
    });
    read.await.map_err(|error| Fault::permanent(Boundary::Grader, "panic", error.to_string()))
}

/// Exit code of a program that was killed, by the kernel for lack of memory or by any other process.
const KILLED: i32 = 128 + 9;

fn report(spec: &SweSpec, expected: &ExpectedTests, submission: Submission, tested: &TestRun) -> Grade {
    let TestRun { output, resolution } = tested;
    let mut flags = Vec::new();
    let mut flag = |is_so: bool, name: &str| {
        if is_so {
            flags.push(name.to_owned());
        }
    };
    let suspicious = suspicion::words(spec.tests.parser, expected, &submission.patch);
    flag(!submission.tampered.is_empty(), "tampered");
    flag(!suspicious.is_empty(), "suspect");
    flag(submission.not_copied > 0, "copy-incomplete");
    flag(output.code.is_none(), "tests-timed-out");
    flag(output.code == Some(KILLED), "tests-killed");
    flag(resolution.unexplained && output.code.is_some(), "tests-broke-off");
    flag(output.stdout.len() >= LOG_CAP, "log-truncated");
    let score = match spec.tests.score {
        TestScore::Resolved => f64::from(u8::from(resolution.resolved)),
        TestScore::Fraction => resolution.fraction,
    };
    let line = |label: &str, score: f64, weight: f64, message: &str| CheckReport {
        label: label.to_owned(),
        score,
        weight,
        message: printable_line(message, LINE),
    };
    let mut checks = vec![line("tests", score, 1.0, &verdict(spec, expected, &submission, tested))];
    let missed = resolution.tests.iter().filter(|test| !test.held);
    checks.extend(missed.take(NAMED).map(|test| line("test", 0.0, 0.0, &outcome(test))));
    if !submission.tampered.is_empty() {
        let message = format!("restored, for the task protects it: {}", submission.tampered.join(", "));
        checks.push(line("protected", 0.0, 0.0, &message));
    }
    if !suspicious.is_empty() {
        let message = format!("the change names what the run of tests is made of: {}", suspicious.join(", "));
        checks.push(line("suspect", 0.0, 0.0, &message));
    }
    Grade {
        score,
        passed: resolution.resolved,
        checks,
        flags,
        judge_usage: None,
        patch: Some(submission.patch),
    }
}

/// One line for all tests.
fn verdict(spec: &SweSpec, expected: &ExpectedTests, submission: &Submission, tested: &TestRun) -> String {
    let TestRun { output, resolution } = tested;
    let fixed = expected.fail_to_pass.len();
    let held = |tests: &[TestOutcome]| tests.iter().filter(|test| test.held).count();
    let (fixes, kept) = resolution.tests.split_at(fixed);
    let files = match submission.kept {
        1 => "1 file changed".to_owned(),
        kept => format!("{kept} files changed"),
    };
    let counts =
        format!("{} of {fixed} to fix, {} of {} to keep; {files}", held(fixes), held(kept), kept.len());
    match output.code {
        None => format!("{counts}; the tests did not end within {:.1} s", seconds(spec.tests.timeout)),
        Some(KILLED) => format!("{counts}; the tests were killed, as for want of memory"),
        Some(code) if resolution.unexplained => {
            format!("{counts}; the tests ended with {code} and told of no failed one: {}", said(output))
        }
        Some(_) => counts,
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// The last line with content.
fn said(output: &ExecOutput) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or_else(|| "they said nothing".to_owned(), str::to_owned)
}

fn outcome(test: &TestOutcome) -> String {
    match test.status {
        None => format!("{}: the log does not name it", test.name),
        Some(status) => format!("{}: {}", test.name, status.word()),
    }
}

/// The grade of a submission that cannot be tested.
fn refused(RejectedSubmission { flag, message }: RejectedSubmission) -> Grade {
    let report = CheckReport {
        label: "tests".to_owned(),
        score: 0.0,
        weight: 1.0,
        message: printable_line(&message, LINE),
    };
    Grade::from_checks(vec![report], vec![flag.to_owned()])
}
