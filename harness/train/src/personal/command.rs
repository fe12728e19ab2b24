//! The evaluation from its request to its report.
//!
//! Cancellation: none; the policy and finished courses are on disk, and the same command with `--out` resumes an ended process.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use clawrl_config::ChatPlan;
use clawrl_core::Judge;
use clawrl_torch::{Device, Engine, EngineConfig, EngineHandle, ModelFiles, configure_threads, load_params};
use serde::Serialize;
use tokio::runtime::Handle;

use super::super::libtorch::check_libtorch;
use super::super::settings::threads;
use super::super::setup::unusable;
use super::arm::{Arm, Tuning, tuning};
use super::findings::{Findings, findings};
use super::kept::{Kept, Settings, refuse_what_is_in_the_way, unwritable};
use super::page::{HEADINGS, PICTURE, comparison_line, page, picture, row};
use super::protocol::{Case, Course, CourseContext, Protocol};
use super::start::{Making, model, policy};
use super::user::Persona;
use clawrl_runtime::training::{PersonalOutcome, PersonalRequest, TrainError};
use clawrl_runtime::{Progress, stamp, turn_judge};

/// Maximum replies of a session.
const TURNS: u32 = 3;
const POLICY_SEED: u64 = 1;

/// The result of the evaluation.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) protocol: Protocol,
    pub(super) seeds: u32,
    pub(super) first_seed: u64,
    pub(super) warm_start_steps: u32,
    pub(super) tunings: BTreeMap<Arm, Tuning>,
    pub(super) findings: Findings,
    pub(super) courses: Vec<Course>,
    pub(super) report: PathBuf,
}

/// Runs the evaluation and writes its report.
///
/// # Errors
/// The folder is not empty, the disk cannot be written, or the learner was aborted.
pub fn evaluate_personal(
    arguments: &PersonalRequest,
    progress: &dyn Progress,
) -> Result<PersonalOutcome, TrainError> {
    check_libtorch()?;
    let folder = arguments.results.join("personal");
    let out = arguments.out.clone().unwrap_or_else(|| folder.join(stamp()));
    let out = std::path::absolute(&out).unwrap_or(out);
    refuse_what_is_in_the_way(&out)?;
    let say = |line: &str| progress.step(format_args!("{line}"));
    configure_threads(threads(1)).map_err(|error| TrainError::unavailable(error.to_string()))?;
    let making = Making { seed: POLICY_SEED, steps: arguments.warm_start_steps };
    let policy = policy(&folder, making, &say)?;
    let protocol = Protocol {
        sessions: arguments.sessions,
        turns: TURNS,
        wanted_percent: arguments.telling,
        held_out: arguments.held_out,
    };
    let tuned = |arm: &Arm| {
        let mut tuning = tuning(*arm);
        tuning.learning_rate = arguments.learning_rate.unwrap_or(tuning.learning_rate);
        tuning.max_kl = arguments.max_kl.unwrap_or(tuning.max_kl);
        tuning.train_every_turns = arguments.train_every_turns.unwrap_or(tuning.train_every_turns);
        (*arm, tuning)
    };
    let tunings: BTreeMap<Arm, Tuning> = arguments.arms.iter().map(tuned).collect();
    let named = policy.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (kept, done) =
        Kept::open(&out, &Settings { protocol: &protocol, policy: &named, tunings: &tunings })?;
    let is_of = |case: &Case, course: &Course| {
        (case.seed, case.persona, case.arm) == (course.seed, course.persona, course.arm)
    };
    let mut wanted = cases(arguments, &tunings);
    // Other cases of an earlier command stay on disk, but are not part of this result.
    let done: Vec<Course> =
        done.into_iter().filter(|course| wanted.iter().any(|case| is_of(case, course))).collect();
    wanted.retain(|case| !done.iter().any(|course| is_of(case, course)));
    let jobs = arguments
        .jobs
        .map_or_else(|| thread::available_parallelism().map_or(1, |cores| cores.get()), |jobs| jobs as usize);
    let work = out.join("adapters");
    remove(&work)?;
    let courses = follow(&policy, wanted, (kept, done), &protocol, &work, jobs, &say)?;
    // Adapters are not needed after the comparison.
    remove(&work)?;
    let outcome = Outcome {
        findings: findings(&courses, protocol.sessions),
        protocol,
        seeds: arguments.seeds,
        first_seed: arguments.first_seed,
        warm_start_steps: arguments.warm_start_steps,
        tunings,
        courses,
        report: out.join("report.md"),
    };
    write(&outcome.report, &page(&outcome))?;
    write(&out.join(PICTURE), &picture(&outcome.findings.arms))?;
    let json = serde_json::to_string_pretty(&outcome)
        .map_err(|error| TrainError::internal(format!("what came of it cannot be written: {error}")))?;
    write(&out.join("personal.json"), &json)?;
    Ok(PersonalOutcome {
        json,
        headings: HEADINGS,
        rows: outcome.findings.arms.iter().map(row).collect(),
        comparisons: outcome.findings.comparisons.iter().map(comparison_line).collect(),
        report: outcome.report,
    })
}

/// All cases, ordered by seed.
fn cases(arguments: &PersonalRequest, tunings: &BTreeMap<Arm, Tuning>) -> VecDeque<Case> {
    let mut personas: Vec<Persona> = arguments.personas.clone();
    personas.sort_unstable();
    personas.dedup();
    let seeds = (0..u64::from(arguments.seeds)).map(|number| arguments.first_seed + number);
    seeds
        .flat_map(|seed| {
            let of_persona =
                move |persona| tunings.iter().map(move |(&arm, &tuning)| Case { seed, persona, arm, tuning });
            personas.clone().into_iter().flat_map(of_persona)
        })
        .collect()
}

/// Runs cases, `jobs` at the same time, with one sampler.
fn follow(
    policy: &Path,
    cases: VecDeque<Case>,
    (kept, done): (Kept, Vec<Course>),
    protocol: &Protocol,
    work: &Path,
    jobs: usize,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<Course>, TrainError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .map_err(|error| TrainError::unavailable(format!("there is no runtime: {error}")))?;
    let params = load_params(&ModelFiles::of(policy), Device::Cpu).map_err(unusable)?;
    // The result of a case does not depend on concurrent cases.
    let config = EngineConfig { reproducible: true, ..EngineConfig::default() };
    let engine = Engine::start(config, 0, &params).map_err(unusable)?;
    let judge = turn_judge(&ChatPlan::default().judging, None)?;
    let (jobs, count) = (jobs.min(cases.len()), cases.len() + done.len());
    let shared = Shared { cases: Mutex::new(cases), courses: Mutex::new((kept, done)), count, say };
    let try_some = || {
        let context = context(policy, engine.handle(), runtime.handle(), &judge, protocol, work)?;
        shared.follow(&context)
    };
    let done: Result<(), TrainError> = thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(try_some)).collect();
        let ended = |_| TrainError::internal("a thread ended before its cases");
        threads.into_iter().try_for_each(|thread| thread.join().map_err(ended)?)
    });
    done?;
    let (_, mut courses) = shared.courses.into_inner().unwrap_or_else(PoisonError::into_inner);
    courses.sort_by_key(|course| (course.seed, course.persona, course.arm));
    Ok(courses)
}

fn context(
    policy: &Path,
    engine: EngineHandle,
    runtime: &Handle,
    judge: &Arc<dyn Judge>,
    protocol: &Protocol,
    work: &Path,
) -> Result<CourseContext, TrainError> {
    configure_threads(threads(1)).map_err(|error| TrainError::unavailable(error.to_string()))?;
    Ok(CourseContext {
        model: model(policy, engine)?,
        runtime: runtime.clone(),
        judge: Arc::clone(judge),
        protocol: protocol.clone(),
        folder: work.to_owned(),
    })
}

/// State shared by threads: cases that have not started, and the results of the others.
struct Shared<'a> {
    cases: Mutex<VecDeque<Case>>,
    courses: Mutex<(Kept, Vec<Course>)>,
    count: usize,
    say: &'a (dyn Fn(&str) + Sync),
}

impl Shared<'_> {
    fn follow(&self, context: &CourseContext) -> Result<(), TrainError> {
        loop {
            let next = self.cases.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(case) = next else { return Ok(()) };
            let course = context.follow(case).inspect_err(|_| {
                // The other threads end after their current case.
                self.cases.lock().unwrap_or_else(PoisonError::into_inner).clear();
            })?;
            let mut courses = self.courses.lock().unwrap_or_else(PoisonError::into_inner);
            courses.0.add(&course)?;
            courses.1.push(course);
            let (done, count) = (courses.1.len(), self.count);
            drop(courses);
            if done.is_multiple_of(25) || done == count {
                (self.say)(&format!("{done} of {count} cases"));
            }
        }
    }
}

/// Removes the adapters of cases, including those that an ended process left.
fn remove(work: &Path) -> Result<(), TrainError> {
    fs::remove_dir_all(work).or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(unwritable(work, &error)),
    })
}

fn write(path: &Path, text: &str) -> Result<(), TrainError> {
    fs::write(path, text).map_err(|error| unwritable(path, &error))
}
