//! The tasks of a training: those of all suites, with the train file's number of instances, in two parts.
//!
//! I1. The parts are disjoint by family and instruction for every seed; [`Split`] defines them.
//! I2. Two tasks of a family differ in the policy's view or in their checks; a template with fewer different tasks than
//! requested gives all it has. I3. The same files and seed give the same tasks.
//!
//! Errors: [`ConfigError`], with places in the suite files.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use clawrl_core::{EnvSpec, PolicySpec, Split, TaskSpec, derive_seed, stable_hash};

use super::distillation::HintSource;
use super::plan::{TrainPlan, TrainSuite};
use crate::check::{Checker, Instances, Row, TaskBuilder};
use crate::draw;
use crate::problem::{ConfigError, Problem};
use crate::resolve::policy_problem;
use crate::suggest::{did_you_mean, listed};
use crate::suite::{Suite, load_suites};
use crate::text::engine;

/// Maximum number of tried combinations per requested task.
const MAX_DRAWN_PER_TASK: usize = 8;

/// The tasks of a training, with its plan.
#[derive(Debug)]
pub struct TrainTasks {
    pub(super) train: TrainPlan,
    pub(super) suites: Vec<Suite>,
    pub(super) families: Vec<FamilyTasks>,
    interchangeable: Vec<Vec<String>>,
}

/// The tasks of one entry of a suite's `tasks:`.
#[derive(Debug)]
pub(super) struct FamilyTasks {
    /// Position of the suite.
    pub(super) suite: usize,
    pub(super) id: String,
    /// Requested number of tasks.
    pub(super) wanted: usize,
    pub(super) train: Vec<Arc<TaskSpec>>,
    pub(super) held_out: Vec<Arc<TaskSpec>>,
}

impl TrainTasks {
    /// Loads the suites of a training and builds their tasks.
    ///
    /// # Errors
    /// All problems of the suites; a family that the demonstrator of the warm start cannot demonstrate.
    pub fn load(train: &TrainPlan) -> Result<Self, ConfigError> {
        let paths: Vec<PathBuf> = train.suites.iter().map(|suite| suite.path.clone()).collect();
        let suites = load_suites(&paths)?;
        let mut families = Vec::new();
        let mut problems = Vec::new();
        for (position, (suite, wish)) in suites.iter().zip(&train.suites).enumerate() {
            match suite_families(position, suite, wish, train) {
                Ok(found) => families.extend(found),
                Err(error) => problems.extend_from_slice(error.problems()),
            }
        }
        if problems.is_empty() {
            problems.extend(process_rewards_exist(train, &families));
            problems.extend(judges_are_asked(train, &families));
            problems.extend(demonstrations_exist(train, &families));
            problems.extend(families_to_choose_from(train, &families));
        }
        let lists = train.warm_start.iter().flat_map(|warm_start| &warm_start.interchangeable);
        let interchangeable = interchangeable(&suites, lists, &mut problems);
        match ConfigError::from_problems(problems) {
            Some(error) => Err(error),
            None => Ok(Self { train: train.clone(), suites, families, interchangeable }),
        }
    }

    /// Words that may trade places in a demonstration, one list for each that the train file names; each word consists
    /// of [`is_word_char`], and is in one list once.
    #[must_use]
    pub fn interchangeable(&self) -> &[Vec<String>] {
        &self.interchangeable
    }

    /// Warnings about the suites.
    pub fn warnings(&self) -> impl Iterator<Item = &Problem> {
        self.suites.iter().flat_map(Suite::warnings)
    }

    /// The suites, in the order of the train file.
    #[must_use]
    pub fn suites(&self) -> &[Suite] {
        &self.suites
    }

    /// Tasks of the part that is trained on.
    pub fn train(&self) -> impl Iterator<Item = &Arc<TaskSpec>> {
        self.families.iter().flat_map(|family| &family.train)
    }

    /// Tasks of the held-out part.
    pub fn held_out(&self) -> impl Iterator<Item = &Arc<TaskSpec>> {
        self.families.iter().flat_map(|family| &family.held_out)
    }

    /// Maximum number of sampled tokens of an episode of the training part; `None` without reinforcement learning.
    #[must_use]
    pub fn max_episode_tokens(&self) -> Option<u64> {
        let reply = u64::from(self.train.rl.as_ref()?.sampling.max_new_tokens);
        self.train().map(|task| u64::from(task.max_turns) * reply).max()
    }
}

/// Warns about a weight of process rewards if no task has step rewards.
fn process_rewards_exist(train: &TrainPlan, families: &[FamilyTasks]) -> Option<Problem> {
    let rl = train.rl.as_ref()?;
    let weight = rl.process_weight;
    let gives_none = |task: &Arc<TaskSpec>| match &task.env {
        EnvSpec::Toolcall(toolcall) => toolcall.step_rewards.is_empty(),
        // This is known only at run time.
        EnvSpec::Custom(_) => false,
        _ => true,
    };
    if weight == 0.0 || rl.judges_turns() || !families.iter().flat_map(|family| &family.train).all(gives_none)
    {
        return None;
    }
    let message = format!("`process_weight` is {weight}, and no task of these suites gives process rewards");
    let help =
        "give tool-call tasks `step_rewards`, have turns judged by `judging:`, or leave `process_weight` out";
    Some(Problem::new(message, help))
}

/// Warns about a judge of turns if every task has step rewards: tasks keep their own.
fn judges_are_asked(train: &TrainPlan, families: &[FamilyTasks]) -> Option<Problem> {
    let rl = train.rl.as_ref()?;
    let gives_some = |task: &Arc<TaskSpec>| match &task.env {
        EnvSpec::Toolcall(toolcall) => !toolcall.step_rewards.is_empty(),
        _ => false,
    };
    let mut tasks = families.iter().flat_map(|family| &family.train).peekable();
    if !rl.judges_turns() || rl.judges_hint() || tasks.peek().is_none() || !tasks.all(gives_some) {
        return None;
    }
    let message = "turns are to be judged, and every task of these suites gives process rewards itself, which count alone";
    Some(Problem::new(message, "leave out `judging`, or the `step_rewards` of the suites"))
}

/// Warns about demonstrations as the only hints if no task has a demonstration.
fn demonstrations_exist(train: &TrainPlan, families: &[FamilyTasks]) -> Option<Problem> {
    let distillation = train.rl.as_ref()?.distillation.as_ref()?;
    let has_one =
        |task: &Arc<TaskSpec>| task.oracle.as_ref().is_some_and(|oracle| !oracle.calls().is_empty());
    if distillation.hints != [HintSource::Demonstration]
        || families.iter().flat_map(|family| &family.train).any(has_one)
    {
        return None;
    }
    let message =
        "hints are to come from demonstrations, and no task of these suites has an oracle of listed actions";
    Some(Problem::new(message, "give tasks an `oracle`, or write `hints: [sibling]`"))
}

/// Warns about a curriculum if no suite has two families to choose from.
fn families_to_choose_from(train: &TrainPlan, families: &[FamilyTasks]) -> Option<Problem> {
    train.rl.as_ref()?.curriculum?;
    let mut seen = HashSet::new();
    let mut trained = families.iter().filter(|family| !family.train.is_empty());
    if trained.any(|family| !seen.insert(family.suite)) {
        return None;
    }
    let message =
        "a `curriculum` chooses among the families of a suite, and no suite here has two to train on";
    let help = "leave `curriculum` out; `weight` of the suites says what each has of the groups";
    Some(Problem::new(message, help))
}

/// Characters of words that may be swapped; all other characters separate words.
#[must_use]
pub fn is_word_char(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

/// The lists of these names. No word is in two of them, or trading places would make one word of two.
fn interchangeable<'a>(
    suites: &[Suite],
    lists: impl Iterator<Item = &'a String>,
    problems: &mut Vec<Problem>,
) -> Vec<Vec<String>> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for list in lists {
        let words = match words(suites, list) {
            Ok(words) => words,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let taken = found.iter().find_map(|(other, taken)| {
            taken.iter().find(|word| words.contains(word)).map(|word| (*other, word.clone()))
        });
        match taken {
            None => found.push((list, words)),
            Some((other, _)) if other == list => {
                let message = format!("`interchangeable` names the list `{list}` twice");
                problems.push(Problem::new(message, "name it once"));
            }
            Some((other, word)) => {
                let message = format!("the lists `{other}` and `{list}` of `interchangeable` share `{word}`");
                problems.push(Problem::new(message, "name lists that have no word in common"));
            }
        }
    }
    found.into_iter().map(|(_, words)| words).collect()
}

/// The words of a list, of all suites that have it.
fn words(suites: &[Suite], list: &str) -> Result<Vec<String>, Problem> {
    let having: Vec<&Suite> = suites.iter().filter(|suite| suite.lists.contains_key(list)).collect();
    if having.is_empty() {
        let known: BTreeSet<&str> =
            suites.iter().flat_map(|suite| suite.lists.keys()).map(String::as_str).collect();
        let message = format!("no suite of this training has the list `{list}` that `interchangeable` names");
        let help = if known.is_empty() {
            "the suites have no lists under `vars`; leave `interchangeable` out".to_owned()
        } else {
            let hint = did_you_mean(list, known.iter().copied());
            format!("{hint}lists under `vars` are {}", listed(known))
        };
        return Err(Problem::new(message, help));
    }
    let mut words = BTreeSet::new();
    for entry in having.iter().flat_map(|suite| &suite.lists[list]) {
        let is_word = |word: &&str| word.chars().all(is_word_char) && word.chars().any(char::is_alphabetic);
        let Some(word) = entry.as_str().filter(is_word) else {
            let message = format!("`{entry}` of the list `{list}` cannot trade places with other words");
            let help = "name lists in `interchangeable` whose entries are words: letters, digits and underscores, \
                        at least one letter";
            return Err(Problem::new(message, help));
        };
        words.insert(word.to_owned());
    }
    Ok(words.into_iter().collect())
}

fn suite_families(
    position: usize,
    suite: &Suite,
    wish: &TrainSuite,
    train: &TrainPlan,
) -> Result<Vec<FamilyTasks>, ConfigError> {
    let engine = engine();
    let mut checker = Checker::new(&suite.source, Arc::clone(&suite.fixtures));
    let mut builder = TaskBuilder::new(&mut checker, &engine, &suite.source);
    let mut families = Vec::new();
    for row in &suite.rows {
        let id = row.task_id(suite.name(), None).0;
        let seed = derive_seed(train.seed, "instances", &[stable_hash(id.as_bytes())]);
        let (wanted, tasks) = different_tasks(suite, row, wish.instances, seed, &mut builder);
        let is_held_out = |task: &TaskSpec| Split::HeldOut.contains(&task.family, &task.asked());
        let (held_out, for_training) = tasks.into_iter().map(Arc::new).partition(|task| is_held_out(task));
        families.push(FamilyTasks {
            suite: position,
            id: row.id.value.clone(),
            wanted,
            train: for_training,
            held_out,
        });
    }
    if let Some(warm_start) = &train.warm_start {
        let policy = PolicySpec::Demonstrator { oracle_percent: warm_start.oracle_percent };
        for row in &suite.rows {
            if let Some(problem) = policy_problem(suite, row, &policy, "train without `warm_start`") {
                checker.findings.push(problem);
            }
        }
    }
    checker.findings.finish()?;
    Ok(families)
}

/// The requested number of tasks of a row, and up to this number of different tasks.
fn different_tasks<'s>(
    suite: &Suite,
    row: &'s Row,
    instances: Option<u32>,
    seed: u64,
    builder: &mut TaskBuilder<'_, '_, 's>,
) -> (usize, Vec<TaskSpec>) {
    let is_template = row.instances != Instances::Plain;
    let given = instances.filter(|_| is_template).map(|wanted| wanted as usize);
    let wanted = given.unwrap_or_else(|| row.instances.count());
    let mut drawn = match given {
        Some(wanted) => draw::distinct(&row.variables, wanted, seed),
        None => row.assignments(seed),
    };
    let mut tasks = Vec::new();
    let mut seen = HashSet::new();
    let mut tried = 0;
    loop {
        for (index, assignment) in drawn.iter().enumerate().skip(tried) {
            if tasks.len() == wanted {
                break;
            }
            let Some(values) = builder.values(row, assignment) else { continue };
            let task = builder.task(suite.name(), row, is_template.then_some(index), &values);
            tasks.extend(Some(task).filter(|task| seen.insert(content(task))));
        }
        tried = drawn.len();
        // Some combinations give the same task: variables that only wrong answers use do not change it.
        let more = tried.saturating_mul(2).min(wanted.saturating_mul(MAX_DRAWN_PER_TASK));
        if given.is_none() || tasks.len() == wanted || more <= tried {
            return (wanted, tasks);
        }
        drawn = draw::distinct(&row.variables, more, seed);
        if drawn.len() <= tried {
            return (wanted, tasks);
        }
    }
}

/// Content that distinguishes a task within its family.
fn content(task: &TaskSpec) -> String {
    // Keys are strings and numbers are finite, so that this is never the empty default.
    serde_json::to_string(&(&task.instruction, &task.env, &task.checks, &task.verifier)).unwrap_or_default()
}
