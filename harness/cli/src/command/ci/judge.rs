//! `clawrl ci GATE...`: runs the candidate or takes a recorded run, and evaluates the gates.
//!
//! I1. All gates are checked before anything runs. I2. The worst gate decides the exit code.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clawrl_config::{CiPlan, ConfigError, load_ci};
use clawrl_core::RunPlan;
use clawrl_gates::RepeatsError;
use clawrl_record::{JournalState, Run, RunEnd, RunStore};
use clawrl_regression::{
    AssessError, Assessment, Baseline, BaselineError, Comparison, Conditions, Outcome, assess, repeats_of,
};

use super::arguments::GateArguments;
use super::outputs;
use super::trial::{Actor, Start, Trial};
use super::words::tell;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::{print, print_json};
use crate::results::ResultsArguments;

/// The run that a gate evaluates.
enum Candidate {
    /// A recorded run.
    Recorded(Box<Run>),
    /// A run to start or resume, and its policy.
    Trial(Start, Actor),
}

impl Candidate {
    fn plan(&self) -> &RunPlan {
        match self {
            Self::Recorded(run) | Self::Trial(Start::Again(run), _) => run.plan(),
            Self::Trial(Start::New(plan), _) => plan,
        }
    }
}

/// Runs the command.
pub(super) fn run(arguments: &GateArguments, log: &Log) -> Result<Exit, Failure> {
    let store = arguments.results.store()?;
    let mut wanted = Vec::new();
    for gate in gates(arguments)? {
        wanted.push(prepare(gate, arguments, &store, log)?);
    }
    let (mut assessments, mut told) = (Vec::new(), String::new());
    let mut broken = None;
    for (comparison, candidate) in wanted {
        let (run, assessment) = match judged(&comparison, candidate, arguments, log) {
            Ok(judged) => judged,
            // Results of earlier gates are still written.
            Err(failure) => {
                broken = Some(failure);
                break;
            }
        };
        let text = tell(&assessment, run.dir());
        outputs::write(&run.dir().join("gate"), std::slice::from_ref(&assessment), &text)?;
        told += &text;
        if !arguments.json {
            print(&text)?;
        }
        assessments.push(assessment);
    }
    if let Some(folder) = arguments.out.as_ref().filter(|_| broken.is_none() || !assessments.is_empty()) {
        outputs::write(folder, &assessments, &told)?;
    }
    if arguments.json {
        print_json(&assessments)?;
    }
    broken.map_or_else(|| Ok(exit_of(&assessments)), Err)
}

fn judged(
    comparison: &Comparison,
    candidate: Candidate,
    arguments: &GateArguments,
    log: &Log,
) -> Result<(Run, Assessment), Failure> {
    let repeats = clawrl_regression::slots_of_a_task(candidate.plan());
    let run = match candidate {
        Candidate::Recorded(run) => *run,
        Candidate::Trial(start, actor) => try_out(start, repeats, actor, comparison, arguments, log)?,
    };
    let assessment =
        assess(comparison, &run).map_err(|error| refused(error, comparison, &arguments.results))?;
    Ok((run, assessment))
}

/// Reads the gate files and reports all their errors together.
fn gates(arguments: &GateArguments) -> Result<Vec<CiPlan>, Failure> {
    let refuse = |message: &str, help: &str| Err(Failure::with_help(Exit::Refused, message, help));
    let count = arguments.gates.len();
    if count == 0 {
        return refuse(
            "no gate is named",
            "name a gate file, such as ci/gates/my-gate.yaml: harness/docs/guides/ci.md",
        );
    }
    let named = arguments.run.is_some() || arguments.resume.is_some() || arguments.baseline.is_some();
    if count > 1 && named {
        return refuse("--run, --resume and --baseline go with one gate", "name one gate, or leave them out");
    }
    let (mut gates, mut problems): (Vec<CiPlan>, Vec<_>) = (Vec::new(), Vec::new());
    for path in &arguments.gates {
        match load_ci(path) {
            Ok(gate) => gates.push(gate),
            Err(error) => problems.extend_from_slice(error.problems()),
        }
    }
    if let Some(error) = ConfigError::from_problems(problems) {
        return Err(error.into());
    }
    let mut names = BTreeSet::new();
    match gates.iter().find(|gate| !names.insert(gate.gate.clone())) {
        Some(twice) => {
            let message = format!("the gate `{}` is named twice", twice.gate);
            Err(Failure::with_help(
                Exit::Refused,
                message,
                "name each gate once; its name is `gate:` in the file",
            ))
        }
        None => Ok(gates),
    }
}

fn prepare(
    gate: CiPlan,
    arguments: &GateArguments,
    store: &RunStore,
    log: &Log,
) -> Result<(Comparison, Candidate), Failure> {
    let path = baseline_path(&gate, arguments.baseline.as_ref(), &arguments.results);
    let baseline =
        Baseline::read(&path, &gate.gate).map_err(|error| unusable(error, &gate, &arguments.results))?;
    let candidate = match (&arguments.run, &arguments.resume) {
        (Some(run), _) => Candidate::Recorded(Box::new(store.run(run)?)),
        (None, Some(run)) => begun(store.run(run)?, store, log)?,
        (None, None) => {
            let repeats =
                repeats_of(&gate, Some(&baseline)).map_err(|error| repeats_failure(&gate, &error))?;
            let plan = arguments.candidate.run_plan(&gate, repeats, store, log)?;
            // Created for all gates before any runs: a policy on libtorch restarts in another program.
            let actor = Actor::of(&plan, store)?;
            Candidate::Trial(Start::New(Box::new(plan)), actor)
        }
    };
    let plan = candidate.plan();
    let conditions = Conditions::of(plan);
    baseline.refuse_other(&conditions).map_err(|error| unusable(error, &gate, &arguments.results))?;
    gate.must_pass(plan)?;
    Ok((Comparison::new(gate, baseline), candidate))
}

/// A run to resume, or a recorded run if it is complete.
fn begun(run: Run, store: &RunStore, log: &Log) -> Result<Candidate, Failure> {
    if run.train()?.is_some() {
        let help = "name the run of a gate; `clawrl ls` lists all";
        let message = format!("run {} is a training", run.plan().run);
        return Err(Failure::with_help(Exit::Refused, message, help));
    }
    let end = run.state().and_then(JournalState::finished).map(|finished| finished.end);
    if end == Some(RunEnd::Completed) && !run.is_running() {
        log.note(format_args!("run {} has nothing left to do", run.plan().run));
        return Ok(Candidate::Recorded(Box::new(run)));
    }
    let actor = Actor::again(&run, store)?;
    Ok(Candidate::Trial(Start::Again(Box::new(run)), actor))
}

fn try_out(
    start: Start,
    repeats: u32,
    actor: Actor,
    comparison: &Comparison,
    arguments: &GateArguments,
    log: &Log,
) -> Result<Run, Failure> {
    let schedule =
        comparison.schedule(repeats).map_err(|error| refused(error, comparison, &arguments.results))?;
    let trial = Trial {
        start,
        actor,
        looks: schedule.map(|schedule| (comparison.clone(), schedule)),
        budget: comparison.gate().budget,
        results: &arguments.results,
        quiet: arguments.quiet,
    };
    trial.run(log)
}

/// Path of a gate's baseline.
pub(super) fn baseline_path(gate: &CiPlan, named: Option<&PathBuf>, results: &ResultsArguments) -> PathBuf {
    named.cloned().unwrap_or_else(|| Baseline::path(&results.dir(), &gate.gate))
}

/// Error for an unusable baseline, with advice.
pub(super) fn unusable(error: BaselineError, gate: &CiPlan, results: &ResultsArguments) -> Failure {
    let accept = format!("clawrl ci accept {}{}", gate.file.display(), results.repeated());
    let (exit, help) = match &error {
        BaselineError::Missing { .. } => (
            Exit::Refused,
            format!(
                "`{accept}` runs the gate and makes what it does the baseline, or name one with --baseline"
            ),
        ),
        BaselineError::OtherPlan { .. } => (
            Exit::Refused,
            format!("look at what has changed; if that was meant, `{accept}` makes a baseline of it"),
        ),
        BaselineError::Newer { .. } => (Exit::Refused, "update clawrl".to_owned()),
        BaselineError::OtherGate { .. } => (Exit::Refused, "name the baseline of this gate".to_owned()),
        BaselineError::Damaged { .. } => (
            Exit::Refused,
            "take it back from version control; only `clawrl ci accept` writes one".to_owned(),
        ),
        BaselineError::Io { .. } => (Exit::Results, "make the file accessible for this user".to_owned()),
    };
    Failure::with_help(exit, error.to_string(), help)
}

/// Error for a gate that no number of repeats can satisfy.
pub(super) fn repeats_failure(gate: &CiPlan, error: &RepeatsError) -> Failure {
    let message = format!("`repeats: auto` of {} has no answer: {error}", gate.file.display());
    let help = match error {
        RepeatsError::FewTasks { .. } => "add tasks: no number of repeats is enough for so few",
        RepeatsError::MoreThanAll { .. } => {
            "let a smaller drop matter, or write how many, such as `repeats: 8`"
        }
        RepeatsError::MoreTasks { .. } => {
            "add tasks, let a larger drop matter, or write how many, such as `repeats: 8`"
        }
        RepeatsError::Setting { .. } => "correct the gate file",
    };
    Failure::with_help(Exit::Refused, message, help)
}

fn refused(error: AssessError, comparison: &Comparison, results: &ResultsArguments) -> Failure {
    match error {
        AssessError::Baseline(error) => unusable(error, comparison.gate(), results),
        AssessError::Config(error) => error.into(),
        AssessError::UnderWay { .. } => {
            Failure::with_help(Exit::NoSuchRun, error.to_string(), "wait for its end, or end it")
        }
        AssessError::Pairing { .. } | AssessError::Gate(_) | AssessError::InterimPlan(_) => {
            Failure::new(Exit::Refused, error.to_string())
        }
    }
}

/// Exit code of the worst assessment (I2).
fn exit_of(assessments: &[Assessment]) -> Exit {
    match assessments.iter().map(|assessment| assessment.outcome).max() {
        Some(Outcome::Pass) => Exit::Success,
        Some(Outcome::Fail) => Exit::GateFailed,
        Some(Outcome::Inconclusive) | None => Exit::GateInconclusive,
    }
}
