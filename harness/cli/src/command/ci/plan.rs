//! `clawrl ci plan`: computes the repeats needed to detect the smallest drop of interest.

use std::fmt::Write;

use clawrl_config::{CiPlan, Repeats, load_ci};
use clawrl_record::RunStore;
use clawrl_regression::{
    Baseline, BaselineError, Comparison, Conditions, drop_seen, promise, repeats_needed, repeats_of,
};
use serde::Serialize;

use super::arguments::PlanArguments;
use super::candidate::conditions_plan;
use super::judge::{baseline_path, unusable};
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::{print, print_json};

/// Planned size of a gate.
#[derive(Debug, Serialize)]
struct Planned {
    gate: String,
    tasks: usize,
    /// Repeats of the next run; `None` if `auto` finds no number.
    repeats: Option<u32>,
    /// Attempts of that run without an early stop.
    attempts: Option<u64>,
    /// Repeats after which interim analyses run; empty if only at the end.
    looks: Vec<u32>,
    /// Smallest drop of interest in the pass rate, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    drop: Option<f64>,
    /// Repeats that detect it with the gate's power.
    #[serde(skip_serializing_if = "Option::is_none")]
    needed: Option<u32>,
    /// Smallest drop that the gate's repeats detect, as a share.
    #[serde(skip_serializing_if = "Option::is_none")]
    sees: Option<f64>,
    /// For gates with per-task tests: maximum passes at which a task that always passed is reported as broken. `None`
    /// if even 0 passes are not significant.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken_at: Option<u32>,
    /// Mean attempts per task in the baseline; `None` without a baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline_repeats: Option<f64>,
    /// Remarks.
    notes: Vec<String>,
}

/// Runs the command.
pub(super) fn run(arguments: &PlanArguments, log: &Log) -> Result<Exit, Failure> {
    let store = arguments.results.store()?;
    let mut planned = Vec::new();
    for path in &arguments.gates {
        planned.push(plan(load_ci(path)?, arguments, &store, log)?);
    }
    if arguments.json {
        print_json(&planned)?;
    } else {
        planned.iter().try_for_each(|planned| print(&words(planned)))?;
    }
    Ok(Exit::Success)
}

fn plan(gate: CiPlan, arguments: &PlanArguments, store: &RunStore, log: &Log) -> Result<Planned, Failure> {
    let run = conditions_plan(&gate, store, log)?;
    gate.must_pass(&run)?;
    let tasks = run.tasks.len();
    let path = baseline_path(&gate, arguments.baseline.as_ref(), &arguments.results);
    let baseline = match Baseline::read(&path, &gate.gate) {
        Ok(baseline) => Some(baseline),
        Err(BaselineError::Missing { .. }) => None,
        Err(error) => return Err(unusable(error, &gate, &arguments.results)),
    };
    let mut planned = Planned {
        gate: gate.gate.clone(),
        tasks,
        repeats: None,
        attempts: None,
        looks: Vec::new(),
        drop: promise(&gate, tasks).map(|promise| promise.drop),
        needed: None,
        sees: None,
        broken_at: None,
        baseline_repeats: None,
        notes: Vec::new(),
    };
    let repeats = repeats_of(&gate, baseline.as_ref());
    planned.repeats = repeats.as_ref().ok().copied();
    planned.attempts = planned.repeats.map(|repeats| u64::from(repeats) * tasks as u64);
    let Some(baseline) = baseline else {
        planned.notes.push(format!(
            "there is no baseline at {}: `clawrl ci accept {}` makes one",
            path.display(),
            gate.file.display()
        ));
        return Ok(planned);
    };
    let differences = baseline.conditions.differences(&Conditions::of(&run));
    if !differences.is_empty() {
        planned
            .notes
            .push(format!("the baseline was recorded under other conditions: {}", differences.join("; ")));
    }
    by_baseline(&mut planned, gate, baseline);
    Ok(planned)
}

fn by_baseline(planned: &mut Planned, gate: CiPlan, baseline: Baseline) {
    let graded: usize = baseline.outcomes.values().map(|task| task.episodes.len()).sum();
    let before = graded as f64 / baseline.outcomes.len().max(1) as f64;
    planned.baseline_repeats = Some(before);
    if gate.deterministic {
        planned
            .notes
            .push("the policy is deterministic: where all tasks come out as before, it passes".to_owned());
        return;
    }
    match repeats_needed(&gate, &baseline) {
        Ok(needed) => planned.needed = needed,
        Err(why) => planned.notes.push(why.to_string()),
    }
    if let Some(repeats) = planned.repeats {
        planned.sees = drop_seen(&gate, &baseline, repeats).ok().flatten();
        if f64::from(repeats) > before + 0.5 {
            planned.notes.push(format!(
                "the baseline has {before:.1} attempts a task, and both sides should have {repeats}: accept a run of so many"
            ));
        }
        let is_exact = matches!(gate.repeats, Repeats::Exactly(_));
        let comparison = Comparison::new(gate, baseline);
        if let Ok(Some(rule)) = comparison.task_rule(repeats) {
            planned.broken_at = rule.most_passes(repeats, planned.tasks);
            if planned.broken_at.is_none() {
                planned.notes.push(format!(
                    "{repeats} repeats are too few to show that one of {} tasks broke, however far it falls",
                    planned.tasks
                ));
            }
        }
        let schedule = comparison.schedule(repeats).ok().flatten();
        planned.looks = schedule.map_or(Vec::new(), |schedule| schedule.repeats().to_vec());
        if let (true, Some(needed)) = (is_exact, planned.needed)
            && needed > repeats
        {
            planned.notes.push(format!("{repeats} repeats are fewer than the {needed} that it takes"));
        }
    }
}

fn words(planned: &Planned) -> String {
    let points = |share: f64| format!("{:.1} points", 100.0 * share);
    let mut text = format!("gate {}\n", planned.gate);
    // Writing to a string does not fail.
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "  {name:<9} {value}");
    };
    line("tasks", planned.tasks.to_string());
    if let (Some(repeats), Some(attempts)) = (planned.repeats, planned.attempts) {
        line("repeats", format!("{repeats} of each task, {attempts} attempts"));
    }
    if !planned.looks.is_empty() {
        let looks: Vec<String> = planned.looks.iter().map(u32::to_string).collect();
        line("analyses", format!("after {} repeats", looks.join(", ")));
    }
    if let (Some(drop), Some(needed)) = (planned.drop, planned.needed) {
        line("needed", format!("{needed} repeats, to see the pass rate drop by {}", points(drop)));
    }
    if let Some(sees) = planned.sees {
        line("sees", format!("a drop of {}", points(sees)));
    }
    if let (Some(most), Some(repeats)) = (planned.broken_at, planned.repeats) {
        let at = if most == 0 { "0".to_owned() } else { format!("{most} or fewer") };
        line("each task", format!("broke where it falls from {repeats} of {repeats} passes to {at}"));
    }
    for note in &planned.notes {
        line("note", note.clone());
    }
    text
}
