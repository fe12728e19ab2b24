//! Which tasks of a fixed suite broke: one test per task, adjusted by Holm.
//!
//! The mean over tasks is a statement about the population that the tasks are sampled from. If two of six tasks fall from 8 of 8 to
//! 0 of 8, the test of the mean is inconclusive for every number of repeats: two tasks of six prove nothing about other tasks. Still,
//! it is certain that these two broke.
//!
//! I1. If no task's pass rate falls by more than the tolerance, the probability that any task is reported as broken is at most alpha.
//! I2. If outcomes are missing, no task is tested. I3. Deterministic agents need one attempt: a task that passed before and fails now
//! broke. I4. Neither the order of tasks nor that of attempts matters.
//!
//! Units: shares of attempts that pass. Pure; nothing to cancel.
//! Source: [`lower_rate`] for each task, Holm (1979) over tasks. Deviations: none.

use std::fmt;

use clawrl_core::printable_line;
use serde::{Deserialize, Serialize};

use crate::holm::holm;
use crate::outcomes::{Kind, Paired, PairedTask};
use crate::power::TaskRate;
use crate::summary_text::{amount_of, counted, rounded};
use crate::two_rates::lower_rate;

/// Maximum tasks named in a sentence.
const NAMED: usize = 5;
/// Maximum characters of a name; longer names are cut.
const MAX_NAME: usize = 120;

/// The test of single tasks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EachTask {
    /// Tolerated drop of a task's pass rate, as a share.
    pub tolerance: f64,
    /// Probability of reporting any broken task if none broke.
    pub alpha: f64,
    /// Whether both agents are known to be deterministic.
    pub deterministic: bool,
}

/// A task that broke.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BrokenTask {
    /// Name of the task.
    pub task: String,
    /// Passes and attempts of the baseline.
    pub baseline: TaskRate,
    /// Passes and attempts of the candidate.
    pub candidate: TaskRate,
    /// p-value adjusted for the other tasks; 0 for deterministic agents.
    pub p: f64,
}

/// The verdict on the single tasks of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TasksVerdict {
    /// Number of tested tasks.
    pub tasks: usize,
    /// Level shared by all tasks.
    pub alpha: f64,
    /// Tolerated drop of the pass rate, as a share.
    pub tolerance: f64,
    /// Broken tasks, smallest p-value first.
    pub broke: Vec<BrokenTask>,
}

impl EachTask {
    /// Tests each task; tests none if the metric is not pass/fail or outcomes are missing.
    #[must_use]
    pub fn judge(&self, paired: &Paired) -> TasksVerdict {
        let is_whole = paired.kind() == Kind::PassFail && paired.missing_data().is_empty();
        let tasks: &[PairedTask] = if is_whole { paired.tasks() } else { &[] };
        let rates: Vec<(TaskRate, TaskRate)> =
            tasks.iter().map(|task| (rate(&task.baseline), rate(&task.candidate))).collect();
        let adjusted = holm(&rates.iter().map(|(before, after)| self.p(*before, *after)).collect::<Vec<_>>());
        let told = tasks.iter().zip(&rates).zip(adjusted);
        let mut broke: Vec<BrokenTask> = told
            .filter(|(_, p)| *p <= self.alpha)
            .map(|((task, (baseline, candidate)), p)| BrokenTask {
                task: task.name.clone(),
                baseline: *baseline,
                candidate: *candidate,
                p,
            })
            .collect();
        broke.sort_by(|a, b| a.p.total_cmp(&b.p).then_with(|| a.task.cmp(&b.task)));
        TasksVerdict { tasks: tasks.len(), alpha: self.alpha, tolerance: self.tolerance, broke }
    }

    /// Whether any task would be reported as broken without the adjustment for the other tasks.
    #[must_use]
    pub fn suspects(&self, paired: &Paired) -> bool {
        let tasks = paired.tasks().iter().filter(|_| paired.kind() == Kind::PassFail);
        tasks.map(|task| self.p(rate(&task.baseline), rate(&task.candidate))).any(|p| p <= self.alpha)
    }

    fn p(&self, before: TaskRate, after: TaskRate) -> f64 {
        let is_known = self.deterministic && before.passes == before.attempts && after.passes == 0;
        if is_known && self.tolerance < 1.0 { 0.0 } else { lower_rate(before, after, self.tolerance) }
    }

    /// The largest number of passes, of `attempts`, at which a task that passed every time before is reported as broken for all
    /// results of the other `tasks`. `None` if not even 0 passes suffice.
    #[must_use]
    pub fn most_passes(&self, attempts: u32, tasks: usize) -> Option<u32> {
        let before = TaskRate { passes: attempts, attempts };
        let is_told = |passes: &u32| {
            let after = TaskRate { passes: *passes, attempts };
            self.p(before, after) * tasks.max(1) as f64 <= self.alpha
        };
        (0..attempts).take_while(is_told).last()
    }
}

fn rate(values: &[f64]) -> TaskRate {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let passes = values.iter().filter(|value| **value > 0.0).count();
    TaskRate { passes: count(passes), attempts: count(values.len()) }
}

impl TasksVerdict {
    /// Whether a task broke.
    #[must_use]
    pub fn fails(&self) -> bool {
        !self.broke.is_empty()
    }
}

impl fmt::Display for TasksVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tasks, alpha, tolerance, broke } = self;
        f.write_str("each_task: ")?;
        if *tasks == 0 {
            return f.write_str("inconclusive: no task has enough outcomes to be tested.");
        }
        if broke.is_empty() {
            return write!(f, "pass. None of {} broke significantly.", counted(*tasks, "task"));
        }
        let named: Vec<String> = broke.iter().take(NAMED).map(ToString::to_string).collect();
        let more = broke.len() - named.len();
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let (count, all) = (broke.len(), counted(*tasks, "task"));
        write!(f, "fail. {count} of {all} broke: {}{more}", named.join("; "))?;
        if *tolerance > 0.0 {
            write!(f, " (tolerance {})", amount_of(Kind::PassFail, *tolerance))?;
        }
        match broke.iter().map(|task| task.p).fold(0.0, f64::max) {
            0.0 => write!(f, ". The agent is deterministic, so this is certain."),
            _ => write!(
                f,
                ". At {} % confidence, none of this is due to chance.",
                rounded(100.0 * (1.0 - alpha))
            ),
        }
    }
}

impl fmt::Display for BrokenTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, baseline: before, candidate: after, .. } = self;
        let task = printable_line(task, MAX_NAME);
        write!(
            f,
            "{task} ({} of {} passed before, {} of {} now)",
            before.passes, before.attempts, after.passes, after.attempts
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::outcomes::{Attempts, Completeness, Side};

    const RULE: EachTask = EachTask { tolerance: 0.0, alpha: 0.01, deterministic: false };

    fn side(tasks: &[(u32, u32)]) -> Side {
        let values =
            |(passes, attempts): (u32, u32)| (0..attempts).map(move |at| f64::from(u8::from(at < passes)));
        let attempts = |task| Attempts::of(values(task).collect());
        tasks.iter().enumerate().map(|(at, task)| (format!("t{at}"), attempts(*task))).collect()
    }

    fn judged(rule: EachTask, baseline: &[(u32, u32)], candidate: &[(u32, u32)]) -> TasksVerdict {
        let rules = Completeness::default();
        rule.judge(&Paired::new(&side(baseline), &side(candidate), Kind::PassFail, rules).unwrap())
    }

    #[test]
    fn collapsed_tasks_are_named() {
        let after = [(8, 8), (0, 8), (8, 8), (8, 8), (0, 8), (8, 8)];
        let found = judged(RULE, &[(8, 8); 6], &after);
        assert_eq!(
            found.to_string(),
            "each_task: fail. 2 of 6 tasks broke: t1 (8 of 8 passed before, 0 of 8 now); t4 (8 of 8 passed before, 0 of 8 \
             now). At 99 % confidence, none of this is due to chance."
        );
        let ps: Vec<f64> = found.broke.iter().map(|task| task.p).collect();
        // The second is adjusted for five, and never below the first.
        assert!((ps[0] - 6.0 * 0.5f64.powi(16)).abs() < 1e-9 && ps[0] == ps[1], "{ps:?}");
    }

    #[test]
    fn drops_explained_by_chance_break_nothing() {
        let check = |baseline: &[(u32, u32)], candidate: &[(u32, u32)], expected: &str| {
            assert_eq!(judged(RULE, baseline, candidate).to_string(), expected);
        };
        check(&[(8, 8); 6], &[(8, 8); 6], "each_task: pass. None of 6 tasks broke significantly.");
        check(&[(8, 8); 6], &[(5, 8); 6], "each_task: pass. None of 6 tasks broke significantly.");
        check(&[(0, 8); 6], &[(8, 8); 6], "each_task: pass. None of 6 tasks broke significantly.");
        check(&[(1, 1)], &[(0, 1)], "each_task: pass. None of 1 task broke significantly.");
    }

    #[test]
    fn a_deterministic_agent_needs_one_attempt() {
        let known = EachTask { deterministic: true, ..RULE };
        assert_eq!(
            judged(known, &[(1, 1), (1, 1), (0, 1)], &[(1, 1), (0, 1), (0, 1)]).to_string(),
            "each_task: fail. 1 of 3 tasks broke: t1 (1 of 1 passed before, 0 of 1 now). The agent is deterministic, so \
             this is certain."
        );
        assert!(!judged(known, &[(1, 1), (0, 1)], &[(1, 1), (1, 1)]).fails());
        assert!(!judged(EachTask { tolerance: 1.0, ..known }, &[(1, 1)], &[(0, 1)]).fails());
    }

    #[test]
    fn a_tolerated_drop_breaks_nothing() {
        let half = EachTask { tolerance: 0.5, ..RULE };
        assert!(!judged(half, &[(40, 40)], &[(20, 40)]).fails());
        let found = judged(half, &[(40, 40)], &[(0, 40)]);
        assert!(found.to_string().contains("0 of 40 now) (tolerance 50 points)."), "{found}");
    }

    #[test]
    fn many_broken_tasks_are_counted() {
        let found = judged(RULE, &[(8, 8); 7], &[(0, 8); 7]).to_string();
        assert!(
            found.contains("fail. 7 of 7 tasks broke: t0 ") && found.contains("; and 2 more. "),
            "{found}"
        );
    }

    #[test]
    fn missing_outcomes_give_no_verdict() {
        let mut after = side(&[(0, 8); 2]);
        after.get_mut("t0").unwrap().missing = 1;
        let rules = Completeness::default();
        let paired = Paired::new(&side(&[(8, 8); 2]), &after, Kind::PassFail, rules).unwrap();
        assert_eq!(
            RULE.judge(&paired),
            TasksVerdict { tasks: 0, alpha: 0.01, tolerance: 0.0, broke: Vec::new() }
        );
    }

    #[test]
    fn most_passes_that_still_count_as_broken() {
        let check = |attempts, tasks, expected| {
            assert_eq!(RULE.most_passes(attempts, tasks), expected, "{attempts} attempts at {tasks} tasks");
        };
        check(8, 1, Some(3));
        check(8, 6, Some(2));
        check(8, 24, Some(1));
        check(8, 100, Some(0));
        check(4, 2, Some(0));
        check(4, 6, None);
        check(1, 1, None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// `most_passes` is reported as broken, and I4.
        #[test]
        fn most_passes_is_reported_as_broken(attempts in 3u32..12, tasks in 1usize..12, place in any::<prop::sample::Index>()) {
            let place = place.index(tasks);
            if let Some(most) = RULE.most_passes(attempts, tasks) {
                let mut after = vec![(attempts, attempts); tasks];
                after[place] = (most, attempts);
                let found = judged(RULE, &vec![(attempts, attempts); tasks], &after);
                prop_assert_eq!(found.broke.len(), 1);
                prop_assert_eq!(&found.broke[0].task, &format!("t{place}"));
            }
        }
    }
}
