//! Generates tasks from packages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_config::{Node, Problem};
use serde_json::{Value, json};

use super::candidate::{Candidate, candidates};
use super::distribution::Distribution;
use super::edit::{diff, edited};
use super::options::SynthOptions;
use super::suite::{head, package};
use super::trial::{Rejection, TestFile, TestJob, TestRun, TestRunner, failing, passing};
use super::wording::{instruction, is_crash};
use crate::draft::{Fixture, SuiteParts};
use crate::findings::Findings;
use crate::import::slug;

/// Faults that are tried before the results are evaluated; the same on every machine (Y2).
const BATCH: usize = 32;

/// Maximum tasks of one function.
const MAX_PER_FUNCTION: usize = 3;

/// One in this many tasks may have tests that only raise a type error.
const CRASH_SHARE: usize = 5;

/// Time limit of tests with an injected fault, relative to those without: longer ones are assumed to loop.
const PATIENCE: u32 = 8;
const MIN_TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_TIMEOUT: Duration = Duration::from_secs(300);

/// Characters of a log that a message shows.
const MAX_LOG_CHARS: usize = 800;

/// A fault that becomes a task.
pub(super) struct AcceptedFault {
    pub(super) id: String,
    pub(super) instruction: String,
    /// The diffs that inject it, and remove it.
    pub(super) fault: String,
    pub(super) gold: String,
    pub(super) failing: Vec<String>,
}

/// Generates the tasks of all packages; problems go to the findings, progress to `progress`.
pub(crate) fn make(
    options: &SynthOptions,
    runner: &dyn TestRunner,
    progress: &mut dyn FnMut(String),
    findings: &mut Findings,
) -> SuiteParts {
    let command = command(&options.test, &options.parser);
    let mut made = SuiteParts::default();
    let mut slowest = Duration::ZERO;
    for source in &options.sources {
        let distribution = match Distribution::read(source, options) {
            Ok(distribution) => distribution,
            Err(problem) => {
                findings.adopt(&problem.into());
                continue;
            }
        };
        match of_package(&distribution, &command, options, runner, progress) {
            Ok(package) => {
                slowest = slowest.max(package.timeout);
                made.tasks.extend(package.tasks);
                made.fixtures.extend(package.fixtures);
                made.ids.extend(package.ids);
                made.records.push(package.record);
            }
            Err(problem) => findings.adopt(&problem.into()),
        }
    }
    made.head = head(options, &command, (slowest.as_secs() * 2).max(60));
    made
}

/// The result of one package.
struct Package {
    tasks: Vec<Node>,
    fixtures: Vec<Fixture>,
    ids: Vec<String>,
    record: Value,
    timeout: Duration,
}

fn of_package(
    distribution: &Distribution,
    command: &str,
    options: &SynthOptions,
    runner: &dyn TestRunner,
    progress: &mut dyn FnMut(String),
) -> Result<Package, Problem> {
    let trial = Trial { distribution, command, options, runner };
    let (base, took) = trial.without_fault()?;
    let timeout = (took * PATIENCE).max(MIN_TIMEOUT);
    let name = &distribution.name;
    progress(format!("{name} {}: {} tests pass", distribution.version, base.len()));
    let candidates = candidates(distribution, options)?;
    let total = candidates.len();
    let max = options.limit.unwrap_or(usize::MAX);
    let mut kept: Vec<AcceptedFault> = Vec::new();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut unfit: BTreeMap<Rejection, usize> = BTreeMap::new();
    let mut of_function: BTreeMap<String, usize> = BTreeMap::new();
    let mut left = candidates.into_iter();
    let (mut tried, mut crashes) = (0, 0);
    while kept.len() < max {
        let is_open =
            |one: &Candidate| of_function.get(&function(one)).is_none_or(|count| *count < MAX_PER_FUNCTION);
        let batch: Vec<Candidate> = left.by_ref().filter(is_open).take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        tried += batch.len();
        for (one, verdict) in trial.with_faults(batch, &base, timeout)? {
            let (failing, log, change) = match verdict {
                Ok(found) => found,
                Err(why) => {
                    *unfit.entry(why).or_default() += 1;
                    continue;
                }
            };
            let count = of_function.entry(function(&one)).or_default();
            if kept.len() >= max || *count >= MAX_PER_FUNCTION {
                continue;
            }
            // A type error can be found without understanding the package.
            if is_crash(&failing, &log) {
                if (crashes + 1) * CRASH_SHARE > kept.len() + 1 {
                    *unfit.entry(Rejection::Crash).or_default() += 1;
                    continue;
                }
                crashes += 1;
            }
            *count += 1;
            *kinds.entry(one.kind.clone()).or_default() += 1;
            let id = id(name, &one, *count, &kept);
            let instruction = instruction(name, &one, &failing, &log, &options.test);
            kept.push(AcceptedFault { id, instruction, fault: change.fault, gold: change.gold, failing });
        }
        progress(format!("{name}: {tried} of {total} faults tried, {} tasks", kept.len()));
    }
    if kept.is_empty() {
        let message = format!("no fault of `{name}` makes a task: {tried} were tried");
        return Err(Problem::new(message, "choose a package with better test coverage"));
    }
    let passing: Vec<String> = base.into_iter().collect();
    let draft = package(distribution, &passing, &kept);
    let unfit: BTreeMap<String, usize> =
        unfit.into_iter().map(|(why, count)| (format!("{why:?}").to_lowercase(), count)).collect();
    let record = json!({
        "package": name, "version": distribution.version, "archive": distribution.archive,
        "sha256": distribution.sha256, "seed": options.seed, "tests": passing.len(), "faults": total, "tried": tried,
        "tasks": kept.len(), "kinds": kinds, "unfit": unfit,
    });
    let ids = kept.into_iter().map(|one| one.id).collect();
    Ok(Package { tasks: draft.tasks, fixtures: draft.fixtures, ids, record, timeout })
}

/// A package under test.
struct Trial<'a> {
    distribution: &'a Distribution,
    command: &'a str,
    options: &'a SynthOptions,
    runner: &'a dyn TestRunner,
}

/// The tests that a fault breaks, their messages, and its diffs.
type Verdict = Result<(Vec<String>, String, Change), Rejection>;

/// A fault as diffs, and the file with the fault.
#[derive(Clone)]
struct Change {
    fault: String,
    gold: String,
    file: TestFile,
}

impl Trial<'_> {
    fn job(&self, change: Option<TestFile>, timeout: Duration, hash_seed: u32) -> TestJob {
        TestJob {
            files: Arc::clone(&self.distribution.files),
            change,
            command: self.command.to_owned(),
            parser: self.options.parser.clone(),
            timeout,
            hash_seed,
        }
    }

    fn run(&self, jobs: Vec<TestJob>) -> Result<Vec<TestRun>, Problem> {
        let count = jobs.len();
        let refused = |reason: String| {
            Problem::new(format!("tests cannot run: {reason}"), "run `clawrl doctor` to see what is missing")
        };
        let runs = self.runner.run(jobs).map_err(refused)?;
        if runs.len() == count { Ok(runs) } else { Err(refused("a run has no result".to_owned())) }
    }

    /// The tests that pass with every hash seed, and how long they take.
    fn without_fault(&self) -> Result<(BTreeSet<String>, Duration), Problem> {
        let mut passed: Option<BTreeSet<String>> = None;
        let mut took = Duration::ZERO;
        for hash_seed in [0, 1] {
            let started = Instant::now();
            let runs = self.run(vec![self.job(None, FIRST_TIMEOUT, hash_seed)])?;
            took = took.max(started.elapsed());
            let run = runs.into_iter().next().unwrap_or_default();
            let names = passing(&run, &self.options.parser);
            if run.exit_code != Some(0) || names.is_empty() {
                return Err(self.failed(&run));
            }
            passed = Some(match passed {
                Some(before) => before.intersection(&names).cloned().collect(),
                None => names,
            });
        }
        Ok((passed.unwrap_or_default(), took))
    }

    fn failed(&self, run: &TestRun) -> Problem {
        let log = run.log.trim();
        let from = log.char_indices().rev().nth(MAX_LOG_CHARS).map_or(0, |(at, _)| at);
        let end = match run.exit_code {
            Some(0) => "print no passing test".to_owned(),
            Some(code) => format!("do not pass (exit code {code})"),
            None => "do not end".to_owned(),
        };
        let message = format!("the tests of `{}` {end}: {}", self.distribution.name, &log[from..]);
        let help = "name their command with `--test`, or choose a package that needs nothing but Python";
        Problem::new(message, help)
    }

    /// Tries faults; detected ones are tried again with another hash seed (Y1).
    fn with_faults(
        &self,
        batch: Vec<Candidate>,
        base: &BTreeSet<String>,
        timeout: Duration,
    ) -> Result<Vec<(Candidate, Verdict)>, Problem> {
        let changes: Vec<(Candidate, Change)> =
            batch.into_iter().filter_map(|one| self.change(&one).map(|change| (one, change))).collect();
        let jobs =
            changes.iter().map(|(_, change)| self.job(Some(change.file.clone()), timeout, 0)).collect();
        let runs = self.run(jobs)?;
        let first: Vec<_> = runs.into_iter().map(|run| (failing(base, &run), run.log)).collect();
        let again: Vec<usize> = (0..first.len()).filter(|&at| first[at].0.is_ok()).collect();
        let jobs = again.iter().map(|&at| self.job(Some(changes[at].1.file.clone()), timeout, 1)).collect();
        let second: BTreeMap<usize, TestRun> = again.into_iter().zip(self.run(jobs)?).collect();
        let mut verdicts = Vec::new();
        for (at, ((one, change), (found, log))) in changes.into_iter().zip(first).enumerate() {
            let verdict = match (found, second.get(&at)) {
                (Ok(names), Some(run)) if failing(base, run).as_ref() == Ok(&names) => {
                    Ok((names, log, change))
                }
                (Ok(_), _) => Err(Rejection::Unsteady),
                (Err(why), _) => Err(why),
            };
            verdicts.push((one, verdict));
        }
        Ok(verdicts)
    }

    fn change(&self, one: &Candidate) -> Option<Change> {
        let file = self.distribution.files.iter().find(|file| file.path == one.path)?;
        let old = std::str::from_utf8(&file.content).ok()?;
        let new = edited(old, one.start, one.end, &one.new)?;
        let (fault, gold) = (diff(&one.path, old, &new)?, diff(&one.path, &new, old)?);
        let file = TestFile { path: file.path.clone(), mode: file.mode, content: new.into_bytes().into() };
        Some(Change { fault, gold, file })
    }
}

/// The test command of a suite. Versions of Python differ in how unittest names a test: all names become `test_x
/// (tests.test_a.A)`.
fn command(test: &str, parser: &str) -> String {
    if parser != "unittest" {
        return test.to_owned();
    }
    let names = r"s/(^|: )(\w+) \(([A-Za-z0-9_.]+)\.\2\)/\1\2 (\3)/";
    format!("set -o pipefail; {{ {test}; }} 2>&1 | sed -E '{names}'")
}

fn function(one: &Candidate) -> String {
    format!("{}:{}", one.path, one.name)
}

/// The package, the function, and the number of its fault.
fn id(package: &str, one: &Candidate, count: usize, kept: &[AcceptedFault]) -> String {
    let stem = slug(&format!("{package}-{}", one.name));
    let stem = stem.get(..54).unwrap_or(&stem).trim_end_matches('-');
    let mut number = count;
    loop {
        let id = format!("{stem}-{number}");
        if !kept.iter().any(|other| other.id == id) {
            return id;
        }
        number += 1;
    }
}
