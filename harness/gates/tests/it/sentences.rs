//! Every number in a sentence matches the data, and advice is true.
//!
//! The reference (counts, means and differences) is computed here from the attempts, without the crate.

use std::collections::BTreeMap;

use clawrl_gates::{
    Attempts, Completeness, Decision, Direction, EachTask, Gate, GateVerdict, InconclusiveReason, Kind,
    Paired, Side, judge_together,
};
use proptest::prelude::*;

/// Attempts at a task: values, faults and attempts without an end.
type Task = (Vec<f64>, u32, u32);

fn side(tasks: &[Task]) -> Side {
    let of = |(values, faults, missing): &Task| Attempts {
        faults: *faults,
        missing: *missing,
        ..Attempts::of(values.clone())
    };
    tasks.iter().enumerate().map(|(at, task)| (format!("t{at}"), of(task))).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The number behind a text, such as `worse by at most `.
fn number_after(sentence: &str, text: &str) -> Option<f64> {
    let (_, rest) = sentence.split_once(text)?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(rest.len());
    rest[..end].trim_end_matches('.').parse().ok()
}

/// The whole number before a text, such as ` attempts of the candidate`.
fn count_before(sentence: &str, text: &str) -> Option<u32> {
    let (rest, _) = sentence.split_once(text)?;
    rest.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Attempts of each kind, with the scale in sentences.
fn any_kind() -> impl Strategy<Value = (Kind, Vec<f64>, f64)> {
    prop_oneof![
        Just((Kind::PassFail, vec![0.0, 1.0], 100.0)),
        Just((Kind::PassFail, vec![1.0, 1.0, 1.0, 0.0], 100.0)),
        Just((Kind::Share, vec![0.0, 0.25, 0.5, 1.0], 100.0)),
        Just((Kind::Number, vec![3.0, 4.0], 1.0)),
        Just((Kind::Number, vec![0.5, 1.0, 7.5, 12.0], 1.0)),
    ]
}

fn any_task(values: Vec<f64>, lacking: u32) -> impl Strategy<Value = Task> {
    (prop::collection::vec(prop::sample::select(values), 0..7), 0..=lacking, 0..=lacking)
}

#[derive(Debug, Clone)]
struct Case {
    kind: Kind,
    scale: f64,
    baseline: Vec<Task>,
    candidate: Vec<Task>,
    gate: Gate,
}

fn any_case() -> impl Strategy<Value = Case> {
    // Most runs lack nothing; the others lack much.
    let lacking = prop_oneof![3 => Just(0u32), 1 => Just(2u32)];
    let settings = (0.0f64..0.3, 0.01f64..0.5, any::<bool>(), any::<bool>(), any::<bool>());
    (any_kind(), lacking, 1usize..9, any::<bool>(), settings).prop_flat_map(
        |((kind, values, scale), lacking, tasks, is_same, (tolerance, above, deterministic, lower, span))| {
            let tasks = || prop::collection::vec(any_task(values.clone(), lacking), tasks);
            (tasks(), tasks()).prop_map(move |(baseline, other)| Case {
                kind,
                scale,
                candidate: if is_same { baseline.clone() } else { other },
                baseline,
                gate: Gate {
                    metric: "m".to_owned(),
                    direction: if lower { Direction::Lower } else { Direction::Higher },
                    tolerance,
                    min_effect: tolerance + above,
                    alpha: 0.05,
                    deterministic,
                    span: span.then_some(20.0),
                },
            })
        },
    )
}

impl Case {
    fn paired(&self) -> Option<Paired> {
        let rules = Completeness { max_fault_share: 0.2, max_lost_share: 0.0 };
        Paired::new(&side(&self.baseline), &side(&self.candidate), self.kind, rules).ok()
    }

    /// Tasks with values of both sides: means before and now.
    fn means(&self) -> Vec<(f64, f64)> {
        let pairs = self.baseline.iter().zip(&self.candidate);
        let whole = pairs.filter(|(before, after)| !before.0.is_empty() && !after.0.is_empty());
        whole.map(|(before, after)| (mean(&before.0), mean(&after.0))).collect()
    }

    fn harm(&self) -> f64 {
        let means = self.means();
        let drop = mean(&means.iter().map(|(before, after)| before - after).collect::<Vec<_>>());
        if self.gate.direction == Direction::Higher { drop } else { -drop }
    }
}

/// I3 of the sentences: they report the observed numbers.
fn values_are_reported(case: &Case, verdict: &GateVerdict, told: &str) -> Result<(), TestCaseError> {
    let means = case.means();
    let differ = means.iter().filter(|(before, after)| (before - after).abs() > 1e-9).count();
    let close = |found: f64, expected: f64| (found - expected).abs() <= 0.051 + 1e-6 * expected.abs();
    if let Some(tasks) = number_after(told, "Over ") {
        prop_assert_eq!(tasks as usize, means.len());
        let harm = case.harm();
        let by = match told.split_once("the candidate is ").unwrap().1 {
            rest if rest.starts_with("equal to") => 0.0,
            rest => {
                let by = number_after(told, "the candidate is ").unwrap();
                prop_assert_eq!(
                    rest.split_once(" than the baseline").unwrap().0.ends_with("worse"),
                    harm > 0.0
                );
                by
            }
        };
        prop_assert!(close(by, case.scale * harm.abs()), "{} is not {}", by, case.scale * harm.abs());
        let after = number_after(told, "the baseline (").unwrap();
        prop_assert!(close(after, case.scale * mean(&means.iter().map(|mean| mean.1).collect::<Vec<_>>())));
        let before = number_after(told, " vs ").unwrap();
        prop_assert!(close(before, case.scale * mean(&means.iter().map(|mean| mean.0).collect::<Vec<_>>())));
    }
    for text in ["in all ", "and all ", "; none of "] {
        if let Some(tasks) = number_after(told, text) {
            prop_assert_eq!(tasks as usize, means.len());
        }
    }
    if told.contains("; none of ") || told.contains("have the baseline's value") {
        prop_assert_eq!(differ, 0);
    }
    if told.contains("the same in all ") {
        let first = means[0].0 - means[0].1;
        prop_assert!(differ == means.len());
        prop_assert!(means.iter().all(|(before, after)| (before - after - first).abs() < 1e-9));
    }
    if told.contains("too few to estimate") {
        let expected = format!("; {differ} of {} ", means.len());
        prop_assert!(told.contains(&expected));
    }
    if told.contains("deterministic") {
        prop_assert!(case.gate.deterministic);
        let steady = |task: &Task| task.0.windows(2).all(|pair| pair[0] == pair[1]);
        prop_assert!(case.baseline.iter().chain(&case.candidate).all(steady));
    }
    // Bounds are the computed ones, and never print like their threshold.
    let found = &verdict.findings;
    if let Some(most) = number_after(told, "it is worse by at most ") {
        prop_assert!(close(most, case.scale * found.upper) && found.upper < case.gate.min_effect);
    }
    if let Some(least) = number_after(told, "it is worse by at least ") {
        prop_assert!(close(least, case.scale * found.lower) && found.lower > case.gate.tolerance);
    }
    Ok(())
}

/// Counts of missing data.
fn missing_data_is_counted(case: &Case, told: &str) -> Result<(), TestCaseError> {
    for (name, tasks) in [("baseline", &case.baseline), ("candidate", &case.candidate)] {
        let sum = |of: fn(&Task) -> u32| tasks.iter().map(of).sum::<u32>();
        let (graded, faults, missing) =
            (sum(|task| task.0.len() as u32), sum(|task| task.1), sum(|task| task.2));
        for (verb, expected) in [("are", missing), ("is", missing)] {
            let noun = if verb == "is" { "attempt" } else { "attempts" };
            if let Some(found) = count_before(told, &format!(" {noun} of the {name} {verb} unfinished")) {
                prop_assert_eq!(found, expected);
                prop_assert_eq!(verb == "is", found == 1);
            }
        }
        if let Some(found) = count_before(told, &format!(" attempts of the {name} ended in faults (limit")) {
            prop_assert_eq!(found, graded + faults);
            let expected = format!("{faults} of {found} attempts of the {name}");
            prop_assert!(told.contains(&expected));
        }
        if told.contains(&format!("all {faults} attempts of the {name} ended in faults")) {
            prop_assert_eq!(graded, 0);
        }
        if told.contains(&format!("no attempt of the {name} finished")) {
            prop_assert_eq!(graded + faults, 0);
        }
    }
    if told.contains("lack a value on one side") {
        let all = case.baseline.len();
        let expected = format!("{} of {all} tasks lack a value on one side", all - case.means().len());
        prop_assert!(told.contains(&expected));
    }
    Ok(())
}

/// I6 of the verdict: the proposed change helps.
fn advice_helps(case: &Case, verdict: &GateVerdict) -> Result<(), TestCaseError> {
    match verdict.decision {
        Decision::Inconclusive(InconclusiveReason::Repeats { more }) => {
            prop_assert!(more >= 1);
            // Where the tasks say it all, repeats of one that always fell and of others that never did change nothing.
            let harms: Vec<f64> = case.means().iter().map(|(before, after)| before - after).collect();
            let is_certain = harms.iter().all(|harm| *harm == 0.0 || harm.abs() == 1.0);
            let fell = harms.iter().filter(|harm| **harm != 0.0).count();
            prop_assert!(
                !(is_certain && (1..5).contains(&fell) && case.harm() > case.gate.min_effect),
                "{}",
                verdict
            );
            prop_assert!(case.kind != Kind::Share, "a task has one value, whatever its repeats: {}", verdict);
        }
        Decision::Inconclusive(InconclusiveReason::Tasks { needed }) => {
            prop_assert!(needed as usize > case.means().len(), "{}", verdict);
        }
        _ => {}
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]
    #[test]
    fn sentences_report_the_numbers_of_the_data(case in any_case()) {
        let Some(paired) = case.paired() else { return Ok(()) };
        let verdict = judge_together(&[(case.gate.clone(), &paired)], 1).unwrap().swap_remove(0);
        let told = verdict.to_string();
        values_are_reported(&case, &verdict, &told)
            .and_then(|()| missing_data_is_counted(&case, &told))
            .and_then(|()| advice_helps(&case, &verdict))
            .map_err(|error| TestCaseError::fail(format!("{told}: {error}")))?;
    }

    #[test]
    fn named_tasks_are_those_that_fell(
        tasks in prop::collection::vec((0u32..=8, 0u32..=8), 1..10),
        tolerance in prop::sample::select(vec![0.0, 0.1]),
    ) {
        let values = |passes: u32| (0..8).map(move |at| f64::from(u8::from(at < passes))).collect::<Vec<f64>>();
        let of = |second: bool| -> Vec<Task> {
            tasks.iter().map(|task| (values(if second { task.1 } else { task.0 }), 0, 0)).collect()
        };
        let paired =
            Paired::new(&side(&of(false)), &side(&of(true)), Kind::PassFail, Completeness::default()).unwrap();
        let verdict = EachTask { tolerance, alpha: 0.01, deterministic: false }.judge(&paired);
        let told = verdict.to_string();
        prop_assert_eq!(number_after(&told, " of "), Some(tasks.len() as f64));
        let named: BTreeMap<&str, f64> = verdict.broke.iter().map(|task| (task.task.as_str(), task.p)).collect();
        for (at, (before, after)) in tasks.iter().enumerate() {
            let text = format!("t{at} ({before} of 8 passed before, {after} of 8 now)");
            let is_named = named.contains_key(format!("t{at}").as_str());
            let prefix = format!("t{at} (");
            prop_assert!(is_named || !told.contains(&prefix), "{}", told);
            prop_assert!(!is_named || *before > *after);
            prop_assert!(!is_named || told.contains(&text) || named.len() > 5, "{}", told);
            // Independent of the other tasks, this is not by chance.
            prop_assert!(is_named || (*before, *after) != (8, 0) || tolerance > 0.0, "{}", told);
        }
    }
}
