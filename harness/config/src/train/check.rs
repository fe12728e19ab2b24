//! Checks a train file and converts it to a plan.
//!
//! I1. One pass finds all mistakes. I2. A default never contradicts written settings, but follows from them.
//!
//! Errors: [`ConfigError`], each problem with its span. Reads the train file, and checks that its suites and its policy
//! exist; nothing to cancel.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_core::RemoteSpec;

use super::distillation::DistillationPlan;
use super::file::{CheckpointFile, EngineFile};
use super::file::{EvaluationFile, LimitsFile, PolicyFile, TrainFile, TrainSuiteFile, WarmStartFile};
use super::plan::{
    CheckpointPlan, Device, EnginePlan, EvaluationPlan, PolicySource, TrainLimits, TrainPlan, TrainSuite,
    WarmStartPlan,
};
use super::settings::{TrainSetting, with_settings};
use crate::bounds;
use crate::dialect;
use crate::file::Located;
use crate::parse::parse;
use crate::policy_file::load_policy;
use crate::problem::{ConfigError, Finding, Findings, Problem};
use crate::read::{read, refuse_unnameable, suite_file};
use crate::source::{Source, Span};
use crate::value;

/// A policy's folder contains one of these files: that of a model, or that of an adapter.
const POLICY_FILES: [&str; 2] = ["config.json", "adapter_config.json"];

/// Default maximum tokens of a reply.
pub(super) const NEW_TOKENS: u32 = 48;

/// Reads and checks a train file.
///
/// # Errors
/// A file that cannot be read or has the wrong shape is one problem; otherwise every problem that there is.
pub fn load_train(path: &Path) -> Result<TrainPlan, ConfigError> {
    load_train_with(path, &[])
}

/// Loads a train file with overrides of some keys.
///
/// # Errors
/// The errors of [`load_train`], and keys that do not exist.
pub fn load_train_with(path: &Path, settings: &[TrainSetting]) -> Result<TrainPlan, ConfigError> {
    let source = with_settings(read(path, &dialect::TRAIN)?, settings)?;
    let file: TrainFile = parse(&source, &dialect::TRAIN)?;
    let mut checker = Checker { findings: Findings::new(&source), reproducible: None };
    let plan = checker.plan(&source, file);
    checker.findings.finish()?;
    Ok(plan)
}

/// Whether a path is that of a train file, recognised by its key `train:`, which no suite has. False for unreadable files.
#[must_use]
pub fn is_train_file(path: &Path) -> bool {
    let text = if path.is_file() { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    text.lines().any(|line| line.starts_with("train:"))
}

/// Gathers findings.
pub(super) struct Checker {
    pub(super) findings: Findings,
    /// Span of `reproducible: true`, if the file contains it.
    pub(super) reproducible: Option<Span>,
}

impl Checker {
    pub(super) fn problem(
        &mut self,
        span: Span,
        message: impl Into<String>,
        label: &str,
        help: impl Into<String>,
    ) {
        self.findings.add(span, Finding { message: message.into(), label, help: help.into() });
    }

    /// Two places that do not go together, the second being the reason.
    pub(super) fn contradiction(
        &mut self,
        problem: Problem,
        (span, label): (Span, &str),
        reason: Option<(Span, &str)>,
    ) {
        let problem = problem.at(&self.findings.source, span, label);
        self.findings.push(match reason {
            Some((span, label)) => problem.and_at(span, label),
            None => problem,
        });
    }

    fn plan(&mut self, source: &Arc<Source>, file: TrainFile) -> TrainPlan {
        if *file.format < 1 {
            let help = format!("write `format: {}`", bounds::TRAIN_FORMAT);
            self.problem(file.format.span, "there is no such format", "not a format", help);
        }
        if let Err(bad) = value::training_name(&file.train) {
            self.problem(file.train.span, bad.message, "this name", bad.help);
        }
        self.reproducible = file.reproducible.filter(|reproducible| **reproducible).map(|found| found.span);
        let seed = self.findings.seed(file.seed.as_ref());
        let folder = Path::new(&source.shown).parent().unwrap_or(Path::new(""));
        let policy = self.policy(folder, &file.policy);
        let suites = self.suites(folder, &file.suites);
        let judge = file.judge.and_then(|judge| self.judge(folder, &judge));
        if file.warm_start.is_none() && file.rl.is_none() {
            let help = "add `rl: {}` for reinforcement learning, `warm_start: {}` for imitation, or both";
            self.problem(
                file.train.span,
                "the training trains nothing",
                "neither `warm_start` nor `rl`",
                help,
            );
        }
        let rl = file.rl.map(|rl| self.rl(folder, &rl, file.train.span));
        let reads_hints = |taught: &DistillationPlan| !taught.hints.is_empty();
        let taught = rl.as_ref().is_some_and(|rl| rl.distillation.as_ref().is_some_and(reads_hints));
        let warm_start = file.warm_start.map(|warm_start| self.warm_start(&warm_start, taught));
        let new_tokens = rl.as_ref().map_or(NEW_TOKENS, |rl| rl.sampling.max_new_tokens);
        TrainPlan {
            // The format was compared with the newest one above.
            format: u32::try_from(*file.format).unwrap_or_default(),
            name: file.train.value,
            file: source.path.clone(),
            seed,
            reproducible: self.reproducible.is_some(),
            policy,
            suites,
            judge,
            warm_start,
            rl,
            evaluation: self.evaluation(&file.evaluation.unwrap_or_default(), new_tokens),
            checkpoint: self.checkpoint(&file.checkpoint.unwrap_or_default()),
            devices: self.devices(file.devices.as_ref(), file.engine.as_ref()),
            engine: self.engine(&file.engine.unwrap_or_default()),
            limits: self.limits(&file.limits.unwrap_or_default()),
        }
    }

    /// A model that judges, by its policy file.
    pub(super) fn judge(&mut self, folder: &Path, file: &Located<String>) -> Option<Box<RemoteSpec>> {
        if let Some(reproducible) = self.reproducible {
            let problem =
                Problem::new("a training with a judge cannot be reproducible", "leave out one of the two");
            self.contradiction(
                problem,
                (reproducible, "asked for here"),
                Some((file.span, "votes differ by chance")),
            );
        }
        self.policy_file(folder, file)
    }

    /// A model behind a server, by its policy file.
    pub(super) fn policy_file(&mut self, folder: &Path, file: &Located<String>) -> Option<Box<RemoteSpec>> {
        match load_policy(&folder.join(&file.value)) {
            Ok(spec) => return Some(Box::new(spec)),
            Err(error) => {
                for problem in error.problems() {
                    // A mistake in the other file has a span there; a missing file is reported at its name here.
                    match problem.location() {
                        Some(_) => self.findings.push(problem.clone()),
                        None => self.contradiction(problem.clone(), (file.span, "named here"), None),
                    }
                }
            }
        }
        None
    }

    fn policy(&mut self, folder: &Path, policy: &Located<PolicyFile>) -> PolicySource {
        let nothing = PolicySource::Path(PathBuf::new());
        match (policy.preset, &policy.path) {
            (Some(preset), None) => PolicySource::Preset(preset),
            (None, Some(path)) => match policy_folder(&folder.join(&path.value)) {
                Ok(path) => PolicySource::Path(path),
                Err(problem) => {
                    self.contradiction(problem, (path.span, "named here"), None);
                    nothing
                }
            },
            _ => {
                let help = "write `policy: { preset: tiny }`, or `policy: { path: FOLDER }`";
                self.problem(policy.span, "the policy needs one source", "none, or both", help);
                nothing
            }
        }
    }

    fn suites(&mut self, folder: &Path, files: &Located<Vec<TrainSuiteFile>>) -> Vec<TrainSuite> {
        if files.is_empty() {
            let help = "name at least one: `suites: [{ path: ../tasks/terminal-basics, instances: 200 }]`";
            self.problem(files.span, "there is no suite to train on", "no suites here", help);
        }
        let mut suites: Vec<(TrainSuite, Span)> = Vec::new();
        for file in &files.value {
            let instances = file.instances.as_ref();
            let bounds = 1..=bounds::MAX_INSTANCES;
            let instances = instances.map(|number| self.findings.whole("instances", Some(number), bounds, 1));
            let weight = file.weight.as_ref();
            let weight =
                weight.map(|given| self.findings.whole("weight", Some(given), 1..=bounds::MAX_WEIGHT, 1));
            let path = match suite_path(&folder.join(&file.path.value)) {
                Ok(path) => path,
                Err(problem) => {
                    self.contradiction(problem, (file.path.span, "named here"), None);
                    continue;
                }
            };
            if let Some((_, first)) = suites.iter().find(|(suite, _)| suite.path == path) {
                let message = "the same suite is given twice";
                let problem = Problem::new(
                    message,
                    "name it once; a larger `weight` makes its tasks come up more often",
                );
                let first = Some((*first, "the first one"));
                self.contradiction(problem, (file.path.span, "the second one"), first);
            }
            suites.push((TrainSuite { path, instances, weight }, file.path.span));
        }
        suites.into_iter().map(|(suite, _)| suite).collect()
    }

    /// `taught`: whether a later teacher reads hints, and so has to learn to use them.
    fn warm_start(&mut self, file: &WarmStartFile, taught: bool) -> WarmStartPlan {
        let findings = &mut self.findings;
        let most = bounds::MAX_DEMONSTRATIONS;
        let demonstrations = findings.whole("demonstrations", file.demonstrations.as_ref(), 1..=most, 2_000);
        let oracle_percent = findings.whole("oracle_percent", file.oracle_percent.as_ref(), 0..=100, 35);
        let steps = findings.whole("steps", file.steps.as_ref(), 1..=bounds::MAX_STEPS, 400);
        let batch = findings.whole("batch", file.batch.as_ref(), 1..=bounds::MAX_BATCH, 64);
        let optimizer = self.warm_start_optimizer(file.optimizer.as_ref(), steps);
        let findings = &mut self.findings;
        let hinted = if taught { 30 } else { 0 };
        let hinted_percent = findings.whole("hinted_percent", file.hinted_percent.as_ref(), 0..=100, hinted);
        let contradicted = file.contradicted_percent.as_ref();
        let contradicted_percent = findings.whole("contradicted_percent", contradicted, 0..=100, 50);
        if let Some(given) = contradicted.filter(|_| hinted_percent == 0) {
            let help = "write `hinted_percent: 30`, or leave this out";
            self.problem(given.span, "no demonstration has a hint", "never looked at", help);
        }
        let findings = &mut self.findings;
        let skipped = 0..=bounds::MAX_SKIPPED;
        let usual = WarmStartPlan::max_skipped_steps();
        let max_skipped_steps =
            findings.whole("max_skipped_steps", file.max_skipped_steps.as_ref(), skipped, usual);
        // 100 at most.
        let percent = |number: u32| u8::try_from(number).unwrap_or(100);
        WarmStartPlan {
            demonstrations,
            oracle_percent: percent(oracle_percent),
            steps,
            batch,
            interchangeable: file.interchangeable.iter().map(|list| list.value.clone()).collect(),
            hinted_percent: percent(hinted_percent),
            max_skipped_steps,
            contradicted_percent: if hinted_percent == 0 { 0 } else { percent(contradicted_percent) },
            optimizer,
        }
    }

    fn evaluation(&mut self, file: &EvaluationFile, new_tokens: u32) -> EvaluationPlan {
        let findings = &mut self.findings;
        let tasks = 1..=bounds::MAX_EVALUATION_TASKS;
        let min_tasks = findings.whole("min_tasks", file.min_tasks.as_ref(), tasks.clone(), 1);
        let max_tasks = findings.whole("max_tasks", file.max_tasks.as_ref(), tasks, min_tasks.max(600));
        let every = 0..=bounds::MAX_UPDATES;
        let every_updates = findings.whole("every_updates", file.every_updates.as_ref(), every, 25);
        let tokens = 1..=bounds::MAX_NEW_TOKENS;
        let max_new_tokens =
            findings.whole("max_new_tokens", file.max_new_tokens.as_ref(), tokens, new_tokens);
        if let (Some(min), Some(max)) = (&file.min_tasks, &file.max_tasks)
            && min_tasks > max_tasks
        {
            let message =
                format!("an evaluation of at least {min_tasks} tasks cannot have at most {max_tasks}");
            let problem = Problem::new(message, format!("write `max_tasks: {min_tasks}` or more"));
            let reason = Some((max.span, "at most this many"));
            self.contradiction(problem, (min.span, "at least this many"), reason);
        }
        EvaluationPlan { every_updates, max_tasks, min_tasks, max_new_tokens }
    }

    fn checkpoint(&mut self, file: &CheckpointFile) -> CheckpointPlan {
        let findings = &mut self.findings;
        let every = 1..=bounds::MAX_UPDATES;
        let kept = 1..=bounds::MAX_KEPT;
        let every_updates = findings.whole("every_updates", file.every_updates.as_ref(), every, 5);
        let moments = file.keep_moments.as_ref();
        let weights_default = findings.whole("keep_moments", moments, kept.clone(), 2).max(5);
        let keep_weights =
            findings.whole("keep_weights", file.keep_weights.as_ref(), kept.clone(), weights_default);
        let keep_moments = findings.whole("keep_moments", moments, kept, keep_weights.min(2));
        if let (Some(moments), Some(weights)) = (moments, &file.keep_weights)
            && keep_moments > keep_weights
        {
            let message =
                format!("moments of {keep_moments} checkpoints, but weights of {keep_weights} only");
            let help =
                format!("write `keep_weights: {keep_moments}` or more: moments are useless without weights");
            let reason = Some((weights.span, "fewer than that"));
            self.contradiction(Problem::new(message, help), (moments.span, "these checkpoints"), reason);
        }
        CheckpointPlan { every_updates, keep_weights, keep_moments }
    }

    fn engine(&mut self, file: &EngineFile) -> EnginePlan {
        let findings = &mut self.findings;
        let most = bounds::MAX_ENGINE_BATCH;
        let max_batch = findings.whole("max_batch", file.max_batch.as_ref(), 1..=most, 256);
        let threads = findings.whole("threads", file.threads.as_ref(), 1..=bounds::MAX_THREADS, 1);
        let learner_threads = file.learner_threads.as_ref();
        let learner_threads = learner_threads
            .map(|number| findings.whole("learner_threads", Some(number), 1..=bounds::MAX_THREADS, 1));
        let device = file.device.as_ref().map_or(Device::Cpu, |device| device.value);
        if let (Some(span), Some(found), Device::Cuda | Device::Auto) =
            (self.reproducible, &file.device, device)
        {
            let help = "write `device: cpu`, or `reproducible: false`";
            let problem = Problem::new("nothing on a GPU is promised to be the same bits again", help);
            self.contradiction(problem, (found.span, "not reproducible"), Some((span, "asked for here")));
        }
        EnginePlan {
            max_batch,
            threads,
            learner_threads,
            device,
            batch_invariant: self.reproducible.is_some(),
            dtype: file.dtype.as_ref().map_or_else(Default::default, |dtype| dtype.value),
            activations: file.activations.as_ref().map_or_else(Default::default, |kept| kept.value),
            turns: file.turns.as_ref().map(|turns| turns.value),
        }
    }

    fn limits(&mut self, file: &LimitsFile) -> TrainLimits {
        let findings = &mut self.findings;
        let most = bounds::MAX_CONCURRENCY;
        let concurrency = file.concurrency.as_ref();
        TrainLimits {
            concurrency: concurrency.map(|number| findings.whole("concurrency", Some(number), 1..=most, 1)),
            prewarm: findings.whole("prewarm", file.prewarm.as_ref(), 0..=most, 0),
            max_retries: findings.whole("max_retries", file.max_retries.as_ref(), 0..=bounds::MAX_RETRIES, 2),
        }
    }
}

/// The suite file of a path, absolute.
fn suite_path(path: &Path) -> Result<PathBuf, Problem> {
    let file = suite_file(path)?;
    absolute(&file)
}

fn policy_folder(path: &Path) -> Result<PathBuf, Problem> {
    for name in POLICY_FILES {
        if path.join(name).try_exists().map_err(|cause| unreadable(path, &cause))? {
            return absolute(path);
        }
    }
    let shown = path.display();
    let help = "name the folder of a policy, or write `preset: tiny` for a new one";
    if path.is_dir() {
        let message = format!("the folder `{shown}` has no {}", POLICY_FILES.join(" or "));
        return Err(Problem::new(message, help));
    }
    Err(Problem::new(format!("there is no policy at `{shown}`"), help))
}

fn absolute(path: &Path) -> Result<PathBuf, Problem> {
    let absolute = path.canonicalize().map_err(|cause| unreadable(path, &cause))?;
    refuse_unnameable(&absolute)?;
    Ok(absolute)
}

fn unreadable(path: &Path, cause: &std::io::Error) -> Problem {
    let message = format!("`{}` cannot be read: {}", path.display(), cause.kind());
    Problem::new(message, "make it and the folders above readable for this user")
}
