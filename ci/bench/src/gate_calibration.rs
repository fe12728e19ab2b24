//! Error rates of regression gates, measured on simulated pipelines whose true pass rates are known.
//!
//! A pipeline simulates what a team does: an agent with a pass rate per task; a first run of 8 repeats; the number of repeats that
//! `repeats: auto` plans from it; a baseline with that number of repeats; then a candidate, judged by `clawrl_regression` as
//! `clawrl ci` does, look by look. Each pipeline has its own tasks, baseline and candidate.
//!
//! Suites: in `mixed` a quarter of the tasks nearly always passes, a quarter seldom passes, and half are flaky; in `flaky` all tasks are
//! flaky, in `steady` none; `few` is `mixed` with half the tasks. Two suites have a fixed number of 8 repeats: `documented` is the gate
//! of `harness/docs/guides/ci.md`, with an agent whose number of turns changes only when it fails, and `six` has six tasks that nearly always
//! pass. Candidates: `same`; `drop`, whose pass rate is lower by the drop that matters to the gate, by the same factor in each task;
//! `twice`, lower by twice that; `broke`, where two tasks nearly never pass and the others are unchanged.
//!
//! Measured rates are compared with the gate's guarantees. Intervals are Clopper-Pearson, 95 %, two-sided.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use clawrl_config::{CiBudget, CiCompleteness, CiMetric, CiPlan, MetricKind, Repeats};
use clawrl_core::{Determinism, RunId, SlotId, SplitMix64, derive_seed};
use clawrl_gates::{Decision, clopper_pearson};
use clawrl_regression::{
    AnalysisPoint, BASELINE_FORMAT, Baseline, Comparison, Conditions, Episode, FIRST_REPEATS, Outcomes,
    TaskOutcomes, Verdicts, repeats_needed,
};
use serde::Serialize;

use crate::Failure;
use crate::rows;
use crate::table::{Sample, render};

const AREA: &str = "gate-calibration";
/// Maximum rate of false alarms, as a multiple of alpha.
const ALARMS_PER_ALPHA: f64 = 1.2;
/// Minimum share of attempts that looks save at twice the drop.
const SAVED: f64 = 0.3;
/// A plan with more repeats counts as impossible.
const MAX_REPEATS: u32 = 1_000;
/// Repeats of the gate in `harness/docs/guides/ci.md`.
const DOCUMENTED_REPEATS: u32 = 8;
/// Default turn limit of a suite.
const MAX_TURNS: u32 = 30;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipelines per row.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    pipelines: u64,
    /// The gate's alpha.
    #[arg(long, default_value_t = 0.05)]
    alpha: f64,
    /// The drop of the pass rate that matters.
    #[arg(long, default_value_t = 0.1)]
    min_effect: f64,
    /// Number of looks, including the final one.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4])]
    looks: Vec<u32>,
    /// Seed of all pipelines.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Suite::Mixed, Suite::Flaky, Suite::Steady, Suite::Few])]
    suites: Vec<Suite>,
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Truth::Same, Truth::Drop, Truth::Twice])]
    truths: Vec<Truth>,
    /// Metrics of the gate.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Metrics::One, Metrics::Two])]
    metrics: Vec<Metrics>,
    /// Whether gates also judge each task.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    each_task: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Suite {
    /// Easy, hard and flaky tasks.
    Mixed,
    /// Flaky tasks only.
    Flaky,
    /// Tasks that nearly always pass.
    Steady,
    /// Twelve easy, hard and flaky tasks.
    Few,
    /// The documented gate: 26 tasks with a pass rate of 80 %.
    Documented,
    /// Six tasks that nearly always pass.
    Six,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Truth {
    /// Unchanged.
    Same,
    /// The pass rate is lower by the drop that matters.
    Drop,
    /// The pass rate is lower by twice that drop.
    Twice,
    /// Two tasks broke.
    Broke,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Metrics {
    /// The pass rate.
    One,
    /// The pass rate and the number of turns.
    Two,
}

/// Parameters of a row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Case {
    suite: Suite,
    truth: Truth,
    metrics: Metrics,
    looks: u32,
    alpha: f64,
    min_effect: f64,
    each_task: bool,
}

/// Result of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Outcome {
    verdict: Verdict,
    /// Repeats planned and taken.
    planned: u32,
    taken: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Fail,
    Inconclusive,
    /// No number of repeats is enough.
    Unplanned,
}

/// Results of the pipelines of one case.
#[derive(Debug, Clone, Serialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    pipelines: u64,
    failed: u64,
    passed: u64,
    inconclusive: u64,
    unplanned: u64,
    /// Median of the planned repeats.
    repeats: f64,
    /// Share of the planned attempts that were taken.
    taken: f64,
}

/// Simulates, and returns the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    std::fs::create_dir_all(out)?;
    let mut rows = Vec::new();
    for &suite in &arguments.suites {
        for &metrics in &arguments.metrics {
            for &truth in &arguments.truths {
                for &looks in &arguments.looks {
                    let Arguments { alpha, min_effect, each_task, .. } = *arguments;
                    let case = Case { suite, truth, metrics, looks, alpha, min_effect, each_task };
                    let row = row(case, arguments.pipelines, arguments.seed)?;
                    rows::append(out, AREA, std::slice::from_ref(&row))?;
                    rows.push(row);
                }
            }
        }
    }
    Ok(table(&rows))
}

/// Runs all pipelines of a case on all cores. Results do not depend on the threads.
fn row(case: Case, pipelines: u64, seed: u64) -> Result<Row, Failure> {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let work = || -> Result<Vec<Outcome>, String> {
        let mut done = Vec::new();
        loop {
            let pipeline = next.fetch_add(1, Ordering::Relaxed);
            if pipeline >= pipelines {
                return Ok(done);
            }
            done.push(self::pipeline(case, seed, pipeline).map_err(|error| error.to_string())?);
        }
    };
    let mut done = Vec::new();
    std::thread::scope(|scope| -> Result<(), Failure> {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            done.extend(thread.join().map_err(|_| "a pipeline panicked")??);
        }
        Ok(())
    })?;
    let count = |verdict: Verdict| done.iter().filter(|done| done.verdict == verdict).count() as u64;
    let ran: Vec<&Outcome> = done.iter().filter(|done| done.verdict != Verdict::Unplanned).collect();
    let sum = |value: fn(&Outcome) -> u32| ran.iter().map(|done| f64::from(value(done))).sum::<f64>();
    Ok(Row {
        case,
        pipelines,
        failed: count(Verdict::Fail),
        passed: count(Verdict::Pass),
        inconclusive: count(Verdict::Inconclusive),
        unplanned: count(Verdict::Unplanned),
        repeats: Sample::new(ran.iter().map(|done| f64::from(done.planned)).collect()).median(),
        taken: sum(|done| done.taken) / sum(|done| done.planned),
    })
}

fn pipeline(case: Case, seed: u64, number: u64) -> Result<Outcome, Failure> {
    // All candidates and settings use the same suites and baselines.
    let mut random = SplitMix64::new(derive_seed(seed, "pipeline", &[number]));
    let before = rates(case.suite, &mut random);
    let drop = match case.truth {
        Truth::Same | Truth::Broke => 0.0,
        Truth::Drop => case.min_effect,
        Truth::Twice => 2.0 * case.min_effect,
    };
    let mean = before.iter().sum::<f64>() / before.len() as f64;
    let mut after: Vec<f64> = before.iter().map(|rate| rate * (1.0 - drop / mean).max(0.0)).collect();
    if case.truth == Truth::Broke {
        // Tasks are in no order, so the last two are arbitrary.
        after.iter_mut().rev().take(2).for_each(|rate| *rate = 0.03 * random.unit_f64());
    }
    let gate = gate(case);
    let planned = if let Repeats::Exactly(repeats) = gate.repeats {
        repeats
    } else {
        let first = attempts(case.suite, &before, FIRST_REPEATS, &mut random);
        match repeats_needed(&gate, &baseline(outcomes(&first, FIRST_REPEATS))?) {
            Ok(Some(needed)) if needed <= MAX_REPEATS => needed,
            _ => return Ok(Outcome { verdict: Verdict::Unplanned, planned: 0, taken: 0 }),
        }
    };
    let accepted = attempts(case.suite, &before, planned, &mut random);
    let candidate = attempts(case.suite, &after, planned, &mut random);
    let comparison =
        Comparison::new(gate, baseline(outcomes(&accepted, planned))?).with_most_turns(MAX_TURNS);
    let schedule = comparison.schedule(planned)?;
    if let Some(schedule) = &schedule {
        for (at, &seen) in schedule.repeats().iter().enumerate() {
            let outcomes = outcomes(&candidate, seen);
            if comparison.look_at(&outcomes, seen, schedule, at)?.ends {
                let verdict = verdict_of(&comparison.judge(&outcomes, AnalysisPoint::Interim(schedule))?);
                return Ok(Outcome { verdict, planned, taken: seen });
            }
        }
    }
    let judged = comparison.judge(&outcomes(&candidate, planned), AnalysisPoint::Final(schedule.as_ref()))?;
    Ok(Outcome { verdict: verdict_of(&judged), planned, taken: planned })
}

/// The worst of the verdicts.
fn verdict_of(judged: &Verdicts) -> Verdict {
    let decisions = || judged.metrics.iter().map(|metric| &metric.verdict.decision);
    let broke = judged.each_task.as_ref().is_some_and(|tasks| tasks.verdict.fails());
    if broke || decisions().any(|decision| *decision == Decision::Fail) {
        Verdict::Fail
    } else if decisions().all(Decision::is_pass) {
        Verdict::Pass
    } else {
        Verdict::Inconclusive
    }
}

/// Pass rate per task.
fn rates(suite: Suite, random: &mut SplitMix64) -> Vec<f64> {
    let between = |low: f64, high: f64, random: &mut SplitMix64| low + (high - low) * random.unit_f64();
    let tasks = match suite {
        Suite::Few => 12,
        Suite::Documented => 26,
        Suite::Six => 6,
        Suite::Mixed | Suite::Flaky | Suite::Steady => 24,
    };
    let rate = |task: usize| match (suite, task % 4) {
        (Suite::Documented, _) => 0.8,
        (Suite::Six, _) => between(0.97, 1.0, random),
        (Suite::Steady, _) | (Suite::Mixed | Suite::Few, 0) => between(0.95, 1.0, random),
        (Suite::Mixed | Suite::Few, 1) => between(0.0, 0.1, random),
        _ => between(0.2, 0.9, random),
    };
    (0..tasks).map(rate).collect()
}

/// By task: whether each attempt passes, and its number of turns.
fn attempts(suite: Suite, rates: &[f64], repeats: u32, random: &mut SplitMix64) -> Vec<Vec<(bool, u32)>> {
    let mut attempt = |task: u32, rate: f64| {
        let (passed, drawn) = (random.unit_f64() < rate, random.below(8) as u32);
        let turns = match suite {
            Suite::Documented | Suite::Six if passed => 1 + task % 4,
            Suite::Documented | Suite::Six => 2 + task % 4,
            _ => 1 + drawn,
        };
        (passed, turns)
    };
    (0..).zip(rates).map(|(task, rate)| (0..repeats).map(|_| attempt(task, *rate)).collect()).collect()
}

/// Outcomes of the first attempts at each task.
fn outcomes(attempts: &[Vec<(bool, u32)>], first: u32) -> Outcomes {
    let episode = |(slot, &(passed, turns)): (u32, &(bool, u32))| Episode {
        slot: SlotId(slot),
        passed,
        reward: f64::from(u8::from(passed)),
        turns,
        tokens: None,
        cost_usd: None,
        latency_s: 0.0,
    };
    let task = |attempts: &Vec<(bool, u32)>| TaskOutcomes {
        suite: AREA.to_owned(),
        family: AREA.to_owned(),
        episodes: (0..).zip(attempts.iter().take(first as usize)).map(episode).collect(),
        ..TaskOutcomes::default()
    };
    (0..)
        .zip(attempts)
        .map(|(number, attempts): (u32, _)| (format!("t{number:02}"), task(attempts)))
        .collect()
}

fn gate(case: Case) -> CiPlan {
    let is_fixed = matches!(case.suite, Suite::Documented | Suite::Six);
    let (tolerance, min_effect, turns) =
        if is_fixed { (0.02, 0.15, 2.0) } else { (0.0, case.min_effect, 1.0) };
    let pass_rate = CiMetric { kind: MetricKind::PassRate, tolerance, min_effect };
    let turns = CiMetric { kind: MetricKind::Turns, tolerance: 0.0, min_effect: turns };
    let metrics = match case.metrics {
        Metrics::One => vec![pass_rate],
        Metrics::Two => vec![pass_rate, turns],
    };
    CiPlan {
        gate: AREA.to_owned(),
        file: PathBuf::new(),
        suites: Vec::new(),
        policy: String::new(),
        seed: 0,
        repeats: if is_fixed { Repeats::Exactly(DOCUMENTED_REPEATS) } else { Repeats::Auto },
        metrics,
        must_pass: Vec::new(),
        each_task: Some(case.each_task),
        alpha: case.alpha,
        power: POWER,
        interim_analyses: case.looks,
        deterministic: false,
        completeness: CiCompleteness { max_fault_share: 0.0, max_lost_share: 0.0 },
        budget: CiBudget::default(),
    }
}

/// The gate's power.
const POWER: f64 = 0.9;

fn baseline(outcomes: Outcomes) -> Result<Baseline, Failure> {
    let conditions = Conditions {
        suites: BTreeMap::new(),
        tasks: outcomes.keys().cloned().collect(),
        seed: 0,
        max_retries: 0,
        determinism: Determinism::default(),
        judge: None,
    };
    Ok(Baseline {
        format: BASELINE_FORMAT,
        gate: AREA.to_owned(),
        run: RunId::new(AREA).ok_or("not a run name")?,
        accepted_ms: 0,
        program: AREA.to_owned(),
        policy: AREA.to_owned(),
        plan_sha256: conditions.sha256(),
        conditions,
        outcomes_sha256: String::new(),
        outcomes,
    })
}

fn table(rows: &[Row]) -> String {
    let columns = [
        "suite",
        "metrics",
        "candidate",
        "looks",
        "repeats",
        "failed, %",
        "passed, %",
        "inconclusive, %",
        "taken, %",
    ];
    let mut lines = vec![columns.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(line));
    let verdicts: Vec<String> = rows.iter().flat_map(verdicts).collect();
    format!("{}\n{}", render(&lines), verdicts.join("\n"))
}

fn line(row: &Row) -> Vec<String> {
    let share = |count: u64| {
        let (low, high) = clopper_pearson(count, row.pipelines, 0.95);
        format!("{:.1} ({:.1}-{:.1})", 100.0 * count as f64 / row.pipelines as f64, 100.0 * low, 100.0 * high)
    };
    vec![
        name(row.case.suite),
        name(row.case.metrics),
        name(row.case.truth),
        row.case.looks.to_string(),
        format!("{:.0}", row.repeats),
        share(row.failed),
        share(row.passed),
        share(row.inconclusive + row.unplanned),
        format!("{:.0}", 100.0 * row.taken),
    ]
}

/// Verdicts on the targets.
fn verdicts(row: &Row) -> Vec<String> {
    let Case { suite, truth, metrics, looks, alpha, .. } = row.case;
    let what = format!("{} {} {}, {looks} looks", name(suite), name(metrics), name(truth));
    let bound = 100.0 * ALARMS_PER_ALPHA * alpha;
    let at_most = |count: u64, of: &str| {
        let high = 100.0 * clopper_pearson(count, row.pipelines, 0.95).1;
        format!("{what}: {of} at most {high:.1} %, target {bound:.1} %: {}", verdict(high <= bound))
    };
    match truth {
        Truth::Same => vec![at_most(row.failed, "false alarms")],
        Truth::Drop => {
            let power = 100.0 * row.failed as f64 / row.pipelines as f64;
            let target = 100.0 * POWER;
            vec![
                format!("{what}: seen {power:.1} %, target {target:.0} %: {}", verdict(power >= target)),
                at_most(row.passed, "wrong passes"),
            ]
        }
        Truth::Twice if looks > 1 => {
            let saved = 100.0 * (1.0 - row.taken);
            let target = 100.0 * SAVED;
            vec![format!(
                "{what}: {saved:.0} % of the attempts saved, target {target:.0} %: {}",
                verdict(saved >= target)
            )]
        }
        // No target: the guarantee is about the mean.
        Truth::Twice | Truth::Broke => Vec::new(),
    }
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(truth: Truth, looks: u32) -> Case {
        Case {
            suite: Suite::Few,
            truth,
            metrics: Metrics::One,
            looks,
            alpha: 0.05,
            min_effect: 0.2,
            each_task: true,
        }
    }

    #[test]
    fn pipeline_is_deterministic() {
        for truth in [Truth::Same, Truth::Twice] {
            let one = pipeline(case(truth, 3), 1, 7).unwrap();
            assert_eq!(one, pipeline(case(truth, 3), 1, 7).unwrap());
            assert!(one.taken <= one.planned && one.planned > 0);
        }
    }

    #[test]
    fn verdicts_compare_with_targets() {
        let check = |truth, failed, passed, taken, expected: &[&str]| {
            let row = Row {
                case: case(truth, 4),
                pipelines: 2_000,
                failed,
                passed,
                inconclusive: 0,
                unplanned: 0,
                repeats: 8.0,
                taken,
            };
            assert_eq!(verdicts(&row), expected);
        };
        check(
            Truth::Same,
            100,
            0,
            1.0,
            &["few one same, 4 looks: false alarms at most 6.0 %, target 6.0 %: missed"],
        );
        check(
            Truth::Same,
            80,
            0,
            1.0,
            &["few one same, 4 looks: false alarms at most 5.0 %, target 6.0 %: met"],
        );
        check(
            Truth::Drop,
            1_800,
            2,
            1.0,
            &[
                "few one drop, 4 looks: seen 90.0 %, target 90 %: met",
                "few one drop, 4 looks: wrong passes at most 0.4 %, target 6.0 %: met",
            ],
        );
        check(
            Truth::Twice,
            0,
            0,
            0.7,
            &["few one twice, 4 looks: 30 % of the attempts saved, target 30 %: met"],
        );
    }
}
