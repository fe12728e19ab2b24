//! Simulated pipelines of which the truth is known: how often verdicts are wrong, and how often they are there at all.
//!
//! A suite has 24 tasks of unequal difficulty; half of them are flaky, a quarter nearly always passes, a quarter seldom.

use clawrl_core::SplitMix64;
use clawrl_gates::{
    Decision, Direction, Gate, InterimAnalyses, InterimDecision, InterimPlan, Promise, Spending, Spread,
    TaskRate, clopper_pearson, plan,
};

use crate::verdicts::{gate, paired};

const PIPELINES: u64 = 300;
const TASKS: usize = 24;
/// A few steady tasks suffice: all subsets are evaluated quickly, and more pipelines give smaller errors.
const STEADY: (u64, usize) = (3_000, 12);

fn rates(random: &mut SplitMix64) -> Vec<f64> {
    let rate = |task: usize, random: &mut SplitMix64| match task % 4 {
        0 => 0.95 + 0.05 * random.unit_f64(),
        1 => 0.1 * random.unit_f64(),
        _ => 0.2 + 0.7 * random.unit_f64(),
    };
    (0..TASKS).map(|task| rate(task, random)).collect()
}

fn run(rates: &[f64], repeats: u32, random: &mut SplitMix64) -> Vec<(u32, u32)> {
    let passes =
        |rate: f64, random: &mut SplitMix64| (0..repeats).filter(|_| random.unit_f64() < rate).count() as u32;
    rates.iter().map(|rate| (passes(*rate, random), repeats)).collect()
}

/// Numbers of failed and passed pipelines whose candidate has this drop.
fn verdicts(gate: &Gate, drop: f64, repeats: u32) -> (u64, u64) {
    let (mut failed, mut passed) = (0, 0);
    for pipeline in 0..PIPELINES {
        let mut random = SplitMix64::new(pipeline);
        let before = rates(&mut random);
        let mean = before.iter().sum::<f64>() / TASKS as f64;
        let after: Vec<f64> = before.iter().map(|rate| rate * (1.0 - drop / mean)).collect();
        let paired = paired(&run(&before, repeats, &mut random), &run(&after, repeats, &mut random));
        match gate.judge(&paired, pipeline).unwrap().decision {
            Decision::Fail => failed += 1,
            Decision::Pass => passed += 1,
            Decision::Same | Decision::Copied | Decision::Inconclusive(_) => {}
        }
    }
    (failed, passed)
}

/// Number of passed pipelines of steady tasks that always passed before and now fail at this rate.
fn passes_of_steady_tasks(failures: f64, repeats: u32) -> u64 {
    // Nearly all is tolerated, so that no fail hides a pass.
    let gate = Gate { tolerance: 0.09, ..gate() };
    let passed = |pipeline: &u64| {
        let mut random = SplitMix64::new(*pipeline);
        let candidate = run(&[1.0 - failures; STEADY.1], repeats, &mut random);
        let paired = paired(&[(repeats, repeats); STEADY.1], &candidate);
        gate.judge(&paired, *pipeline).unwrap().decision == Decision::Pass
    };
    (0..STEADY.0).filter(passed).count() as u64
}

#[test]
fn steady_tasks_that_began_to_fail_seldom_pass() {
    for repeats in [2, 4, 8, 20] {
        at_most_alpha(
            &format!("passes of {repeats} repeats"),
            STEADY.0,
            passes_of_steady_tasks(0.1, repeats),
        );
    }
    let passed = passes_of_steady_tasks(0.01, 20);
    assert!(passed * 10 > STEADY.0 * 9, "{passed} passed");
}

/// Whether a rate of 5 % may be the truth behind so many, with a probability of 0.1 % of a mistake.
#[track_caller]
fn at_most_alpha(what: &str, pipelines: u64, count: u64) {
    let (low, _) = clopper_pearson(count, pipelines, 0.998);
    assert!(low <= 0.05, "{what}: {count} of {pipelines}");
}

#[test]
fn an_unchanged_agent_seldom_fails() {
    for repeats in [1, 2, 5] {
        let (failed, _) = verdicts(&gate(), 0.0, repeats);
        at_most_alpha(&format!("alarms of {repeats} repeats"), PIPELINES, failed);
    }
}

#[test]
fn tolerated_drops_pass_and_large_drops_fail() {
    let tolerant = Gate { tolerance: 0.05, min_effect: 0.1, ..gate() };
    let (failed, _) = verdicts(&tolerant, 0.05, 5);
    at_most_alpha("alarms at the tolerance", PIPELINES, failed);
    for repeats in [1, 5, 20] {
        let (_, passed) = verdicts(&tolerant, 0.1, repeats);
        at_most_alpha(&format!("passes of {repeats} repeats at what matters"), PIPELINES, passed);
    }
}

#[test]
fn planned_drop_is_detected_in_simulation() {
    let mut random = SplitMix64::new(1);
    let baseline = run(&rates(&mut random), 20, &mut random);
    let known: Vec<TaskRate> =
        baseline.into_iter().map(|(passes, attempts)| TaskRate { passes, attempts }).collect();
    let promise = Promise { drop: 0.1, tolerance: 0.0, alpha: 0.05, power: 0.9, uneven: 0.0 };
    let repeats = plan(&known, promise).unwrap();
    let (failed, _) = verdicts(&gate(), 0.1, repeats);
    // At least 90 % may be the truth.
    let (_, high) = clopper_pearson(failed, PIPELINES, 0.998);
    assert!(high >= 0.9, "{failed} of {PIPELINES} drops were seen with {repeats} repeats");
    let (_, passed) = verdicts(&gate(), 0.0, repeats);
    assert!(passed * 10 >= PIPELINES * 8, "{passed} of {PIPELINES} unchanged agents passed");
}

/// Pipelines with four analyses: number stopped for harm, and share of attempts used.
fn looked_at(plan: &InterimPlan, drop: f64, repeats: u32) -> (u64, f64) {
    let (mut harmed, mut taken) = (0, 0.0);
    for pipeline in 0..PIPELINES {
        let mut random = SplitMix64::new(pipeline);
        let before = rates(&mut random);
        let mean = before.iter().sum::<f64>() / TASKS as f64;
        let after: Vec<f64> = before.iter().map(|rate| rate * (1.0 - drop / mean)).collect();
        let (mut baseline, mut candidate) = (vec![(0, 0); TASKS], vec![(0, 0); TASKS]);
        for (look, boundary) in plan.boundaries.iter().enumerate() {
            for (side, rates) in [(&mut baseline, &before), (&mut candidate, &after)] {
                let more = run(rates, repeats / plan.boundaries.len() as u32, &mut random);
                side.iter_mut().zip(more).for_each(|(all, more)| *all = (all.0 + more.0, all.1 + more.1));
            }
            let z = Spread::of(&paired(&baseline, &candidate), Direction::Higher).z(0.0).unwrap();
            let says = plan.says(look, z);
            if says != InterimDecision::Continue {
                harmed += u64::from(says == InterimDecision::StopForHarm);
                taken += boundary.fraction;
                break;
            }
        }
    }
    (harmed, taken / PIPELINES as f64)
}

#[test]
fn looks_save_attempts_and_raise_no_more_alarms() {
    let spending = Spending::ObrienFleming;
    let looks = InterimAnalyses {
        fractions: vec![0.25, 0.5, 0.75, 1.0],
        alpha: 0.05,
        spending,
        futility: Some((0.1, spending)),
    };
    let plan = looks.plan().unwrap();
    // 2 * 0.16 * (1.645 + 1.282)^2 / 0.1^2 / 24 tasks, times the inflation, in four parts.
    let repeats = ((11.5 * plan.inflation / 4.0).ceil() * 4.0) as u32;
    let (alarms, taken) = looked_at(&plan, 0.0, repeats);
    at_most_alpha("alarms of four looks", PIPELINES, alarms);
    assert!(taken < 0.8, "without harm {taken} of the attempts");
    let (seen, _) = looked_at(&plan, 0.1, repeats);
    let (_, high) = clopper_pearson(seen, PIPELINES, 0.998);
    assert!(high >= 0.9, "{seen} of {PIPELINES} drops were seen");
    let (_, taken) = looked_at(&plan, 0.2, repeats);
    assert!(taken < 0.7, "at twice the drop {taken} of the attempts");
}
