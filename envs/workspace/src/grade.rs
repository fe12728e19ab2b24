//! Grades an attempt that had a sandbox, in an order in which its agent cannot tamper.
//!
//! I1. First live probes, then all processes of the agent are killed, then files, then commands on copies in fresh
//! sandboxes, then the verifier.
//! I2. Results from a sandbox that something else ended are a fault, never a grade.
//! I3. Reports are in the order of the task's checks, whatever evaluated them.
//!
//! Errors: a [`Fault`] of the machine, of a plan that cannot be graded, or of a limit. Cancellation: `ctx.cancel` ends
//! grading early; dropping the future ends the sandboxes that were started for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    Boundary, Check, CheckReport, CheckSpec, Fault, Grade, Limit, StepCtx, TaskSpec, WorkspaceSpec,
};
use clawrl_sandbox::{ProcessFacts, Sandbox, SandboxBackend};

use crate::checks::{Answer, CheckLimits, Evidence, UidMap, evaluate, processes_hold};
use crate::fixtures::FixtureReader;
use crate::fresh::{FreshSandboxes, refuse_lost};
use crate::verifier::{self, Grading};

/// How long a failing process check is repeated.
const SETTLE: Duration = Duration::from_secs(2);
/// The same while some process is between fork and exec, which takes that long among thousands of shells.
const SETTLE_FORKED: Duration = Duration::from_secs(10);

/// The inputs of grading.
pub struct GradeRequest<'a> {
    /// The agent's sandbox. No process of the agent runs in it afterwards.
    pub sandbox: &'a dyn Sandbox,
    /// Starts the sandboxes of commands and verifiers.
    pub backend: &'a dyn SandboxBackend,
    /// The workspace of the agent's sandbox: a copy gets the same limits.
    pub workspace: &'a WorkspaceSpec,
    /// Its checks, its verifier and its time limits.
    pub task: &'a TaskSpec,
    /// Reads the verifier's files.
    pub fixtures: &'a Arc<FixtureReader>,
    /// Names the attempt's sandboxes.
    pub label: &'a str,
    /// The submitted answer.
    pub answer: Answer<'a>,
    /// Reports of the checks that the environment evaluated itself, by their indices in the task. All others are about
    /// the workspace.
    pub judged: BTreeMap<usize, CheckReport>,
    /// Flags that the environment found.
    pub flags: Vec<String>,
}

/// Grades the attempt.
///
/// # Errors
/// See the module.
pub async fn grade(request: GradeRequest<'_>, ctx: &StepCtx) -> Result<Grade, Fault> {
    let (sandbox, limit) = (request.sandbox, request.task.timeouts.grade);
    let graded = tokio::select! {
        biased;
        () = ctx.cancel.cancelled() => Err(Fault::transient(Boundary::Grader, "cancelled", "grading was \
            cancelled")),
        graded = tokio::time::timeout_at(ctx.deadline.into(), graded(request, ctx.deadline)) => {
            graded.unwrap_or_else(|_| Err(Fault::limit(Boundary::Grader, Limit::Grade, limit)))
        }
    };
    // I2.
    refuse_lost(sandbox).await?;
    graded
}

async fn graded(request: GradeRequest<'_>, deadline: Instant) -> Result<Grade, Fault> {
    let GradeRequest { sandbox, backend, workspace: spec, task, fixtures, label, answer, judged, mut flags } =
        request;
    let files = match &task.verifier {
        Some(verifier) => fixtures.read(verifier.files.clone()).await?,
        None => Vec::new(),
    };
    let label = format!("{label}-check");
    refuse_lost(sandbox).await?;
    let processes = probed(sandbox, &task.checks).await;
    if let Some(apart) = task.verifier.as_ref().and_then(|verifier| verifier.apart.as_ref()) {
        flags.extend(verifier::collect(sandbox, spec, apart, deadline).await?);
    }
    sandbox.halt().await?;
    let checks = async {
        let workspace = sandbox.workspace().await?;
        let own = workspace.as_ref().ok().map(Arc::clone);
        let commands = FreshSandboxes { backend, spec, label: label.clone(), workspace: own, deadline };
        let (host, inside) = sandbox.identity();
        let evidence = Evidence {
            workspace: workspace.as_deref(),
            processes: &processes,
            commands: &commands,
            answer,
            uid_map: UidMap { host, inside },
            limits: CheckLimits::default(),
        };
        checked(&task.checks, judged, &evidence).await
    };
    let Some(verifier) = &task.verifier else {
        let grade = checks.await?;
        return Ok(Grade { flags: once_each(flags, grade.flags), ..grade });
    };
    // Without checks the workspace is not opened, because it may have to be transferred from another machine.
    let checks = if task.checks.is_empty() { None } else { Some(checks.await?) };
    let timeouts = task.timeouts;
    let label = label.clone();
    let grading = Grading { backend, spec, verifier, files, label, sandbox, deadline, timeouts, flags };
    verifier::verify(grading, checks).await
}

/// The grade of all checks: those already evaluated, and those of the workspace.
async fn checked(
    checks: &[CheckSpec],
    mut judged: BTreeMap<usize, CheckReport>,
    evidence: &Evidence<'_>,
) -> Result<Grade, Fault> {
    if judged.is_empty() {
        return evaluate(checks, evidence).await;
    }
    let open = checks.iter().enumerate().filter(|(place, _)| !judged.contains_key(place));
    let open: Vec<CheckSpec> = open.map(|(_, check)| check.clone()).collect();
    let Grade { checks: found, flags, .. } = evaluate(&open, evidence).await?;
    let mut found = found.into_iter();
    let reports = (0..checks.len()).filter_map(|place| judged.remove(&place).or_else(|| found.next()));
    Ok(Grade::from_checks(reports.collect(), flags))
}

fn once_each(flags: Vec<String>, more: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for flag in flags.into_iter().chain(more) {
        if !all.contains(&flag) {
            all.push(flag);
        }
    }
    all
}

/// The processes, if a check needs them.
async fn probed(sandbox: &dyn Sandbox, checks: &[CheckSpec]) -> Vec<ProcessFacts> {
    if !checks.iter().any(|check| matches!(check.check, Check::Process { .. })) {
        return Vec::new();
    }
    settled(|| sandbox.processes(), checks).await
}

/// The process list, once the checks pass or the time is up. A program that the agent just started or killed gets a
/// moment to settle: between fork and exec it still has the shell's name.
async fn settled<Look>(look: impl Fn() -> Look, checks: &[CheckSpec]) -> Vec<ProcessFacts>
where
    Look: Future<Output = Vec<ProcessFacts>>,
{
    // From the end of the first listing on: among thousands of shells, listing itself may take seconds.
    let mut first = None;
    loop {
        let processes = look().await;
        let first = first.get_or_insert_with(tokio::time::Instant::now);
        let enough = if any_forked(&processes) { SETTLE_FORKED } else { SETTLE };
        if processes_hold(checks, &processes) || first.elapsed() >= enough {
            return processes;
        }
        // timer: the kernel has no event for an exec in another process.
        tokio::time::sleep(SETTLE / 80).await;
    }
}

/// Whether some process still has its parent's command line, or none: during an exec the kernel shows none.
fn any_forked(processes: &[ProcessFacts]) -> bool {
    processes.iter().any(|child| {
        let is_parent = |other: &&ProcessFacts| other.host_pid == child.host_parent;
        let has_line_of = |parent: &ProcessFacts| parent.command_line == child.command_line;
        child.command_line.is_empty() || processes.iter().find(is_parent).is_some_and(has_line_of)
    })
}

#[cfg(test)]
mod tests {
    use clawrl_core::BoxFuture;
    use clawrl_sandbox::SafeDir;

    use super::*;
    use crate::{CommandError, CommandOutput, CommandRequest, CommandRunner};

    /// No check here is a command.
    struct NoCommands;

    impl CommandRunner for NoCommands {
        fn run<'a>(
            &'a self,
            request: CommandRequest<'a>,
        ) -> BoxFuture<'a, Result<CommandOutput, CommandError>> {
            panic!("{request:?}");
        }
    }

    /// Checks by letter: `f` of a file that exists, `m` of a missing one; digits were evaluated before, with that many
    /// tenths.
    fn check(letters: &str, expected: &[(&str, f64)]) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "").unwrap();
        let spec = |letter: char| CheckSpec {
            label: letter.to_string(),
            weight: 1.0,
            check: Check::FileEquals { path: letter.to_string(), expected: String::new() },
        };
        let checks: Vec<CheckSpec> = letters.chars().map(spec).collect();
        let judged = letters.chars().enumerate().filter_map(|(place, letter)| {
            let score = f64::from(letter.to_digit(10)?) / 10.0;
            let report =
                CheckReport { label: letter.to_string(), score, weight: 1.0, message: String::new() };
            Some((place, report))
        });
        let evidence = Evidence {
            workspace: Ok(&SafeDir::open(folder.path()).unwrap()),
            processes: &[],
            commands: &NoCommands,
            answer: Answer::NotTaken,
            uid_map: UidMap { host: 0, inside: 0 },
            limits: CheckLimits::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let grade = runtime.block_on(checked(&checks, judged.collect(), &evidence)).unwrap();
        let found: Vec<(&str, f64)> =
            grade.checks.iter().map(|report| (report.label.as_str(), report.score)).collect();
        assert_eq!(found, expected, "{letters}");
        let mean = expected.iter().map(|(_, score)| score).sum::<f64>() / expected.len().max(1) as f64;
        assert!((grade.score - mean).abs() < 1e-12, "{letters}: {}", grade.score);
    }

    #[test]
    fn i3_reports_keep_the_order_of_the_checks() {
        check("", &[]);
        check("fm", &[("f", 1.0), ("m", 0.0)]);
        check("5f3mf", &[("5", 0.5), ("f", 1.0), ("3", 0.3), ("m", 0.0), ("f", 1.0)]);
        check("24", &[("2", 0.2), ("4", 0.4)]);
    }

    fn process(host_pid: u32, host_parent: u32, command_line: &str) -> ProcessFacts {
        ProcessFacts { host_pid, host_parent, start_ticks: 1, command_line: command_line.to_owned() }
    }

    #[test]
    fn forked_process_is_recognised_by_parent() {
        let shell = process(7, 1, "bash -i");
        assert!(!any_forked(&[]));
        assert!(!any_forked(&[shell.clone(), process(8, 7, "sleep 800")]));
        assert!(!any_forked(&[shell.clone(), process(8, 1, "bash -i")]), "another's child");
        assert!(any_forked(&[shell.clone(), process(8, 7, "")]), "amid its exec");
        assert!(any_forked(&[process(8, 7, "bash -i"), shell]));
    }

    /// Whether `sleep 800` is found running if a listing takes `seconds`, and the first `looks` listings return
    /// `early`.
    fn is_found(seconds: u64, looks: usize, early: &str) -> bool {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let taken = std::cell::Cell::new(0);
        let look = || async {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            taken.set(taken.get() + 1);
            let line = if taken.get() <= looks { early } else { "sleep 800" };
            vec![process(7, 1, "bash -i"), process(8, 7, line)]
        };
        let check = Check::Process { regex: "^sleep".to_owned(), running: true };
        let checks = [CheckSpec { label: String::new(), weight: 1.0, check }];
        let found = runtime.unwrap().block_on(settled(look, &checks));
        processes_hold(&checks, &found)
    }

    #[test]
    fn just_started_program_is_awaited() {
        assert!(is_found(0, 0, ""));
        assert!(is_found(0, 70, "touch f"), "within two seconds");
        assert!(!is_found(0, 90, "touch f"), "not within two seconds");
        assert!(is_found(0, 300, "bash -i"), "it is about to begin");
        assert!(!is_found(0, 500, "bash -i"), "a shell within a shell");
        assert!(is_found(3, 1, "touch f"), "a slow look is not the last");
        assert!(is_found(3, 2, "bash -i"));
    }

    #[test]
    fn flags_are_named_once() {
        let flags = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(once_each(flags(&["a", "b"]), flags(&["b", "c"])), flags(&["a", "b", "c"]));
    }
}
