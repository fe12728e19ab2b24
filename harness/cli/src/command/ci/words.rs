//! Renders an assessment for a terminal.

use std::path::Path;

use clawrl_gates::Change;
use clawrl_record::aligned;
use clawrl_regression::{Assessment, Counts, TaskChange};

/// Maximum tasks listed; the JSON has all.
const LISTED: usize = 20;

/// The verdict, its evidence, and the changed tasks. `dir` is the folder of the run.
pub(super) fn tell(assessment: &Assessment, dir: &Path) -> String {
    let mut text = format!("gate {}: {}\n", assessment.gate, assessment.outcome.name());
    let metrics = assessment.metrics.iter().map(|metric| &metric.sentence);
    let sentences: Vec<&String> =
        metrics.chain(assessment.each_task.iter().map(|tasks| &tasks.sentence)).collect();
    for reason in assessment.reasons.iter().filter(|reason| !sentences.contains(reason)) {
        text += &format!("  {reason}\n");
    }
    for sentence in sentences {
        text += &format!("  {sentence}\n");
    }
    for look in &assessment.interim_analyses {
        let z = look.z.map_or_else(String::new, |z| format!(", z {z:.2}"));
        text += &format!("  interim analysis after {} repeats{z}: {}\n", look.repeats, look.said);
    }
    text += &listed("worse", assessment, |task| worse(task) > 0.0);
    text += &listed("better", assessment, |task| worse(task) < 0.0);
    if !assessment.lost.is_empty() {
        text += &format!("  without a graded attempt: {}\n", first(&assessment.lost));
    }
    text += &format!("run       {} ({})\n", assessment.run, dir.display());
    text + &format!("baseline  {}\n", assessment.baseline.run)
}

/// Drop of a task's pass rate; 0 if one side has no grades.
fn worse(task: &TaskChange) -> f64 {
    let share = |counts: Counts| f64::from(counts.passes) / f64::from(counts.attempts);
    let fell = share(task.baseline) - share(task.candidate);
    if fell.is_nan() { 0.0 } else { fell }
}

fn listed(what: &str, assessment: &Assessment, belongs: impl Fn(&TaskChange) -> bool) -> String {
    let mut tasks: Vec<&TaskChange> = assessment.tasks.iter().filter(|task| belongs(task)).collect();
    tasks.sort_by(|a, b| worse(b).abs().total_cmp(&worse(a).abs()));
    let share = |counts: Counts| format!("{} of {}", counts.passes, counts.attempts);
    let row = |task: &&TaskChange| {
        let change = match task.change {
            Change::Broke => "broke",
            Change::Mended => "mended",
            Change::Kept if task.flaky => "flaky",
            Change::Kept => "",
        };
        [
            format!("    {}", task.task),
            share(task.baseline),
            "->".to_owned(),
            share(task.candidate),
            change.to_owned(),
        ]
    };
    let rows: Vec<[String; 5]> = tasks.iter().take(LISTED).map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let more = tasks.len().saturating_sub(LISTED);
    let more = if more > 0 { format!("    and {more} more\n") } else { String::new() };
    let sample = tasks.iter().filter(|task| worse(task) > 0.0).find_map(|task| task.sample);
    let show = sample.map_or_else(String::new, |slot| {
        format!("    look at the first: clawrl show {} --slot {slot}\n", assessment.run)
    });
    format!("  {what}:\n{}{more}{show}", aligned(&rows))
}

fn first(names: &[String]) -> String {
    let more = names.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", "))
}
