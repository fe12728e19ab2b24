//! Verdicts on typical outcomes.

use clawrl_gates::{
    Attempts, Completeness, Decision, Direction, Gate, InconclusiveReason, Kind, Paired, Side, judge_together,
};
use proptest::prelude::*;

pub(crate) fn gate() -> Gate {
    Gate {
        metric: "pass rate".to_owned(),
        direction: Direction::Higher,
        tolerance: 0.0,
        min_effect: 0.1,
        alpha: 0.05,
        deterministic: false,
        span: None,
    }
}

/// Tasks with so many passes of so many attempts.
pub(crate) fn side(tasks: &[(u32, u32)]) -> Side {
    let values = |&(passes, attempts): &(u32, u32)| {
        (0..attempts).map(|at| if at < passes { 1.0 } else { 0.0 }).collect()
    };
    let attempts = |task| Attempts::of(values(task));
    tasks.iter().enumerate().map(|(at, task)| (format!("{at:03}"), attempts(task))).collect()
}

pub(crate) fn paired(baseline: &[(u32, u32)], candidate: &[(u32, u32)]) -> Paired {
    Paired::new(&side(baseline), &side(candidate), Kind::PassFail, Completeness::default()).unwrap()
}

#[track_caller]
fn check(gate: &Gate, paired: &Paired, expected: &str) {
    let told = gate.judge(paired, 1).unwrap().to_string();
    assert_eq!(told, expected);
}

#[test]
fn passes_fails_and_neither() {
    check(
        &gate(),
        &paired(&[(4, 4); 20], &[(4, 4); 20]),
        "pass rate: pass. Over 20 tasks the candidate is equal to the baseline (100 % vs 100 %); with 95 % confidence it \
         is worse by at most 3.7 points (min_effect 10 points, p < 0.001).",
    );
    check(
        &gate(),
        &paired(&[(4, 4); 6], &[(3, 4); 6]),
        "pass rate: fail. Over 6 tasks the candidate is 25 points worse than the baseline (75 % vs 100 %); with 95 % confidence \
         it is worse by at least 25 points (tolerance 0 points, p = 0.016).",
    );
    check(
        &gate(),
        &paired(&[(1, 1); 5], &[(1, 1); 5]),
        "pass rate: inconclusive. Over 5 tasks the candidate is equal to the baseline (100 % vs 100 %); it may be worse by 0 \
         to 45.1 points (tolerance 0, min_effect 10 points). About 5 more repeats of each task, on both sides, would \
         decide.",
    );
    check(
        &gate(),
        &paired(&[(4, 4); 4], &[(0, 4); 4]),
        "pass rate: inconclusive. Over 4 tasks the candidate is 100 points worse than the baseline (0 % vs 100 %); the interval \
         has no bounds (min_effect 10 points). More repeats would not decide; about 5 tasks like these would.",
    );
}

#[test]
fn a_deterministic_agent_passes_by_doing_the_same() {
    let deterministic = Gate { deterministic: true, ..gate() };
    let same = paired(&[(1, 1), (0, 1)], &[(1, 1), (0, 1)]);
    let expected = "pass rate: pass. The agent is deterministic, and all 2 tasks have the baseline's value.";
    check(&deterministic, &same, expected);
    assert_ne!(gate().judge(&same, 1).unwrap().decision, Decision::Pass);
    check(
        &deterministic,
        &paired(&[(1, 1), (0, 1)], &[(1, 1), (1, 1)]),
        "pass rate: pass. Over 2 tasks the candidate is 50 points better than the baseline (100 % vs 50 %); the agent is \
         deterministic, so this is certain (tolerance 0 points).",
    );
    check(
        &deterministic,
        &paired(&[(1, 1), (1, 1)], &[(1, 1), (0, 1)]),
        "pass rate: fail. Over 2 tasks the candidate is 50 points worse than the baseline (50 % vs 100 %); the agent is \
         deterministic, so this is certain (tolerance 0 points).",
    );
    let tolerant = Gate { tolerance: 0.5, min_effect: 0.6, ..deterministic };
    let worse = paired(&[(1, 1), (1, 1)], &[(1, 1), (0, 1)]);
    assert_eq!(tolerant.judge(&worse, 1).unwrap().decision, Decision::Pass);
    // Varying outcomes are not deterministic, despite the gate's `deterministic`.
    let varies = paired(&[(1, 2), (2, 2)], &[(1, 2), (2, 2)]);
    assert!(matches!(tolerant.judge(&varies, 1).unwrap().decision, Decision::Inconclusive(_)));
}

#[test]
fn an_agent_that_draws_passes_by_drawing_the_same() {
    let of = |tasks: &[&[f64]]| -> Side {
        let attempts = |values: &&[f64]| Attempts::of(values.to_vec());
        tasks.iter().enumerate().map(|(at, values)| (format!("{at}"), attempts(values))).collect()
    };
    let turns = Gate { metric: "turns".to_owned(), direction: Direction::Lower, min_effect: 0.5, ..gate() };
    let check = |baseline: &[&[f64]], candidate: &[&[f64]], expected: &str| {
        let paired = Paired::new(&of(baseline), &of(candidate), Kind::Number, Completeness::default());
        let told = turns.judge(&paired.unwrap(), 1).unwrap().to_string();
        assert!(told.starts_with(expected), "{told}");
    };
    let same = "turns: pass. Every attempt equals the baseline's, in all 6 tasks.";
    // With 48 equal attempts, at most 6 % may differ, by 4 turns each.
    let long = |pattern: &[f64]| pattern.iter().copied().cycle().take(8).collect::<Vec<f64>>();
    let patterns: [&[f64]; 6] = [&[1.0, 2.0], &[2.0, 1.0], &[3.0, 1.0], &[1.0, 4.0], &[2.0, 4.0], &[5.0]];
    let varied = patterns.map(long);
    let varied: Vec<&[f64]> = varied.iter().map(Vec::as_slice).collect();
    check(&varied, &varied, same);
    let short: Vec<&[f64]> = varied.iter().map(|values| &values[..3]).collect();
    check(&short, &short, "turns: inconclusive.");
    // Four varying tasks do not show how far attempts may differ.
    let fewer = [&varied[..4], &[varied[5]; 2]].concat();
    check(&fewer, &fewer, "turns: inconclusive.");
    let mut other = varied.clone();
    other[2] = varied[0];
    check(&varied, &other, "turns: inconclusive.");
    // A share of passes has a bound of its own.
    let passes = long(&[1.0, 0.0]);
    let passes = [passes.as_slice(); 6];
    check(&passes, &passes, "turns: pass. Over 6 tasks");
}

#[test]
fn missing_outcomes_never_pass() {
    let full = side(&[(4, 4); 20]);
    let spoil = |change: fn(&mut Side)| {
        let mut spoiled = full.clone();
        change(&mut spoiled);
        Paired::new(&full, &spoiled, Kind::PassFail, Completeness::default()).unwrap()
    };
    let check = |paired: Paired, expected: &str| {
        for deterministic in [false, true] {
            let verdict = Gate { deterministic, ..gate() }.judge(&paired, 1).unwrap();
            assert!(
                matches!(verdict.decision, Decision::Inconclusive(InconclusiveReason::Outcomes(_))),
                "{verdict}"
            );
            assert!(verdict.to_string().contains(expected), "{verdict} says nothing of {expected:?}");
        }
    };
    check(
        spoil(|side| {
            side.remove("003");
        }),
        "1 of 20 tasks lack a value on one side, the first is \"003\"",
    );
    check(
        spoil(|side| side.values_mut().for_each(|task| *task = Attempts::default())),
        "no attempt of the candidate",
    );
    check(
        spoil(|side| {
            side.values_mut().for_each(|task| *task = Attempts { faults: 4, ..Attempts::default() })
        }),
        "all 80 attempts of the candidate ended in faults",
    );
    check(
        spoil(|side| side.values_mut().for_each(|task| task.faults = 1)),
        "20 of 100 attempts of the candidate ended in faults (limit: 10 %)",
    );
    check(
        spoil(|side| side.values_mut().for_each(|task| task.missing = 1)),
        "20 attempts of the candidate are unfinished: the run was cut short",
    );
}

#[test]
fn numbers_that_never_vary_do_not_pass() {
    let of = |value: f64| -> Side {
        let attempts = Attempts::of(vec![value; 3]);
        (0..8).map(|at| (format!("{at}"), attempts.clone())).collect()
    };
    let cost = Gate { metric: "cost".to_owned(), direction: Direction::Lower, min_effect: 2.0, ..gate() };
    let check = |candidate: f64, expected: &str| {
        let paired = Paired::new(&of(5.0), &of(candidate), Kind::Number, Completeness::default()).unwrap();
        let told = cost.judge(&paired, 1).unwrap().to_string();
        assert!(told.starts_with(expected), "{told}");
    };
    check(
        5.0,
        "cost: inconclusive. Over 8 tasks the candidate is equal to the baseline (5 vs 5); none of 8 tasks differs, so",
    );
    check(
        6.0,
        "cost: fail. Over 8 tasks the candidate is 1 worse than the baseline (6 vs 5); with 95 % confidence it is worse by at",
    );
    check(
        4.0,
        "cost: inconclusive. Over 8 tasks the candidate is 1 better than the baseline (4 vs 5); the difference is the same in all 8 tasks, so",
    );
}

/// One attempt in six tasks took one more turn: a known turn limit bounds what else may happen.
#[test]
fn rare_differences_pass_with_span_and_attempts() {
    let side = |last: f64| -> Side {
        let of = |task: usize| if task == 5 { [vec![3.0; 7], vec![last]].concat() } else { vec![3.0; 8] };
        (0..6).map(|task| (format!("{task}"), Attempts::of(of(task)))).collect()
    };
    let turns = Gate { metric: "turns".to_owned(), direction: Direction::Lower, min_effect: 2.0, ..gate() };
    let check = |gate: &Gate, expected: &str| {
        let paired = Paired::new(&side(3.0), &side(4.0), Kind::Number, Completeness::default()).unwrap();
        let told = gate.judge(&paired, 1).unwrap().to_string();
        assert!(told.contains(expected), "{told}");
    };
    check(&turns, "1 of 6 tasks differ, which are too few to estimate the error.");
    check(
        &Gate { span: Some(20.0), ..turns.clone() },
        "turns: pass. Over 6 tasks the candidate is 0.0208 worse than",
    );
    // One more in sixteen of 48 attempts may differ, by 50 turns each.
    check(
        &Gate { span: Some(50.0), ..turns },
        "min_effect 2). About 9 more repeats of each task, on both sides, would decide.",
    );
}

/// Two tasks of six: the mean gives no evidence about other tasks, for every number of repeats.
#[test]
fn useless_repeats_are_not_proposed() {
    let after = [(0, 8), (0, 8), (8, 8), (8, 8), (8, 8), (8, 8)];
    let verdict = gate().judge(&paired(&[(8, 8); 6], &after), 1).unwrap();
    assert!(
        matches!(verdict.decision, Decision::Inconclusive(InconclusiveReason::Tasks { needed: 7.. })),
        "{verdict}"
    );
    // The same with fifty times the attempts.
    let after = [(0, 400), (0, 400), (400, 400), (400, 400), (400, 400), (400, 400)];
    let verdict = gate().judge(&paired(&[(400, 400); 6], &after), 1).unwrap();
    assert!(
        matches!(verdict.decision, Decision::Inconclusive(InconclusiveReason::Tasks { .. })),
        "{verdict}"
    );
}

#[test]
fn gates_share_their_alpha() {
    let worse = paired(&[(4, 4); 5], &[(3, 4); 5]);
    let alone = gate().judge(&worse, 1).unwrap();
    assert_eq!((alone.decision, alone.findings.p_harm), (Decision::Fail, 1.0 / 32.0));
    let together = judge_together(&[(gate(), &worse), (gate(), &worse)], 1).unwrap();
    for verdict in together {
        assert!(matches!(verdict.decision, Decision::Inconclusive(_)), "{verdict}");
        assert_eq!(verdict.findings.p_adjusted, 1.0 / 16.0);
    }
}

#[test]
fn gates_that_are_none() {
    let paired = paired(&[(1, 1)], &[(1, 1)]);
    let check = |gate: Gate, expected: &str| {
        let told = gate.judge(&paired, 1).unwrap_err().to_string();
        assert_eq!(told, expected);
        assert!(judge_together(&[(gate, &paired)], 1).is_err());
    };
    check(
        Gate { min_effect: 0.0, ..gate() },
        "min_effect of \"pass rate\" is 0, but must be above the tolerance",
    );
    check(Gate { alpha: 0.5, ..gate() }, "alpha of \"pass rate\" is 0.5, but must be between 0 and 0.5");
    check(Gate { tolerance: f64::NAN, ..gate() }, "tolerance of \"pass rate\" is NaN, but must be 0 or more");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// I1, I2 and I4 of the verdict, and that the order of tasks says nothing.
    #[test]
    fn decisions_follow_from_bounds(
        tasks in prop::collection::vec((0u32..=4, 0u32..=4), 1..12),
        tolerance in 0.0f64..0.2,
    ) {
        let gate = Gate { tolerance, min_effect: tolerance + 0.1, ..gate() };
        let of = |tasks: &[(u32, u32)]| {
            let baseline: Vec<(u32, u32)> = tasks.iter().map(|task| (task.0, 4)).collect();
            let candidate: Vec<(u32, u32)> = tasks.iter().map(|task| (task.1, 4)).collect();
            gate.judge(&paired(&baseline, &candidate), 1).unwrap()
        };
        let verdict = of(&tasks);
        let found = &verdict.findings;
        prop_assert!((0.0..=1.0).contains(&found.p_harm) && (0.0..=1.0).contains(&found.p_pass));
        prop_assert!(found.lower <= found.harm + 1e-9 && found.harm <= found.upper + 1e-9);
        prop_assert_eq!(verdict.decision == Decision::Fail, found.lower > tolerance + 1e-9);
        if verdict.decision == Decision::Pass {
            prop_assert!(found.upper < gate.min_effect && found.p_pass <= gate.alpha);
        }
        let mut backwards = tasks.clone();
        backwards.reverse();
        prop_assert_eq!(&of(&backwards).decision, &verdict.decision);
        let worse: Vec<(u32, u32)> = tasks.iter().map(|task| (task.0, task.1.saturating_sub(1))).collect();
        prop_assert!(of(&worse).findings.p_harm <= found.p_harm + 1e-9 || tasks.iter().any(|task| task.1 == 0));
    }
}

/// A number of any kind that is 0 or 1 is as uncertain as a pass; and a number that hardly varies shows nothing.
#[test]
fn rare_differences_alone_do_not_pass() {
    let numbers = |values: &[f64]| -> Side {
        let attempts = |value: &f64| Attempts::of(vec![*value]);
        values.iter().enumerate().map(|(at, value)| (format!("{at:03}"), attempts(value))).collect()
    };
    let decision = |kind, baseline: &[f64], candidate: &[f64], gate: &Gate| {
        let paired =
            Paired::new(&numbers(baseline), &numbers(candidate), kind, Completeness::default()).unwrap();
        gate.judge(&paired, 1).unwrap().decision
    };
    // One task that failed before and passes now.
    let mut before = [1.0; 20];
    before[3] = 0.0;
    let gate = Gate { min_effect: 0.05, ..gate() };
    for kind in [Kind::PassFail, Kind::Share, Kind::Number] {
        let found = decision(kind, &before, &[1.0; 20], &gate);
        assert!(matches!(found, Decision::Inconclusive(_)), "{kind:?}: {found:?}");
    }
    let mut turns = [3.0; 20];
    turns[3] = 4.0;
    let of_turns = Gate { direction: Direction::Lower, min_effect: 0.5, ..gate.clone() };
    let found = decision(Kind::Number, &turns, &[3.0; 20], &of_turns);
    assert_eq!(found, Decision::Inconclusive(InconclusiveReason::Variation));
    let known = Gate { deterministic: true, ..of_turns };
    assert_eq!(decision(Kind::Number, &turns, &[3.0; 20], &known), Decision::Pass);
    assert_eq!(decision(Kind::Number, &[3.0; 20], &turns, &known), Decision::Fail);
}

/// Five tasks can fail one gate, and not one of two.
#[test]
fn too_few_tasks_for_several_gates_are_reported() {
    let fell = paired(&[(1, 1); 5], &[(0, 1); 5]);
    let gates = [(gate(), &fell), (Gate { metric: "other".to_owned(), ..gate() }, &fell)];
    assert_eq!(judge_together(&gates[..1], 1).unwrap()[0].decision, Decision::Fail);
    for verdict in judge_together(&gates, 1).unwrap() {
        assert_eq!(verdict.decision, Decision::Inconclusive(InconclusiveReason::Tasks { needed: 6 }));
    }
}
