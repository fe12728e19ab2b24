//! Assessments with everything that a rendering has to tell of, judged by the gates themselves.

use clawrl_core::{RunId, SlotId};
use clawrl_gates::{
    Attempts, Change, Completeness, Direction, EachTask, Gate, Kind, Paired, Side, judge_together,
};
use clawrl_regression::{
    ASSESSMENT_FORMAT, Assessment, BaselineNote, BudgetUse, Counts, EachTaskVerdict, InterimResult,
    MetricVerdict, MustPass, Outcome, TaskChange, Unit,
};

/// Task name that would break out of any format.
pub(crate) const HOSTILE: &str =
    "</td></table></details><script>alert(1)</script>|`@everyone` ]]>&amp;\n::error::x\u{1b}[2J\u{202e}%0A";

fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

/// By task: passes before and now, of eight, and faults now.
fn assessment(gate: &str, tasks: &[(&str, u32, u32, u32)], metrics: Vec<MetricVerdict>) -> Assessment {
    let change = |&(task, before, after, faults): &(&str, u32, u32, u32)| TaskChange {
        task: task.to_owned(),
        suite: "terminal-basics".to_owned(),
        family: task.split('/').next().unwrap().to_owned(),
        baseline: Counts { passes: before, attempts: 8, faults: 0, missing: 0 },
        candidate: Counts { passes: after, attempts: 8 - faults, faults, missing: 0 },
        change: match (before, after) {
            (8, 0) => Change::Broke,
            (0, 8) => Change::Mended,
            _ => Change::Kept,
        },
        flaky: (1..8).contains(&before) || (1..8).contains(&after),
        sample: (after < 8).then_some(SlotId(7)),
    };
    Assessment {
        format: ASSESSMENT_FORMAT,
        gate: gate.to_owned(),
        run: run("nightly-7"),
        baseline: BaselineNote {
            run: run("nightly-1"),
            accepted_ms: 1_764_000_000_000,
            plan_sha256: "5e".repeat(32),
        },
        outcome: Outcome::Pass,
        metrics,
        each_task: None,
        must_pass: Vec::new(),
        tasks: tasks.iter().map(change).collect(),
        interim_analyses: Vec::new(),
        budget: BudgetUse {
            attempts: 8 * tasks.len() as u32,
            most_attempts: Some(400),
            minutes: 2.5,
            cost_usd: Some(0.125),
            ..BudgetUse::default()
        },
        reasons: Vec::new(),
        lost: Vec::new(),
    }
}

struct Measured {
    name: &'static str,
    unit: Unit,
    direction: Direction,
    kind: Kind,
    tolerance: f64,
    min_effect: f64,
    /// By task, before and now.
    values: Vec<[Vec<f64>; 2]>,
}

fn verdicts(measured: Vec<Measured>) -> Vec<MetricVerdict> {
    let side = |metric: &Measured, side: usize| -> Side {
        let attempts = |values: &[Vec<f64>; 2]| Attempts::of(values[side].clone());
        (0..).zip(&metric.values).map(|(task, values)| (format!("t{task:03}"), attempts(values))).collect()
    };
    let paired: Vec<Paired> = measured
        .iter()
        .map(|metric| {
            let rules = Completeness::default();
            Paired::new(&side(metric, 0), &side(metric, 1), metric.kind, rules).unwrap()
        })
        .collect();
    let gates: Vec<(Gate, &Paired)> = measured
        .iter()
        .zip(&paired)
        .map(|(metric, paired)| {
            let gate = Gate {
                metric: metric.name.to_owned(),
                direction: metric.direction,
                tolerance: metric.tolerance,
                min_effect: metric.min_effect,
                alpha: 0.05,
                deterministic: false,
                span: None,
            };
            (gate, paired)
        })
        .collect();
    let judged = judge_together(&gates, 7).unwrap();
    measured
        .iter()
        .zip(judged)
        .map(|(metric, verdict)| MetricVerdict {
            name: metric.name.to_owned(),
            unit: metric.unit,
            sentence: verdict.to_string(),
            verdict,
        })
        .collect()
}

/// By task: passes before and now, of eight.
fn each_task(tasks: &[(&str, u32, u32, u32)]) -> EachTaskVerdict {
    let side = |now: bool| -> Side {
        let of = |task: &(&str, u32, u32, u32)| Attempts::of(passes(if now { task.2 } else { task.1 }));
        tasks.iter().map(|task| (task.0.to_owned(), of(task))).collect()
    };
    let paired = Paired::new(&side(false), &side(true), Kind::PassFail, Completeness::default()).unwrap();
    let verdict = EachTask { tolerance: 0.0, alpha: 0.01, deterministic: false }.judge(&paired);
    EachTaskVerdict { sentence: verdict.to_string(), verdict }
}

fn passes(of: u32) -> Vec<f64> {
    (0..8).map(|at| if at < of { 1.0 } else { 0.0 }).collect()
}

fn pass_rate(pairs: impl Iterator<Item = (u32, u32)>) -> Measured {
    Measured {
        name: "pass_rate",
        unit: Unit::Share,
        direction: Direction::Higher,
        kind: Kind::PassFail,
        tolerance: 0.0,
        min_effect: 0.05,
        values: pairs.map(|(before, after)| [passes(before), passes(after)]).collect(),
    }
}

fn cost(tasks: u32, factor: f64) -> Measured {
    let values = |task: u32| {
        let before: Vec<f64> = (0..4).map(|at| 0.01 + 0.001 * f64::from((task + at) % 5)).collect();
        let after = before.iter().map(|usd| usd * factor + 0.0001 * (f64::from(task % 3) - 1.0)).collect();
        [before, after]
    };
    Measured {
        name: "cost_usd",
        unit: Unit::Usd,
        direction: Direction::Lower,
        kind: Kind::Number,
        tolerance: 0.0,
        min_effect: 0.002,
        values: (0..tasks).map(values).collect(),
    }
}

/// Twenty tasks of which seven became worse, one of them by name and one for good.
pub(crate) fn failing() -> Assessment {
    let names: Vec<String> = (0..20).map(|task| format!("sort/names-{task:02}")).collect();
    let mut tasks: Vec<(&str, u32, u32, u32)> = names
        .iter()
        .zip(0u32..)
        .map(|(name, at)| (name.as_str(), 8, if at % 3 == 0 { 5 } else { 8 }, u32::from(at == 4)))
        .collect();
    tasks[4].2 = 7;
    tasks[3] = ("copy/first-line", 8, 0, 0);
    tasks[6] = (HOSTILE, 8, 1, 0);
    tasks[9] = ("count/words", 0, 8, 0);
    let rates = tasks.iter().map(|&(_, before, after, faults)| (before, after + faults));
    let mut assessment = assessment(
        "nightly",
        &tasks,
        verdicts(vec![
            pass_rate(rates.map(|(before, after)| (before, after.saturating_sub(2)))),
            cost(20, 1.01),
        ]),
    );
    assessment.outcome = Outcome::Fail;
    assessment.each_task = Some(each_task(&tasks));
    assessment.must_pass = vec![
        MustPass { task: "copy/first-line".to_owned(), passes: 0, attempts: 8, faults: 0, ok: false },
        MustPass { task: "sort/names-01".to_owned(), passes: 8, attempts: 8, faults: 0, ok: true },
    ];
    assessment.interim_analyses = vec![
        InterimResult { repeats: 4, fraction: 0.5, z: Some(1.9), said: "continues".to_owned() },
        InterimResult { repeats: 8, fraction: 1.0, z: None, said: "ends here".to_owned() },
    ];
    assessment.reasons = vec![
        assessment.each_task.as_ref().unwrap().sentence.clone(),
        assessment.metrics[0].sentence.clone(),
        "\"copy/first-line\" must pass every time, and passed 0 of 8.".to_owned(),
    ];
    assessment
}

/// Nothing changed.
pub(crate) fn passing() -> Assessment {
    let names: Vec<String> = (0..3).map(|task| format!("sort/names-{task:02}")).collect();
    let tasks: Vec<(&str, u32, u32, u32)> = names.iter().map(|name| (name.as_str(), 8, 8, 0)).collect();
    let metrics = verdicts(vec![pass_rate((0..60).map(|_| (8, 8))), cost(60, 1.0)]);
    Assessment { each_task: Some(each_task(&tasks)), ..assessment("quick", &tasks, metrics) }
}

/// Everything broke.
pub(crate) fn undecided() -> Assessment {
    let mut assessment = assessment(
        "flaky <b>",
        &[("sort/a", 8, 0, 8), ("sort/b", 8, 8, 0)],
        verdicts(vec![pass_rate([(8, 8), (8, 8)].into_iter())]),
    );
    assessment.outcome = Outcome::Inconclusive;
    assessment.lost = vec!["sort/a".to_owned()];
    assessment.reasons = vec![assessment.metrics[0].sentence.clone()];
    assessment.budget.ended_the_run = true;
    assessment
}

/// All three.
pub(crate) fn all() -> Vec<Assessment> {
    vec![passing(), failing(), undecided()]
}
