//! Which tasks of a fixed suite broke: a test of each, and Holm over all of them.
//!
//! The mean over tasks is about what the tasks are a sample of. Of six tasks of which two fell from 8 of 8 to 0 of 8 it can say nothing: whatever
//! the number of repeats, two tasks of six are no proof about other tasks. That these two broke is certain all the same.
//!
//! I1. Where no task passes less often by more than is tolerated, the probability that any is told to have broken is at most alpha: a false alarm
//! at one task is as bad as at any other. I2. Where outcomes are too few, nothing is told. I3. Agents that are known to do the same each time
//! need one attempt: what passed and does not broke. I4. Neither the order of tasks nor that of attempts matters.
//!
//! Units: shares of attempts that pass. Pure; nothing to cancel.
//! Source: [`lower_rate`] for each task, Holm (1979) over tasks. Deviations: none.

use std::fmt;

use clawrl_core::printable_line;
use serde::{Deserialize, Serialize};

use crate::holm::holm;
use crate::outcomes::{Kind, Paired, PairedTask};
use crate::power::TaskRate;
use crate::sentence::{amount_of, counted, rounded};
use crate::two_rates::lower_rate;

/// Tasks that a sentence names.
const NAMED: usize = 5;
/// Characters of a name beyond which it is cut.
const MOST_NAME: usize = 120;

/// What each task of a suite has to keep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EachTask {
    /// How much less often a task may pass and nothing is wrong.
    pub tolerance: f64,
    /// Probability that a task is told to have broken where none did.
    pub alpha: f64,
    /// Whether both agents are known to do the same each time.
    pub deterministic: bool,
}

/// A task that broke.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Broken {
    /// Its name.
    pub task: String,
    /// What the baseline did.
    pub baseline: TaskRate,
    /// What the candidate did.
    pub candidate: TaskRate,
    /// p-value, adjusted for the other tasks; 0 of agents that are known to do the same each time.
    pub p: f64,
}

/// What is said of the tasks of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TasksVerdict {
    /// Tasks that were tested.
    pub tasks: usize,
    /// The level that they share.
    pub alpha: f64,
    /// What was tolerated.
    pub tolerance: f64,
    /// Those that broke, the surest first.
    pub broke: Vec<Broken>,
}

impl EachTask {
    /// Tests each task that has passes and fails of both sides.
    #[must_use]
    pub fn judge(&self, paired: &Paired) -> TasksVerdict {
        let is_whole = paired.kind() == Kind::PassFail && paired.shortfalls().is_empty();
        let tasks: &[PairedTask] = if is_whole { paired.tasks() } else { &[] };
        let rates: Vec<(TaskRate, TaskRate)> =
            tasks.iter().map(|task| (rate(&task.baseline), rate(&task.candidate))).collect();
        let adjusted = holm(&rates.iter().map(|(before, after)| self.p(*before, *after)).collect::<Vec<_>>());
        let told = tasks.iter().zip(&rates).zip(adjusted);
        let mut broke: Vec<Broken> = told
            .filter(|(_, p)| *p <= self.alpha)
            .map(|((task, (baseline, candidate)), p)| Broken {
                task: task.name.clone(),
                baseline: *baseline,
                candidate: *candidate,
                p,
            })
            .collect();
        broke.sort_by(|a, b| a.p.total_cmp(&b.p).then_with(|| a.task.cmp(&b.task)));
        TasksVerdict { tasks: tasks.len(), alpha: self.alpha, tolerance: self.tolerance, broke }
    }

    /// Whether a task by itself, were it the only one, would be told to have broken.
    #[must_use]
    pub fn suspects(&self, paired: &Paired) -> bool {
        let tasks = paired.tasks().iter().filter(|_| paired.kind() == Kind::PassFail);
        tasks.map(|task| self.p(rate(&task.baseline), rate(&task.candidate))).any(|p| p <= self.alpha)
    }

    fn p(&self, before: TaskRate, after: TaskRate) -> f64 {
        let is_known = self.deterministic && before.passes == before.attempts && after.passes == 0;
        if is_known && self.tolerance < 1.0 { 0.0 } else { lower_rate(before, after, self.tolerance) }
    }

    /// The most passes of so many attempts at which a task that passed in as many is told to have broken, whatever became of the other
    /// `tasks`; nothing where even none is not enough.
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
            return write!(f, "pass. Of {}, none is shown to have broken.", counted(*tasks, "task"));
        }
        let named: Vec<String> = broke.iter().take(NAMED).map(ToString::to_string).collect();
        let more = broke.len() - named.len();
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let these = if broke.len() == 1 { "this task" } else { "these tasks" };
        write!(f, "fail. Of {}, {these} broke: {}{more}", counted(*tasks, "task"), named.join("; "))?;
        if *tolerance > 0.0 {
            write!(f, ". {} less often is tolerated", amount_of(Kind::PassFail, *tolerance))?;
        }
        match broke.iter().map(|task| task.p).fold(0.0, f64::max) {
            0.0 => write!(f, ". The agent is deterministic, so that this is certain."),
            _ => write!(
                f,
                ". With {} % confidence, none of this is by chance.",
                rounded(100.0 * (1.0 - alpha))
            ),
        }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { task, baseline: before, candidate: after, .. } = self;
        let task = printable_line(task, MOST_NAME);
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
    fn two_of_six_tasks_that_collapsed_are_named() {
        let after = [(8, 8), (0, 8), (8, 8), (8, 8), (0, 8), (8, 8)];
        let found = judged(RULE, &[(8, 8); 6], &after);
        assert_eq!(
            found.to_string(),
            "each_task: fail. Of 6 tasks, these tasks broke: t1 (8 of 8 passed before, 0 of 8 now); t4 (8 of 8 passed before, 0 of 8 \
             now). With 99 % confidence, none of this is by chance."
        );
        let ps: Vec<f64> = found.broke.iter().map(|task| task.p).collect();
        // The second is adjusted for five, and never below the first.
        assert!((ps[0] - 6.0 * 0.5f64.powi(16)).abs() < 1e-9 && ps[0] == ps[1], "{ps:?}");
    }

    #[test]
    fn what_chance_explains_broke_nothing() {
        let check = |baseline: &[(u32, u32)], candidate: &[(u32, u32)], expected: &str| {
            assert_eq!(judged(RULE, baseline, candidate).to_string(), expected);
        };
        check(&[(8, 8); 6], &[(8, 8); 6], "each_task: pass. Of 6 tasks, none is shown to have broken.");
        check(&[(8, 8); 6], &[(5, 8); 6], "each_task: pass. Of 6 tasks, none is shown to have broken.");
        check(&[(0, 8); 6], &[(8, 8); 6], "each_task: pass. Of 6 tasks, none is shown to have broken.");
        check(&[(1, 1)], &[(0, 1)], "each_task: pass. Of 1 task, none is shown to have broken.");
    }

    #[test]
    fn a_deterministic_agent_needs_one_attempt() {
        let known = EachTask { deterministic: true, ..RULE };
        assert_eq!(
            judged(known, &[(1, 1), (1, 1), (0, 1)], &[(1, 1), (0, 1), (0, 1)]).to_string(),
            "each_task: fail. Of 3 tasks, this task broke: t1 (1 of 1 passed before, 0 of 1 now). The agent is deterministic, so that \
             this is certain."
        );
        assert!(!judged(known, &[(1, 1), (0, 1)], &[(1, 1), (1, 1)]).fails());
        assert!(!judged(EachTask { tolerance: 1.0, ..known }, &[(1, 1)], &[(0, 1)]).fails());
    }

    #[test]
    fn a_drop_that_is_tolerated_breaks_nothing() {
        let half = EachTask { tolerance: 0.5, ..RULE };
        assert!(!judged(half, &[(40, 40)], &[(20, 40)]).fails());
        let found = judged(half, &[(40, 40)], &[(0, 40)]);
        assert!(found.to_string().contains("0 of 40 now). 50 points less often is tolerated."), "{found}");
    }

    #[test]
    fn many_broken_tasks_are_counted() {
        let found = judged(RULE, &[(8, 8); 7], &[(0, 8); 7]).to_string();
        assert!(
            found.contains("Of 7 tasks, these tasks broke: t0 ") && found.contains("; and 2 more. "),
            "{found}"
        );
    }

    #[test]
    fn too_few_outcomes_tell_nothing() {
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
    fn how_far_a_task_has_to_fall() {
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
        /// What `most_passes` promises is told, and I4.
        #[test]
        fn what_is_promised_is_told(attempts in 3u32..12, tasks in 1usize..12, place in any::<prop::sample::Index>()) {
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
