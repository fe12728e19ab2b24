//! From suites, arguments and probes to the plan that runs.
//!
//! I1. The plan is a function of its inputs. I2. A task's values, id and seeds depend on (plan seed, suite,
//! task id, index, repeat, member) only: not on filters, limits, the other tasks or the other suites.
//! I3. Slots are in order of suite, task, repeat, member; the members of a group are adjacent.

use std::collections::BTreeMap;
use std::sync::Arc;

use clawrl_core::{
    ActionFormat, Determinism, EnvSpec, FORMAT_VERSION, GroupId, ImageSource, PolicySpec, RemoteSpec,
    ResolvedLimits, RunId, RunPlan, SlotId, SlotSpec, Split, SuiteRef, TaskIndex, TaskSpec, ToolUse,
    derive_seed, stable_hash,
};
use minijinja::Value;

use crate::bounds::MAX_SLOTS;
use crate::capacity::{BrowserPlace, HostCapacity, Load, Resource, ResourceBound, tightest};
use crate::check::{Checker, Instances, Named, Row, TaskBuilder};
use crate::placement::place;
use crate::problem::{ConfigError, Problem};
use crate::sandbox::sandbox_of;
use crate::select::{Selection, spread_evenly};
use crate::suggest::{did_you_mean, listed};
use crate::suite::{Suite, duplicate_names};
use crate::text::engine;

/// Options of a run, with the probed properties of the host.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOptions {
    /// Name of the run.
    pub run: RunId,
    /// Root of all seeds.
    pub seed: u64,
    /// The acting policy.
    pub policy: PolicySpec,
    /// The model that judges answers by rubrics.
    pub judge: Option<Box<RemoteSpec>>,
    /// Members of a group: slots with the same task and environment seed. At least 1.
    pub group_size: u32,
    /// Environment seeds for each task. At least 1.
    pub repeats: u32,
    /// Part of the tasks.
    pub split: Split,
    /// Patterns of task ids, `*` standing for any text; a task takes part if one of them matches its whole id,
    /// with or without the suite before it and the index after it. Empty for all tasks.
    pub filter: Vec<String>,
    /// At most this many tasks of each suite, spread evenly over its families. `None` for all.
    pub limit: Option<u32>,
    /// Concurrent attempts. `None` for a number that suits the host.
    pub concurrency: Option<u32>,
    /// Selected tasks by suite name, in place of `split`, `filter` and `limit`.
    pub choices: BTreeMap<String, TaskChoice>,
    /// Environments prepared before the first dispatch, at most the concurrency.
    pub prewarm: u32,
    /// Further attempts after a fault whose retry is sound.
    pub max_retries: u32,
    /// Faulted slots after which the run stops. `None` for never.
    pub max_faults: Option<u32>,
    /// Action format that overrides those of policy and tasks; `raw` and `fenced` apply to tasks that take plain text only.
    /// `None` for no override.
    pub action_format: Option<ActionFormat>,
    /// The root file system of tasks that name none.
    pub image: Option<ImageSource>,
    /// Free resources of the host.
    pub host: HostCapacity,
    /// Weights of suites by name. Default: 1.
    pub weights: BTreeMap<String, u32>,
}

impl PlanOptions {
    /// A plan for all tasks, once each, without retries or warm environments.
    #[must_use]
    pub fn new(run: RunId, policy: PolicySpec, host: HostCapacity) -> Self {
        Self {
            run,
            seed: 0,
            policy,
            judge: None,
            group_size: 1,
            repeats: 1,
            split: Split::All,
            filter: Vec::new(),
            limit: None,
            choices: BTreeMap::new(),
            concurrency: None,
            prewarm: 0,
            max_retries: 0,
            max_faults: None,
            action_format: None,
            image: None,
            host,
            weights: BTreeMap::new(),
        }
    }
}

/// Selected tasks of a suite; by default all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskChoice {
    /// Part of the tasks.
    pub split: Split,
    /// Patterns, like [`PlanOptions::filter`].
    pub filter: Vec<String>,
    /// At most this many, spread evenly over the families. `None` for all.
    pub limit: Option<u32>,
}

/// The judge of these tasks; `None` if no task needs a judge.
///
/// # Errors
/// A task needs a judge, and the options name none.
pub(crate) fn judge_of(
    tasks: &[Arc<TaskSpec>],
    suites: &[Suite],
    named: Option<&RemoteSpec>,
    help: &str,
) -> Result<Option<Box<RemoteSpec>>, Problem> {
    let Some(task) = tasks.iter().find(|task| task.rubrics().next().is_some()) else { return Ok(None) };
    if let Some(judge) = named {
        return Ok(Some(Box::new(judge.clone().judging())));
    }
    let problem =
        Problem::new(format!("task {} has an `answer_rubric`, and there is no judge", task.id), help);
    let suite = suites.iter().find(|suite| suite.name() == task.suite);
    let row =
        suite.and_then(|suite| Some((suite, suite.rows.iter().find(|row| row.id.value == task.family)?)));
    Err(match row {
        Some((suite, row)) => problem.at(&suite.source, row.id.span, "asks a judge"),
        None => problem,
    })
}

/// Chooses the values of templates, lays out slots and settles concurrency.
///
/// # Errors
/// Arguments that do not fit each other, the suites or the host; and values that turn out wrong in an instance
/// that was not tried when the suite was loaded.
pub fn resolve_plan(suites: &[Suite], options: &PlanOptions) -> Result<RunPlan, ConfigError> {
    let mut problems = duplicate_names(suites);
    problems.extend(argument_problems(suites, options));
    raise(problems)?;

    let policy = acting(options);
    let everywhere =
        TaskChoice { split: options.split, filter: options.filter.clone(), limit: options.limit };
    let mut selection = Selection::new(&everywhere.filter);
    let mut tasks = Vec::new();
    let mut slots = Slots::new(options);
    let mut problems = Vec::new();
    for (position, suite) in suites.iter().enumerate() {
        let own = options.choices.get(suite.name());
        let mut of_own = own.map(|choice| Selection::new(&choice.filter));
        let choice = own.unwrap_or(&everywhere);
        let found = suite_tasks(suite, options, &policy, choice, of_own.as_mut().unwrap_or(&mut selection));
        problems.extend(of_own.iter().flat_map(|own| unused_patterns(suites, own)));
        match found {
            Ok(found) => {
                for task in found {
                    slots.add(&task, position)?;
                    tasks.push(Arc::new(task));
                }
            }
            Err(error) => problems.extend_from_slice(error.problems()),
        }
    }
    // A task that turned out wrong was selected all the same.
    let is_empty = tasks.is_empty() && problems.is_empty();
    problems.extend(selection_problems(suites, options, &selection, is_empty));
    raise(problems)?;
    let judge = judge_of(
        &tasks,
        suites,
        options.judge.as_deref(),
        "name a model with --judge, as in `--judge openai:MODEL`",
    )?;

    let slots = slots.list;
    let concurrency =
        concurrency(&tasks, slots.len(), Wish::argument(options.concurrency), &options.host)?.attempts;
    Ok(RunPlan {
        format: FORMAT_VERSION,
        run: options.run.clone(),
        seed: options.seed,
        suites: suites.iter().map(|suite| suite_ref(suite, options)).collect(),
        policy,
        judge,
        tasks,
        slots,
        limits: ResolvedLimits {
            concurrency,
            prewarm: options.prewarm.min(concurrency),
            max_retries: options.max_retries,
            max_faults: options.max_faults,
        },
        determinism: Determinism::default(),
    })
}

fn raise(problems: Vec<Problem>) -> Result<(), ConfigError> {
    match ConfigError::from_problems(problems) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn suite_ref(suite: &Suite, options: &PlanOptions) -> SuiteRef {
    SuiteRef {
        name: suite.name().to_owned(),
        path: suite.path().to_owned(),
        sha256: suite.sha256().to_owned(),
        weight: options.weights.get(suite.name()).copied().unwrap_or(1),
    }
}

/// Problems of the options alone, independent of the tasks.
fn argument_problems(suites: &[Suite], options: &PlanOptions) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut at_least_one = |value: Option<u32>, argument: &str| {
        if value == Some(0) {
            let help = format!("write `{argument} 1` or more, or leave it out");
            problems.push(Problem::new(format!("`{argument}` cannot be 0"), help));
        }
    };
    at_least_one(Some(options.group_size), "--group-size");
    at_least_one(Some(options.repeats), "--repeats");
    at_least_one(options.limit, "--limit");
    at_least_one(options.concurrency, "--concurrency");
    at_least_one(options.max_faults, "--max-faults");
    if suites.is_empty() {
        problems.push(Problem::new("no suite is given", "name at least one suite file or folder"));
    }
    for (name, weight) in &options.weights {
        let known = || suites.iter().map(Suite::name);
        if !known().any(|suite| suite == name) {
            let help = format!("{}suites of this run are {}", did_you_mean(name, known()), listed(known()));
            problems.push(Problem::new(format!("a weight is given for `{name}`, which does not run"), help));
        }
        if *weight == 0 {
            let message = format!("the weight of `{name}` cannot be 0");
            problems.push(Problem::new(message, "write 1 or more, or leave the suite out of the run"));
        }
    }
    match &options.policy {
        PolicySpec::Demonstrator { oracle_percent } if *oracle_percent > 100 => {
            let message =
                format!("the demonstrator cannot play the oracle in {oracle_percent} % of the attempts");
            problems.push(Problem::new(message, "write a number from 0 to 100"));
        }
        PolicySpec::Random { actions } if actions.is_empty() => {
            let message = "the random policy has no actions to choose from";
            problems.push(Problem::new(message, "write one action a line into its file"));
        }
        _ => {}
    }
    problems
}

/// The policy in its plan form: a remote policy carries the action format.
fn acting(options: &PlanOptions) -> PolicySpec {
    match &options.policy {
        PolicySpec::Remote(remote) => {
            let mut remote = remote.as_ref().clone();
            remote.action_format = options.action_format.or(remote.action_format);
            PolicySpec::Remote(Box::new(remote.acting()))
        }
        other => other.clone(),
    }
}

/// Action format for the tasks of a row whose own format is `own`.
fn action_format(options: &PlanOptions, policy: &PolicySpec, row: &Row, own: ActionFormat) -> ActionFormat {
    let remote = match (policy, policy.speaker()) {
        // An agent program acts by calls, independent of its model's output.
        (PolicySpec::Agent(_), _) => return own,
        (_, PolicySpec::Remote(remote)) => Some(remote),
        _ => None,
    };
    let takes_text = matches!(row.env, Named::Terminal(_) | Named::Swe(_) | Named::Gui(_));
    let wanted = options.action_format.or_else(|| remote?.action_format);
    match (wanted, own) {
        (Some(format @ (ActionFormat::ToolCalls | ActionFormat::Hermes)), _) => format,
        (Some(format), _) if takes_text => format,
        // A chat model explains what it does; what it explains must not be typed into a shell.
        (None, ActionFormat::Raw)
            if takes_text && remote.is_some_and(|remote| remote.tools == ToolUse::Text) =>
        {
            ActionFormat::Fenced
        }
        _ => own,
    }
}

/// The selected tasks of a suite, in order.
fn suite_tasks(
    suite: &Suite,
    options: &PlanOptions,
    policy: &PolicySpec,
    choice: &TaskChoice,
    selection: &mut Selection,
) -> Result<Vec<TaskSpec>, ConfigError> {
    let engine = engine();
    let mut checker = Checker::new(&suite.source, Arc::clone(&suite.fixtures));
    let mut builder = TaskBuilder::new(&mut checker, &engine, &suite.source);
    let mut rows: Vec<Vec<(&Row, Option<usize>, Value)>> = Vec::new();
    for row in &suite.rows {
        let seed = derive_seed(
            options.seed,
            "instances",
            &[stable_hash(row.task_id(suite.name(), None).0.as_bytes())],
        );
        let mut chosen = Vec::new();
        for (index, assignment) in row.assignments(seed).iter().enumerate() {
            let index = (row.instances != Instances::Plain).then_some(index);
            if !selection.takes(suite.name(), &row.id, index) {
                continue;
            }
            let Some(values) = builder.values(row, assignment) else { continue };
            let is_in_split = choice.split == Split::All
                || builder.asked(row, &values).is_some_and(|asked| choice.split.contains(&row.id, &asked));
            if is_in_split {
                chosen.push((row, index, values));
            }
        }
        rows.push(chosen);
    }
    if let Some(limit) = choice.limit {
        spread_evenly(&mut rows, limit as usize);
    }
    let mut tasks = Vec::new();
    let mut checked: Vec<&Row> = Vec::new();
    for (row, index, values) in rows.iter().flatten() {
        if !checked.iter().any(|&known| std::ptr::eq(known, *row)) {
            checked.push(*row);
        }
        let mut task = builder.task(suite.name(), row, *index, values);
        options.image.iter().for_each(|image| place(&mut task.env, image));
        task.action_format = action_format(options, policy, row, task.action_format);
        tasks.push(task);
    }
    for row in checked {
        if let Some(problem) = policy_problem(suite, row, &options.policy, "leave the task out by `--filter`")
        {
            checker.findings.push(problem);
        }
    }
    checker.findings.finish()?;
    Ok(tasks)
}

/// Reports a requirement of a scripted policy that the row does not meet. `otherwise` is the alternative to adding it.
pub(crate) fn policy_problem(
    suite: &Suite,
    row: &Row,
    policy: &PolicySpec,
    otherwise: &str,
) -> Option<Problem> {
    let needs_oracle = match policy {
        PolicySpec::Oracle => true,
        PolicySpec::Demonstrator { oracle_percent } => *oracle_percent > 0,
        _ => false,
    };
    let needs_mistakes =
        matches!(policy, PolicySpec::Demonstrator { oracle_percent } if *oracle_percent < 100);
    let has_shell = matches!(row.env, Named::Terminal(_) | Named::Swe(_) | Named::Gui(_));
    let (message, help) = if needs_oracle && row.oracle.is_none() {
        let help =
            if has_shell { "add `oracle: { commands: [...] }`" } else { "add `oracle: { actions: [...] }`" };
        (format!("the task `{}` has no oracle to play", row.id.value), help)
    } else if needs_mistakes && row.mistakes.is_empty() {
        let help = if has_shell {
            "add `mistakes:` with a list of commands"
        } else {
            "add `mistakes:` with a list of `{ actions: [...] }`"
        };
        (format!("the task `{}` has no mistakes for the demonstrator", row.id.value), help)
    } else {
        return None;
    };
    let help = format!("{help}, or {otherwise}");
    Some(Problem::new(message, help).at(&suite.source, row.id.span, "in this task"))
}

/// Patterns of task ids without a match.
fn unused_patterns(suites: &[Suite], selection: &Selection) -> Vec<Problem> {
    let families: Vec<String> = suites
        .iter()
        .flat_map(|suite| suite.rows.iter().map(|row| row.task_id(suite.name(), None).0))
        .collect();
    let problem = |pattern: &str| {
        let ids =
            || families.iter().flat_map(|id| [id.as_str(), id.split_once('/').map_or("", |(_, id)| id)]);
        let near = did_you_mean(pattern, ids().filter(|id| !id.is_empty()));
        let some = listed(families.iter().take(6).map(String::as_str));
        let more = if families.len() > 6 { ", ..." } else { "" };
        let help = format!("{near}`*` stands for any text; tasks are {some}{more}");
        Problem::new(format!("no task matches the filter `{pattern}`"), help)
    };
    selection.unused().map(problem).collect()
}

fn selection_problems(
    suites: &[Suite],
    options: &PlanOptions,
    selection: &Selection,
    is_empty: bool,
) -> Vec<Problem> {
    let mut problems = unused_patterns(suites, selection);
    if is_empty && problems.is_empty() && !suites.is_empty() {
        let part = match options.split {
            Split::All => "these suites have no task to run",
            Split::Train => "none of the selected tasks is in the training part",
            Split::HeldOut => "none of the selected tasks is in the held-out part",
        };
        problems.push(Problem::new(part, "leave out `--split`, or select more tasks"));
    }
    problems
}

/// Lays out slots, task by task.
struct Slots<'a> {
    options: &'a PlanOptions,
    list: Vec<SlotSpec>,
    tasks: u32,
    groups: u32,
}

impl<'a> Slots<'a> {
    fn new(options: &'a PlanOptions) -> Self {
        Self { options, list: Vec::new(), tasks: 0, groups: 0 }
    }

    fn add(&mut self, task: &TaskSpec, suite: usize) -> Result<(), Problem> {
        let PlanOptions { seed, repeats, group_size, .. } = *self.options;
        let wanted = self.list.len() as u64 + u64::from(repeats) * u64::from(group_size);
        if wanted > MAX_SLOTS {
            let message = format!("the plan has more than {MAX_SLOTS} slots (tasks x repeats x group size)");
            return Err(Problem::new(
                message,
                "lower `--repeats` or `--group-size`, or run the suites one by one",
            ));
        }
        let name = stable_hash(task.id.0.as_bytes());
        for repeat in 0..u64::from(repeats) {
            let env_seed = derive_seed(seed, "env", &[name, repeat]);
            for member in 0..group_size {
                self.list.push(SlotSpec {
                    // Both fit: the number of slots is bounded above.
                    id: SlotId(self.list.len() as u32),
                    task: TaskIndex(self.tasks),
                    suite: suite as u32,
                    group: GroupId(self.groups),
                    member,
                    env_seed,
                    policy_seed: derive_seed(seed, "policy", &[name, repeat, u64::from(member)]),
                });
            }
            self.groups += 1;
        }
        self.tasks += 1;
        Ok(())
    }
}

/// Explicitly requested concurrency.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    pub(crate) attempts: Option<u32>,
    /// Text before the number.
    pub(crate) written: &'static str,
}

impl Wish {
    pub(crate) fn argument(attempts: Option<u32>) -> Self {
        Self { attempts, written: "--concurrency " }
    }
}

/// Number of concurrent attempts, and the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Concurrency {
    pub(crate) attempts: u32,
    /// The limiting resource; `None` if the concurrency was requested, or is limited by the number of slots.
    pub(crate) bound: Option<Resource>,
}

/// The wish if it is possible; otherwise as many as the host comfortably has room for, and never more than
/// there are slots.
pub(crate) fn concurrency(
    tasks: &[Arc<TaskSpec>],
    slots: usize,
    wish: Wish,
    host: &HostCapacity,
) -> Result<Concurrency, Problem> {
    let slots = u32::try_from(slots).unwrap_or(u32::MAX).max(1);
    let host = &needed_of(host, tasks);
    let load = load_of(tasks, host.browsers);
    let largest = load.largest_memory_mib;
    if u64::from(largest) > host.memory_available_mib {
        let message = format!(
            "a task may use {largest} MiB of memory, and the host has {} MiB available",
            host.memory_available_mib
        );
        return Err(Problem::new(message, "lower `memory_mib` of the task, or free some memory"));
    }
    let possible = tightest(host.possible(load));
    if let Some(attempts) = wish.attempts {
        let needed = attempts.min(slots);
        if u64::from(needed) > possible.attempts {
            return Err(impossible(needed, possible, wish, host));
        }
        return Ok(Concurrency { attempts: needed, bound: None });
    }
    if possible.attempts == 0 {
        return Err(impossible(1, possible, wish, host));
    }
    let comfortable = tightest(host.comfortable(load));
    let fits = u32::try_from(comfortable.attempts).unwrap_or(u32::MAX).max(1);
    Ok(if fits >= slots {
        Concurrency { attempts: slots, bound: None }
    } else {
        Concurrency { attempts: fits, bound: Some(comfortable.resource) }
    })
}

/// Resource use of attempts at these tasks, with browsers at this place.
pub(crate) fn load_of(tasks: &[Arc<TaskSpec>], browsers: BrowserPlace) -> Load {
    // The memory limit of a task; 0 without a sandbox.
    let memory_mib =
        |task: &Arc<TaskSpec>| sandbox_of(&task.env, browsers).map_or(0, |sandbox| sandbox.limits.memory_mib);
    let has_browser = tasks.iter().any(|task| matches!(task.env, EnvSpec::Gui(_)));
    Load {
        largest_memory_mib: tasks.iter().map(memory_mib).max().unwrap_or(0),
        browsers: has_browser.then_some(browsers),
    }
}

/// The host, with unlimited pseudo-terminals (one per sandbox) and processes if none of these tasks has a sandbox.
pub(crate) fn needed_of(host: &HostCapacity, tasks: &[Arc<TaskSpec>]) -> HostCapacity {
    if tasks.iter().any(|task| sandbox_of(&task.env, host.browsers).is_some()) {
        return *host;
    }
    HostCapacity { ptys_free: u64::MAX, pids_free: u64::MAX, ..*host }
}

fn impossible(needed: u32, bound: ResourceBound, wish: Wish, host: &HostCapacity) -> Problem {
    let has = match bound.resource {
        Resource::Cpus => format!("{} cores", host.cpus),
        Resource::Memory => format!("{} MiB of memory available", host.memory_available_mib),
        Resource::PseudoTerminals => format!("{} free pseudo-terminals", host.ptys_free),
        Resource::Processes => format!("room for {} processes", host.pids_free),
        Resource::OpenFiles => format!("a limit of {} open files", host.open_files),
    };
    let message = if bound.attempts == 0 {
        format!("no attempt can run: this host has {has}")
    } else {
        format!("{needed} attempts at once are too many: this host has {has}, enough for {}", bound.attempts)
    };
    let remedy = bound.resource.remedy();
    let help = if bound.attempts == 0 {
        remedy.to_owned()
    } else {
        format!("write `{}{}` or less, or {remedy}", wish.written, bound.attempts)
    };
    Problem::new(message, help)
}
