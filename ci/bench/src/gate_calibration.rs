//! Whether a regression gate keeps what it promises, by pipelines of which the truth is known.
//!
//! A pipeline is what a team has: an agent with a rate of passing for each task, which nobody knows; a first run of 8 repeats;
//! `repeats: auto`, planned from that; a baseline of so many repeats; then a candidate, judged by `clawrl_regression` as `clawrl ci` does it,
//! look by look. Each pipeline has tasks, baseline and candidate of its own.
//!
//! Suites differ in their tasks: `mixed` has a quarter that nearly always passes, a quarter that seldom does, and a half that is flaky;
//! in `flaky` all are, in `steady` none; `few` is `mixed` with half the tasks. Two more are fixed suites of 8 repeats: `documented` is the gate of
//! `harness/docs/guides/ci.md`, with an agent that takes other turns only where it fails, and `six` has six tasks that nearly always pass. Candidates differ
//! in what became of them: `same`; `drop`, the pass rate is lower by what matters to the gate, the same share of each task's; `twice`, lower by twice
//! that; `broke`, two tasks nearly never pass and the others are as before.
//!
//! There is no peer here: the sides are the promise and the truth. Intervals are those of Clopper and Pearson at 95 %, two-sided.

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

use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::Failure;

const AREA: &str = "gate-calibration";
/// Upper bound of the rate of false alarms, for each percent of alpha.
const ALARMS_PER_ALPHA: f64 = 1.2;
/// Share of attempts that looking early saves at twice the drop.
const SAVED: f64 = 0.3;
/// A suite whose plan asks for more is none that anybody would run.
const MOST_REPEATS: u32 = 1_000;
/// Repeats of the gate in `harness/docs/guides/ci.md`.
const DOCUMENTED_REPEATS: u32 = 8;
/// Most turns of an attempt where a suite says nothing.
const MOST_TURNS: u32 = 30;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipelines of each row.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..))]
    pipelines: u64,
    /// Probability of a false alarm that the gate is set to.
    #[arg(long, default_value_t = 0.05)]
    alpha: f64,
    /// The drop of the pass rate that matters.
    #[arg(long, default_value_t = 0.1)]
    min_effect: f64,
    /// How often the gate looks, the end included.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4])]
    looks: Vec<u32>,
    /// Seed of all pipelines.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Suite::Mixed, Suite::Flaky, Suite::Steady, Suite::Few])]
    suites: Vec<Suite>,
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Truth::Same, Truth::Drop, Truth::Twice])]
    truths: Vec<Truth>,
    /// Gates by the pass rate alone, or by the pass rate and the number of turns.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Metrics::One, Metrics::Two])]
    metrics: Vec<Metrics>,
    /// Whether gates judge each task, too.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    each_task: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Suite {
    /// Easy, hard and flaky tasks.
    Mixed,
    /// Flaky tasks alone.
    Flaky,
    /// Tasks that nearly always pass.
    Steady,
    /// Easy, hard and flaky tasks, a dozen.
    Few,
    /// The gate of the document: 26 tasks, each passed in four of five attempts.
    Documented,
    /// Six tasks that nearly always pass.
    Six,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Truth {
    /// The candidate is the baseline's agent.
    Same,
    /// Its pass rate is lower by what matters.
    Drop,
    /// It is lower by twice that.
    Twice,
    /// Two tasks broke.
    Broke,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Metrics {
    /// The pass rate.
    One,
    /// And the turns.
    Two,
}

/// What a row is about.
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

/// What a pipeline said.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Told {
    decision: Said,
    /// Of a task, planned and taken.
    planned: u32,
    taken: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Pass,
    Fail,
    Inconclusive,
    /// No number of repeats was enough.
    Unplanned,
}

/// What pipelines of one kind said.
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

/// Simulates and gives the table.
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

/// All pipelines of a case, on all cores. Which of them a thread takes changes nothing.
fn row(case: Case, pipelines: u64, seed: u64) -> Result<Row, Failure> {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let work = || -> Result<Vec<Told>, String> {
        let mut told = Vec::new();
        loop {
            let pipeline = next.fetch_add(1, Ordering::Relaxed);
            if pipeline >= pipelines {
                return Ok(told);
            }
            told.push(self::pipeline(case, seed, pipeline).map_err(|error| error.to_string())?);
        }
    };
    let mut told = Vec::new();
    std::thread::scope(|scope| -> Result<(), Failure> {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            told.extend(thread.join().map_err(|_| "a pipeline panicked")??);
        }
        Ok(())
    })?;
    let count = |said: Said| told.iter().filter(|told| told.decision == said).count() as u64;
    let ran: Vec<&Told> = told.iter().filter(|told| told.decision != Said::Unplanned).collect();
    let sum = |value: fn(&Told) -> u32| ran.iter().map(|told| f64::from(value(told))).sum::<f64>();
    Ok(Row {
        case,
        pipelines,
        failed: count(Said::Fail),
        passed: count(Said::Pass),
        inconclusive: count(Said::Inconclusive),
        unplanned: count(Said::Unplanned),
        repeats: Sample::new(ran.iter().map(|told| f64::from(told.planned)).collect()).median(),
        taken: sum(|told| told.taken) / sum(|told| told.planned),
    })
}

fn pipeline(case: Case, seed: u64, number: u64) -> Result<Told, Failure> {
    // Candidates of all truths and gates of all settings meet the same suites and baselines.
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
        // The tasks of a suite come in no order, so the last two are any two.
        after.iter_mut().rev().take(2).for_each(|rate| *rate = 0.03 * random.unit_f64());
    }
    let gate = gate(case);
    let planned = if let Repeats::Exactly(repeats) = gate.repeats {
        repeats
    } else {
        let first = attempts(case.suite, &before, FIRST_REPEATS, &mut random);
        match repeats_needed(&gate, &baseline(outcomes(&first, FIRST_REPEATS))?) {
            Ok(Some(needed)) if needed <= MOST_REPEATS => needed,
            _ => return Ok(Told { decision: Said::Unplanned, planned: 0, taken: 0 }),
        }
    };
    let accepted = attempts(case.suite, &before, planned, &mut random);
    let candidate = attempts(case.suite, &after, planned, &mut random);
    let comparison =
        Comparison::new(gate, baseline(outcomes(&accepted, planned))?).with_most_turns(MOST_TURNS);
    let schedule = comparison.schedule(planned)?;
    if let Some(schedule) = &schedule {
        for (at, &seen) in schedule.repeats().iter().enumerate() {
            let outcomes = outcomes(&candidate, seen);
            if comparison.look_at(&outcomes, seen, schedule, at)?.ends {
                let decision = said(&comparison.judge(&outcomes, AnalysisPoint::Interim(schedule))?);
                return Ok(Told { decision, planned, taken: seen });
            }
        }
    }
    let judged = comparison.judge(&outcomes(&candidate, planned), AnalysisPoint::Final(schedule.as_ref()))?;
    Ok(Told { decision: said(&judged), planned, taken: planned })
}

/// The worst of them.
fn said(judged: &Verdicts) -> Said {
    let decisions = || judged.metrics.iter().map(|metric| &metric.verdict.decision);
    let broke = judged.each_task.as_ref().is_some_and(|tasks| tasks.verdict.fails());
    if broke || decisions().any(|decision| *decision == Decision::Fail) {
        Said::Fail
    } else if decisions().all(Decision::is_pass) {
        Said::Pass
    } else {
        Said::Inconclusive
    }
}

/// Of a task, the chance that an attempt passes.
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

/// By task: whether each attempt passes, and how many turns it takes.
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

/// Those of the first so many.
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

/// What is promised.
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
        run: RunId::new(AREA).ok_or("no name of a run")?,
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

/// What the row says of the targets.
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
        // What is promised is about the mean.
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
    fn a_pipeline_is_the_same_each_time() {
        for truth in [Truth::Same, Truth::Twice] {
            let one = pipeline(case(truth, 3), 1, 7).unwrap();
            assert_eq!(one, pipeline(case(truth, 3), 1, 7).unwrap());
            assert!(one.taken <= one.planned && one.planned > 0);
        }
    }

    #[test]
    fn verdicts_are_held_against_the_promise() {
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
