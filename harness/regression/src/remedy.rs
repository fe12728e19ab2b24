//! Changes to a gate file that make an inconclusive verdict conclusive.
//!
//! I1. The file accepts every proposed change: `repeats` only where they are allowed and within the budget. I2. Remedies exist for
//! statistical reasons only; incomplete runs are explained with the run.
//!
//! Pure; nothing to cancel.

use clawrl_config::CiPlan;
use clawrl_gates::{Decision, GateVerdict, InconclusiveReason};

/// Repeats of the two sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RepeatsOfSides {
    /// Mean number of attempts per task in the baseline.
    pub(crate) baseline: f64,
    /// Planned attempts per task of the run.
    pub(crate) planned: u32,
}

/// The remedy for a verdict of this gate, as a sentence; `None` if there is none.
pub(crate) fn remedy(verdict: &GateVerdict, gate: &CiPlan, sides: RepeatsOfSides) -> Option<String> {
    let Decision::Inconclusive(lack) = &verdict.decision else { return None };
    let name = &verdict.gate.metric;
    let findings = &verdict.findings;
    match lack {
        InconclusiveReason::Outcomes(_) => None,
        InconclusiveReason::Tasks { .. } => Some("Add tasks to the gate.".to_owned()),
        InconclusiveReason::Repeats { more } | InconclusiveReason::Copies { more } => {
            let repeats = findings.attempts.div_ceil(findings.tasks.max(1) as u64) + more;
            more_repeats(gate, sides, repeats, repeats * findings.tasks as u64)
        }
        InconclusiveReason::Variation if gate.deterministic => Some(format!(
            "`deterministic` applies to the accepted policy, and this is another one: accept a baseline of it, or remove `{name}`."
        )),
        InconclusiveReason::Variation if findings.differ == 0 => Some(format!(
            "If the agent is deterministic, write `deterministic: true` in place of `repeats` and `interim_analyses`; otherwise remove `{name}`."
        )),
        InconclusiveReason::Variation => Some(format!("Add tasks to the gate, or remove `{name}`.")),
    }
}

fn more_repeats(gate: &CiPlan, sides: RepeatsOfSides, repeats: u64, attempts: u64) -> Option<String> {
    let accept = format!("`clawrl ci accept {}`", gate.file.display());
    if repeats <= u64::from(sides.planned) {
        // Either the run was cut short, which is explained elsewhere, or the baseline has too few repeats.
        let lacks = sides.baseline + 0.5 < repeats as f64;
        return lacks.then(|| format!("Accept a baseline with as many repeats as the gate has: {accept}."));
    }
    let instead = if gate.deterministic {
        " in place of `deterministic`, which means one attempt per task"
    } else {
        ""
    };
    let budget = match gate.budget.attempts {
        Some(most) if u64::from(most) < attempts => {
            format!(", raise `budget: attempts` to {attempts} or more")
        }
        _ => String::new(),
    };
    Some(format!(
        "Write `repeats: {repeats}`{instead}{budget}, and accept a baseline with as many: {accept}."
    ))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clawrl_config::{CiBudget, CiCompleteness, CiMetric, MetricKind, Repeats};
    use clawrl_gates::{Attempts, Completeness, Direction, Gate, Kind, Paired, Side};

    use super::*;

    fn gate() -> CiPlan {
        CiPlan {
            gate: "g".to_owned(),
            file: PathBuf::from("gates/g.yaml"),
            suites: Vec::new(),
            policy: String::new(),
            seed: 1,
            repeats: Repeats::Exactly(4),
            metrics: vec![CiMetric { kind: MetricKind::PassRate, tolerance: 0.0, min_effect: 0.1 }],
            must_pass: Vec::new(),
            each_task: None,
            alpha: 0.05,
            power: 0.9,
            interim_analyses: 1,
            deterministic: false,
            completeness: CiCompleteness { max_fault_share: 0.1, max_lost_share: 0.0 },
            budget: CiBudget::default(),
        }
    }

    const SIDES: RepeatsOfSides = RepeatsOfSides { baseline: 4.0, planned: 4 };

    fn verdict(metric: &str, kind: Kind, tasks: &[[&[f64]; 2]]) -> GateVerdict {
        let side = |side: usize| -> Side {
            let of = |task: &[&[f64]; 2]| Attempts::of(task[side].to_vec());
            tasks.iter().enumerate().map(|(at, task)| (format!("t{at}"), of(task))).collect()
        };
        let gate = Gate {
            metric: metric.to_owned(),
            direction: if kind == Kind::Number { Direction::Lower } else { Direction::Higher },
            tolerance: 0.0,
            min_effect: 0.1,
            alpha: 0.05,
            deterministic: false,
            span: None,
        };
        let paired = Paired::new(&side(0), &side(1), kind, Completeness::default()).unwrap();
        gate.judge(&paired, 1).unwrap()
    }

    #[test]
    fn repeats_are_proposed_if_the_file_allows_them() {
        let same: [&[f64]; 2] = [&[1.0; 4], &[1.0; 4]];
        let lacking = verdict("pass_rate", Kind::PassFail, &[same; 5]);
        let Decision::Inconclusive(InconclusiveReason::Repeats { more }) = lacking.decision else {
            panic!("{lacking}")
        };
        let repeats = 4 + more;
        let check = |gate: CiPlan, expected: String| {
            assert_eq!(remedy(&lacking, &gate, SIDES).unwrap(), expected);
        };
        let accept = "and accept a baseline with as many: `clawrl ci accept gates/g.yaml`.";
        check(gate(), format!("Write `repeats: {repeats}`, {accept}"));
        check(
            CiPlan { deterministic: true, ..gate() },
            format!(
                "Write `repeats: {repeats}` in place of `deterministic`, which means one attempt per task, {accept}"
            ),
        );
        let budget = CiBudget { attempts: Some(20), ..CiBudget::default() };
        let attempts = 5 * repeats;
        check(
            CiPlan { budget, ..gate() },
            format!("Write `repeats: {repeats}`, raise `budget: attempts` to {attempts} or more, {accept}"),
        );
    }

    #[test]
    fn a_cut_run_gets_no_more_than_planned_repeats() {
        let same: [&[f64]; 2] = [&[1.0; 4], &[1.0; 4]];
        let lacking = verdict("pass_rate", Kind::PassFail, &[same; 5]);
        let check = |baseline, planned, expected: Option<&str>| {
            let found = remedy(&lacking, &gate(), RepeatsOfSides { baseline, planned });
            assert_eq!(found.as_deref(), expected, "a baseline of {baseline}, {planned} planned");
        };
        // The budget ended a run with enough planned repeats; the baseline has enough.
        check(20.0, 20, None);
        let accept =
            "Accept a baseline with as many repeats as the gate has: `clawrl ci accept gates/g.yaml`.";
        check(4.0, 20, Some(accept));
    }

    #[test]
    fn repeats_are_not_proposed_if_they_do_not_help() {
        // Two of six tasks: no number of repeats gives evidence about other tasks.
        let (kept, fell): ([&[f64]; 2], [&[f64]; 2]) = ([&[1.0; 8], &[1.0; 8]], [&[1.0; 8], &[0.0; 8]]);
        let lacking = verdict("pass_rate", Kind::PassFail, &[fell, fell, kept, kept, kept, kept]);
        assert!(lacking.to_string().contains("More repeats would not decide; about "), "{lacking}");
        assert!(remedy(&lacking, &gate(), SIDES).unwrap().starts_with("Add tasks to the gate."));
        // One estimate per task, for every number of attempts.
        let shares: [&[f64]; 2] = [&[0.9], &[0.9]];
        let lacking = verdict("pass_hat_2", Kind::Share, &[shares; 6]);
        assert!(remedy(&lacking, &gate(), SIDES).unwrap().starts_with("Add tasks to the gate."), "{lacking}");
    }

    #[test]
    fn a_constant_metric_is_deterministic_or_removed() {
        let (same, other): ([&[f64]; 2], [&[f64]; 2]) = ([&[3.0; 8], &[3.0; 8]], [&[3.0; 8], &[2.0; 8]]);
        let check = |tasks: &[[&[f64]; 2]], gate: CiPlan, told: &str, cured: &str| {
            let lacking = verdict("tokens", Kind::Number, tasks);
            assert!(lacking.to_string().contains(told), "{lacking}");
            let found = remedy(&lacking, &gate, SIDES).unwrap();
            assert!(found.contains(cured), "{found}");
        };
        check(&[same; 6], gate(), "none of 6 tasks differs", "write `deterministic: true` in place of");
        check(
            &[other, same, same, same, same, same],
            gate(),
            "1 of 6 tasks differ",
            "Add tasks to the gate, or remove `tokens`.",
        );
        check(&[other; 6], gate(), "the same in all 6 tasks", "remove `tokens`");
        let another = CiPlan { deterministic: true, ..gate() };
        check(&[same; 6], another, "none of 6 tasks differs", "accept a baseline of it, or remove `tokens`");
    }
}
