//! Validation of tasks by playing the no-op, the oracle and wrong solutions: finds tasks that prove nothing, tasks that cannot be
//! solved, and wrong solutions that pass.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use clawrl_core::{
    Action, BoxFuture, CheckReport, Fault, Outcome, Policy, PolicyRequest, RunPlan, SlotId, SlotSpec,
    TaskIndex, TaskSpec, ToolCall, Turn, printable_line,
};
use clawrl_scripted::{Noop, Oracle};
use serde::Serialize;

use super::memory_sink::Closed;

/// Maximum characters of an action in a report.
const ACTION_CHARS: usize = 200;

/// Maximum lines of the observation after it, and characters of each.
const SEEN_LINES: usize = 8;
const SEEN_CHARS: usize = 160;

/// A script that is played against a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Nothing. Must not pass.
    Noop,
    /// Its oracle. Must pass.
    Oracle,
    /// One of its wrong solutions, by number. May pass.
    Mistake(usize),
}

/// The result of a validation.
#[derive(Debug, Default, Serialize)]
pub struct Verdicts {
    /// Number of tasks that were played.
    pub tasks: usize,
    /// Number of tasks whose cases all had the required result.
    pub valid: usize,
    /// Cases with a wrong result.
    pub invalid: Vec<Invalid>,
    /// Cases that ended in a fault.
    pub faulted: Vec<Faulted>,
    /// Number of cases that were not played to the end.
    pub unplayed: usize,
    /// Tasks without an oracle.
    pub without_oracle: Vec<String>,
    /// Wrong solutions by family, if they were played.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mistakes: BTreeMap<String, Mistakes>,
}

/// A task that must be changed.
#[derive(Debug, Serialize)]
pub struct Invalid {
    task: String,
    /// The reason.
    problem: &'static str,
    score: f64,
    checks: Vec<CheckReport>,
    /// The last turns of the case, in order.
    last_turns: Vec<LastTurn>,
}

/// The actions of a turn, and the tail of its observation.
#[derive(Debug, Serialize)]
struct LastTurn {
    actions: Vec<String>,
    saw: Vec<String>,
}

impl LastTurn {
    fn new(turn: &Turn) -> Self {
        let text = turn.observation.joined_text();
        let lines: Vec<&str> = text.lines().collect();
        let shown = &lines[lines.len().saturating_sub(SEEN_LINES)..];
        let line = |line: &&str| printable_line(line, SEEN_CHARS);
        let action = |call| printable_line(&call_text(call), ACTION_CHARS);
        Self { actions: turn.calls.iter().map(action).collect(), saw: shown.iter().map(line).collect() }
    }
}

/// A case that ended in a fault.
#[derive(Debug, Serialize)]
pub struct Faulted {
    task: String,
    case: String,
    fault: String,
}

/// Results of a family's wrong solutions.
#[derive(Debug, Default, Serialize)]
pub struct Mistakes {
    played: usize,
    passed: usize,
}

/// Compares results with the required results.
pub fn judge(plan: &RunPlan, cases: &[Case], closed: &BTreeMap<SlotId, Closed>) -> Verdicts {
    let mut verdicts = Verdicts::default();
    let mut all = BTreeSet::new();
    let mut with_oracle = BTreeSet::new();
    let mut not_valid = BTreeSet::new();
    for (slot, &case) in plan.slots.iter().zip(cases) {
        let task = plan.task_of(slot);
        let id = task.id.0.as_str();
        all.insert(id);
        if case == Case::Oracle {
            with_oracle.insert(id);
        }
        let closed = closed.get(&slot.id);
        let grade = match closed.map(|closed| &closed.outcome) {
            Some(Outcome::Finished { grade, .. }) => grade,
            Some(Outcome::Faulted(fault)) => {
                let fault = fault.to_string();
                verdicts.faulted.push(Faulted { task: id.to_owned(), case: case.to_string(), fault });
                not_valid.insert(id);
                continue;
            }
            Some(Outcome::Cancelled(_)) | None => {
                verdicts.unplayed += 1;
                not_valid.insert(id);
                continue;
            }
        };
        let problem = match (case, grade.passed) {
            (Case::Noop, true) => "passes although nothing was done: its checks prove nothing",
            (Case::Oracle, false) => "does not pass with its own oracle",
            (Case::Mistake(_), passed) => {
                let mistakes =
                    verdicts.mistakes.entry(format!("{}/{}", task.suite, task.family)).or_default();
                mistakes.played += 1;
                mistakes.passed += usize::from(passed);
                continue;
            }
            (Case::Noop, false) | (Case::Oracle, true) => continue,
        };
        not_valid.insert(id);
        let (score, checks) = (grade.score, grade.checks.clone());
        let last_turns = closed.map_or(&[][..], |closed| closed.last_turns.as_slice());
        let last_turns = last_turns.iter().map(LastTurn::new).collect();
        verdicts.invalid.push(Invalid { task: id.to_owned(), problem, score, checks, last_turns });
    }
    verdicts.without_oracle = all.difference(&with_oracle).map(|id| (*id).to_owned()).collect();
    verdicts.tasks = all.len();
    verdicts.valid = all.len() - not_valid.len();
    verdicts
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noop => f.write_str("no-op"),
            Self::Oracle => f.write_str("oracle"),
            Self::Mistake(number) => write!(f, "mistake {}", number + 1),
        }
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Invalid { task, problem, score, checks, last_turns } in &self.invalid {
            writeln!(f, "invalid  {task} {problem} (score {score:.3})")?;
            for check in checks {
                writeln!(f, "           {:.2} {}: {}", check.score, check.label, check.message)?;
            }
            for LastTurn { actions, saw } in last_turns {
                actions.iter().try_for_each(|action| writeln!(f, "           > {action}"))?;
                saw.iter().try_for_each(|line| writeln!(f, "             {line}"))?;
            }
        }
        for Faulted { task, case, fault } in &self.faulted {
            // Indented, so that no line can be mistaken for another task's.
            writeln!(f, "faulted  {task}, {case}: {}", fault.replace('\n', "\n           "))?;
        }
        for task in &self.without_oracle {
            writeln!(f, "note     {task} has no oracle: only the no-op was played")?;
        }
        if !self.mistakes.is_empty() {
            let width = self.mistakes.keys().map(String::len).max().unwrap_or(0);
            writeln!(f, "{:<width$}  mistakes  pass", "family")?;
            for (family, Mistakes { played, passed }) in &self.mistakes {
                writeln!(f, "{family:<width$}  {played:>8}  {passed:>4}")?;
            }
            let (played, passed) = self
                .mistakes
                .values()
                .fold((0, 0), |sum, mistakes| (sum.0 + mistakes.played, sum.1 + mistakes.passed));
            let percent = 100.0 * passed as f64 / (played.max(1)) as f64;
            writeln!(f, "{passed} of {played} mistakes pass ({percent:.1} %)")?;
        }
        write!(f, "{} of {} tasks are valid", self.valid, self.tasks)?;
        if self.unplayed > 0 {
            write!(f, "; {} cases were not played to the end", self.unplayed)?;
        }
        writeln!(f)
    }
}

/// A plan whose slots are cases, and the case of each slot.
pub struct Cases {
    /// The plan.
    pub plan: RunPlan,
    /// The case of each slot.
    pub cases: Vec<Case>,
}

/// Makes a slot for each case. The script of a case replaces the task's oracle, so that the oracle policy plays it.
pub fn cases_of(plan: &RunPlan, mistakes: bool) -> Cases {
    let mut tasks: Vec<Arc<TaskSpec>> = Vec::new();
    let mut slots: Vec<SlotSpec> = Vec::new();
    let mut cases = Vec::new();
    let mut add = |task: Arc<TaskSpec>, case: Case, slot: &SlotSpec| {
        let at = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        slots.push(SlotSpec { id: SlotId(at), task: TaskIndex(at), ..*slot });
        tasks.push(task);
        cases.push(case);
    };
    for slot in &plan.slots {
        let task = plan.task_of(slot);
        add(Arc::clone(task), Case::Noop, slot);
        if task.oracle.is_some() {
            add(Arc::clone(task), Case::Oracle, slot);
        }
        for (number, mistake) in task.mistakes.iter().enumerate().filter(|_| mistakes) {
            let played = TaskSpec { oracle: Some(mistake.clone()), ..TaskSpec::clone(task) };
            add(Arc::new(played), Case::Mistake(number), slot);
        }
    }
    Cases { plan: RunPlan { tasks, slots, ..plan.clone() }, cases }
}

fn noop_slots(cases: &[Case]) -> HashSet<SlotId> {
    let slots = (0..).map(SlotId).zip(cases);
    slots.filter(|(_, case)| **case == Case::Noop).map(|(slot, _)| slot).collect()
}

/// Plays the case of each slot.
pub struct CasePolicy {
    noop: HashSet<SlotId>,
    oracle: Oracle,
}

impl CasePolicy {
    /// The policy of these cases of a plan, by slot.
    pub fn new(cases: &[Case], plan: &RunPlan) -> Self {
        Self { noop: noop_slots(cases), oracle: Oracle::new(plan.into()) }
    }
}

impl Policy for CasePolicy {
    fn name(&self) -> &str {
        "validate"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        if self.noop.contains(&request.attempt.slot) { Noop.act(request) } else { self.oracle.act(request) }
    }
}

/// A call in one line: its name and its arguments.
pub fn call_text(call: &ToolCall) -> String {
    let arguments = call.arguments.as_object().filter(|map| map.len() == 1);
    match arguments.and_then(|map| map.values().next()?.as_str()) {
        Some(only) => format!("{} {only}", call.name),
        None if call.arguments.as_object().is_some_and(serde_json::Map::is_empty) => call.name.clone(),
        None => format!("{} {}", call.name, call.arguments),
    }
}
