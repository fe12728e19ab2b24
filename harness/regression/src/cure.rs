//! What to change in a gate file so that a verdict is no longer inconclusive.
//!
//! I1. What is named is accepted: `repeats` where the file may have them, within the budget that it has. I2. It is said for what a verdict lacks by
//! numbers; what a run lacks is said with the run.
//!
//! Pure; nothing to cancel.

use clawrl_config::CiPlan;
use clawrl_gates::{Decision, Lack, Verdict};

/// Repeats of the two sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RepeatsOfSides {
    /// Attempts at each task that the baseline has, on average.
    pub(crate) baseline: f64,
    /// Attempts at each task that the run was to have.
    pub(crate) planned: u32,
}

/// A sentence for a verdict of this gate, as its file has it; nothing where it needs none.
pub(crate) fn cure(verdict: &Verdict, gate: &CiPlan, sides: RepeatsOfSides) -> Option<String> {
    let Decision::Inconclusive(lack) = &verdict.decision else { return None };
    let name = &verdict.gate.metric;
    let findings = &verdict.findings;
    match lack {
        Lack::Outcomes(_) => None,
        Lack::Tasks { .. } => Some("Add tasks to the gate.".to_owned()),
        Lack::Repeats { more } | Lack::Copies { more } => {
            let repeats = findings.attempts.div_ceil(findings.tasks.max(1) as u64) + more;
            more_repeats(gate, sides, repeats, repeats * findings.tasks as u64)
        }
        Lack::Variation if gate.deterministic => Some(format!(
            "`deterministic` is the word for the policy that was accepted, and this is another: accept a baseline of it, or leave `{name}` out."
        )),
        Lack::Variation if findings.differ == 0 => Some(format!(
            "If the agent does the same each time, write `deterministic: true` in place of `repeats` and `looks`; otherwise leave `{name}` out."
        )),
        Lack::Variation => Some(format!("Add tasks to the gate, or leave `{name}` out.")),
    }
}

fn more_repeats(gate: &CiPlan, sides: RepeatsOfSides, repeats: u64, attempts: u64) -> Option<String> {
    let accept = format!("`clawrl ci accept {}`", gate.file.display());
    if repeats <= u64::from(sides.planned) {
        // The run was to have as many, and what ended it is told; or it has, and the baseline has not.
        let lacks = sides.baseline + 0.5 < repeats as f64;
        return lacks.then(|| format!("Accept a baseline of as many repeats as the gate has: {accept}."));
    }
    let instead =
        if gate.deterministic { " in place of `deterministic`, which is one attempt a task" } else { "" };
    let budget = match gate.budget.attempts {
        Some(most) if u64::from(most) < attempts => {
            format!(", raise `budget: attempts` to {attempts} or more")
        }
        _ => String::new(),
    };
    Some(format!("Write `repeats: {repeats}`{instead}{budget}, and accept a baseline of as many: {accept}."))
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
            metrics: vec![CiMetric { kind: MetricKind::PassRate, tolerance: 0.0, matters: 0.1 }],
            must_pass: Vec::new(),
            each_task: None,
            alpha: 0.05,
            power: 0.9,
            looks: 1,
            deterministic: false,
            completeness: CiCompleteness { max_fault_share: 0.1, max_lost_share: 0.0 },
            budget: CiBudget::default(),
        }
    }

    const SIDES: RepeatsOfSides = RepeatsOfSides { baseline: 4.0, planned: 4 };

    fn verdict(metric: &str, kind: Kind, tasks: &[[&[f64]; 2]]) -> Verdict {
        let side = |side: usize| -> Side {
            let of = |task: &[&[f64]; 2]| Attempts::of(task[side].to_vec());
            tasks.iter().enumerate().map(|(at, task)| (format!("t{at}"), of(task))).collect()
        };
        let gate = Gate {
            metric: metric.to_owned(),
            direction: if kind == Kind::Number { Direction::Lower } else { Direction::Higher },
            tolerance: 0.0,
            matters: 0.1,
            alpha: 0.05,
            deterministic: false,
            span: None,
        };
        let paired = Paired::new(&side(0), &side(1), kind, Completeness::default()).unwrap();
        gate.judge(&paired, 1).unwrap()
    }

    #[test]
    fn repeats_are_asked_for_where_the_file_takes_them() {
        let same: [&[f64]; 2] = [&[1.0; 4], &[1.0; 4]];
        let lacking = verdict("pass_rate", Kind::PassFail, &[same; 5]);
        let Decision::Inconclusive(Lack::Repeats { more }) = lacking.decision else { panic!("{lacking}") };
        let repeats = 4 + more;
        let check = |gate: CiPlan, expected: String| {
            assert_eq!(cure(&lacking, &gate, SIDES).unwrap(), expected);
        };
        let accept = "and accept a baseline of as many: `clawrl ci accept gates/g.yaml`.";
        check(gate(), format!("Write `repeats: {repeats}`, {accept}"));
        check(
            CiPlan { deterministic: true, ..gate() },
            format!(
                "Write `repeats: {repeats}` in place of `deterministic`, which is one attempt a task, {accept}"
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
    fn a_side_that_was_cut_short_is_not_asked_for_more_than_it_was_to_have() {
        let same: [&[f64]; 2] = [&[1.0; 4], &[1.0; 4]];
        let lacking = verdict("pass_rate", Kind::PassFail, &[same; 5]);
        let check = |baseline, planned, expected: Option<&str>| {
            let found = cure(&lacking, &gate(), RepeatsOfSides { baseline, planned });
            assert_eq!(found.as_deref(), expected, "a baseline of {baseline}, {planned} planned");
        };
        // The budget ended a run that was to have enough, against a baseline that has.
        check(20.0, 20, None);
        let accept = "Accept a baseline of as many repeats as the gate has: `clawrl ci accept gates/g.yaml`.";
        check(4.0, 20, Some(accept));
    }

    #[test]
    fn repeats_are_not_asked_for_where_they_do_not_help() {
        // Two of six tasks: no number of repeats says anything of other tasks.
        let (kept, fell): ([&[f64]; 2], [&[f64]; 2]) = ([&[1.0; 8], &[1.0; 8]], [&[1.0; 8], &[0.0; 8]]);
        let lacking = verdict("pass_rate", Kind::PassFail, &[fell, fell, kept, kept, kept, kept]);
        assert!(lacking.to_string().contains("More repeats would not decide; about "), "{lacking}");
        assert!(cure(&lacking, &gate(), SIDES).unwrap().starts_with("Add tasks to the gate."));
        // One estimate a task, whatever the number of attempts.
        let shares: [&[f64]; 2] = [&[0.9], &[0.9]];
        let lacking = verdict("pass_hat_2", Kind::Share, &[shares; 6]);
        assert!(cure(&lacking, &gate(), SIDES).unwrap().starts_with("Add tasks to the gate."), "{lacking}");
    }

    #[test]
    fn a_number_that_never_varies_is_the_deterministic_agents_or_left_out() {
        let (same, other): ([&[f64]; 2], [&[f64]; 2]) = ([&[3.0; 8], &[3.0; 8]], [&[3.0; 8], &[2.0; 8]]);
        let check = |tasks: &[[&[f64]; 2]], gate: CiPlan, told: &str, cured: &str| {
            let lacking = verdict("tokens", Kind::Number, tasks);
            assert!(lacking.to_string().contains(told), "{lacking}");
            let found = cure(&lacking, &gate, SIDES).unwrap();
            assert!(found.contains(cured), "{found}");
        };
        check(&[same; 6], gate(), "it differs in none of 6 tasks", "write `deterministic: true` in place of");
        check(
            &[other, same, same, same, same, same],
            gate(),
            "it differs in 1 of 6 tasks",
            "Add tasks to the gate, or leave `tokens` out.",
        );
        check(&[other; 6], gate(), "by the same in all 6 tasks", "leave `tokens` out");
        let another = CiPlan { deterministic: true, ..gate() };
        check(&[same; 6], another, "it differs in none", "accept a baseline of it, or leave `tokens` out");
    }
}
