//! The summary of a run: numbers per suite, per template and in total.
//!
//! I1. Faults never count in a denominator (I2 of the architecture): rates and means are over finished episodes,
//!     and faults are listed separately.
//! I2. A number without data is `None`, never 0.
//! I3. slots = finished + faulted + open, in every row; rows of families add up to their suite's, suites to the
//!     total.
//!
//! Units: rates and scores in [0, 1], times in microseconds of wall clock, `wall_ms` in milliseconds.
//!
//! Source: the interval of a pass rate is that of `rate.rs`, clustered by task, as in reports.

use std::collections::BTreeMap;

use clawrl_core::{Boundary, RunId, RunPlan, SlotSpec, UsageTotal};
use serde::{Deserialize, Serialize};

use crate::rate::wilson;
use crate::{
    AttemptSummary, Clusters, Ending, JournalState, LostTurns, PhaseMicros, Rate, RunEnd, SlotState, Tries,
    rate,
};

/// Figures of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// Name of the acting policy.
    pub policy: String,
    /// End of the run; `None` while it runs, or if its process died.
    pub end: Option<RunEnd>,
    /// When it began, milliseconds since 1970.
    pub started_ms: Option<u64>,
    /// Time under way, pauses between sessions left out.
    pub wall_ms: u64,
    /// Number of resumes.
    pub resumes: u32,
    /// Everything.
    pub total: Counts,
    /// Per suite, in the plan's order.
    pub suites: Vec<SuiteSummary>,
    /// Faulted attempts by kind, the most frequent first.
    pub faults: Vec<FaultCount>,
    /// Times of finished episodes; `None` without any.
    pub phases: Option<Phases>,
}

/// Figures of one suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuiteSummary {
    /// Name of the suite.
    pub suite: String,
    /// All of it.
    pub total: Counts,
    /// Per family, by name.
    pub families: BTreeMap<String, Counts>,
}

/// Figures of some slots.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Number of slots.
    pub slots: u32,
    /// Slots that are closed: finished and faulted.
    pub closed: u32,
    /// Slots closed by an episode that was graded. The denominator of everything below.
    pub finished: u32,
    /// Episodes that passed every check.
    pub passed: u32,
    /// `passed / finished`, with its interval.
    pub pass_rate: Option<PassRate>,
    /// Mean score of finished episodes.
    pub mean_score: Option<f64>,
    /// Mean reward of finished episodes.
    pub mean_reward: Option<f64>,
    /// Slots closed by a fault.
    pub faulted: u32,
    /// Slots that are not closed.
    pub open: u32,
    /// Attempts that a fault ended, those that were retried included.
    pub faulted_attempts: u32,
    /// Attempts that we gave up.
    pub cancelled_attempts: u32,
    /// Attempts whose process died.
    pub lost_attempts: u32,
    /// Attempts that finished and were put aside when a learner went back to a checkpoint.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub superseded_attempts: u32,
    /// Attempts beyond the first of each slot.
    pub retries: u32,
    /// Turns of all attempts that resolved.
    pub turns: u64,
    /// Turns among them that did nothing.
    #[serde(default, skip_serializing_if = "LostTurns::is_none")]
    pub lost_turns: LostTurns,
    /// Usage of the replies of those turns, from policies that report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<UsageTotal>,
    /// Usage of judges for the grades.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge_usage: Option<UsageTotal>,
}

/// A pass rate with its 95 % interval, clustered by task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PassRate {
    /// The rate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Number of faults of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultCount {
    /// Boundary of the fault.
    pub boundary: Boundary,
    /// Code of the fault.
    pub code: String,
    /// Attempts it ended.
    pub attempts: u32,
    /// Slots it closed.
    pub slots: u32,
}

/// Percentiles (nearest rank) of one phase over finished episodes, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhasePercentiles {
    /// Half take no longer.
    pub p50_us: u64,
    /// 95 % take no longer.
    pub p95_us: u64,
}

/// Time of finished episodes by phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// From dispatch to the grant of the lease.
    pub lease: PhasePercentiles,
    /// Reset.
    pub setup: PhasePercentiles,
    /// Sum over turns: waiting for the policy.
    pub policy: PhasePercentiles,
    /// Sum over turns: in the environment.
    pub step: PhasePercentiles,
    /// Grading.
    pub grade: PhasePercentiles,
    /// Closing.
    pub close: PhasePercentiles,
}

impl PassRate {
    /// The rate of these tasks and its interval; `None` out of nothing.
    #[must_use]
    pub fn of(tasks: &[Tries]) -> Option<Self> {
        rate(tasks).as_ref().map(Self::from)
    }

    /// The rate of tasks with one attempt each; `None` without attempts.
    #[must_use]
    pub fn of_single_tries(passed: u64, tried: u64) -> Option<Self> {
        let value = (tried > 0).then(|| passed.min(tried) as f64 / tried as f64)?;
        let (low, high) = wilson(value, tried as f64);
        Some(Self { value, low, high })
    }
}

impl From<&Rate> for PassRate {
    fn from(rate: &Rate) -> Self {
        Self { value: rate.value, low: rate.low, high: rate.high }
    }
}

impl RunSummary {
    /// Summary of a plan with its journal.
    #[must_use]
    pub fn new(plan: &RunPlan, state: &JournalState) -> Self {
        let slots: Vec<&SlotState> = state.slots().iter().collect();
        Self {
            end: state.finished().map(|finished| finished.end),
            started_ms: Some(state.started_ms()),
            wall_ms: state.wall_ms(),
            resumes: state.resumes(),
            ..Self::of_slots(plan, &slots)
        }
    }

    /// Summary of a run whose journal has no first line.
    #[must_use]
    pub(crate) fn unopened(plan: &RunPlan) -> Self {
        let untouched = SlotState::default();
        Self::of_slots(plan, &vec![&untouched; plan.slots.len()])
    }

    fn of_slots(plan: &RunPlan, slots: &[&SlotState]) -> Self {
        let mut total = Tally::default();
        let mut suites: Vec<(Tally, BTreeMap<String, Tally>)> = vec![Default::default(); plan.suites.len()];
        for (spec, slot) in plan.slots.iter().zip(slots) {
            let add = |tally: &mut Tally| tally.add(spec.task.0, slot);
            add(&mut total);
            if let Some((suite, families)) = suites.get_mut(spec.suite as usize) {
                add(suite);
                add(families.entry(family(plan, spec)).or_default());
            }
        }
        let named = plan.suites.iter().zip(suites).map(|(suite, (all, families))| SuiteSummary {
            suite: suite.name.clone(),
            total: all.counts(),
            families: families.into_iter().map(|(name, tally)| (name, tally.counts())).collect(),
        });
        let attempts = || slots.iter().flat_map(|slot| &slot.attempts);
        Self {
            run: plan.run.clone(),
            policy: policy_word(plan),
            end: None,
            started_ms: None,
            wall_ms: 0,
            resumes: 0,
            total: total.counts(),
            suites: named.collect(),
            faults: fault_counts(attempts()),
            phases: phases(attempts()),
        }
    }
}

fn family(plan: &RunPlan, spec: &SlotSpec) -> String {
    plan.tasks.get(spec.task.0 as usize).map_or_else(String::new, |task| task.family.clone())
}

/// The policy's name in the plan: `oracle`, `demonstrator`, ...
fn policy_word(plan: &RunPlan) -> String {
    match serde_json::to_value(&plan.policy) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(serde_json::Value::Object(map)) => map.keys().next().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

/// Sums on the way to [`Counts`].
#[derive(Debug, Clone, Default)]
struct Tally {
    counts: Counts,
    clusters: Clusters,
    score_sum: f64,
    reward_sum: f64,
}

impl Tally {
    fn add(&mut self, task: u32, slot: &SlotState) {
        let counts = &mut self.counts;
        counts.slots += 1;
        match slot.closing().map(|closing| &closing.ending) {
            Some(Ending::Finished { score, passed, reward, .. }) => {
                counts.finished += 1;
                counts.passed += u32::from(*passed);
                self.score_sum += score;
                self.reward_sum += reward;
                self.clusters.add(task, *passed);
            }
            Some(Ending::Faulted { .. }) => counts.faulted += 1,
            Some(Ending::Cancelled(_)) | None => counts.open += 1,
        }
        for attempt in &slot.attempts {
            counts.faulted_attempts += u32::from(attempt.faulted());
            counts.cancelled_attempts += u32::from(matches!(attempt.ending, Ending::Cancelled(_)));
            counts.superseded_attempts += u32::from(attempt.superseded());
            counts.turns += u64::from(attempt.turns);
            counts.lost_turns.add(attempt.lost_turns);
            if let Some(usage) = &attempt.usage {
                counts.usage.get_or_insert_default().merge(usage);
            }
            if let Some(usage) = &attempt.judge_usage {
                counts.judge_usage.get_or_insert_default().merge(usage);
            }
        }
        counts.lost_attempts += slot.lost();
        counts.retries += slot.next_number.saturating_sub(1);
    }

    fn counts(self) -> Counts {
        let mut counts = self.counts;
        counts.closed = counts.finished + counts.faulted;
        let mean = |sum: f64| (counts.finished > 0).then(|| sum / f64::from(counts.finished));
        counts.mean_score = mean(self.score_sum);
        counts.mean_reward = mean(self.reward_sum);
        counts.pass_rate = PassRate::of(&self.clusters.tries().collect::<Vec<_>>());
        counts
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

fn fault_counts<'a>(attempts: impl Iterator<Item = &'a AttemptSummary>) -> Vec<FaultCount> {
    let mut by_kind: BTreeMap<(Boundary, &str), (u32, u32)> = BTreeMap::new();
    for attempt in attempts {
        if let Ending::Faulted { boundary, code, .. } = &attempt.ending {
            let (attempts, slots) = by_kind.entry((*boundary, code)).or_default();
            *attempts += 1;
            *slots += u32::from(attempt.closes_slot);
        }
    }
    let counts = by_kind.into_iter().map(|((boundary, code), (attempts, slots))| FaultCount {
        boundary,
        code: code.to_owned(),
        attempts,
        slots,
    });
    let mut counts: Vec<FaultCount> = counts.collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.attempts));
    counts
}

fn phases<'a>(attempts: impl Iterator<Item = &'a AttemptSummary>) -> Option<Phases> {
    let finished =
        attempts.filter(|attempt| attempt.closes_slot && matches!(attempt.ending, Ending::Finished { .. }));
    let times: Vec<PhaseMicros> = finished.map(|attempt| attempt.times_us).collect();
    if times.is_empty() {
        return None;
    }
    let of = |phase: fn(&PhaseMicros) -> u64| {
        let mut sorted: Vec<u64> = times.iter().map(phase).collect();
        sorted.sort_unstable();
        let rank = |percent: usize| sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1];
        PhasePercentiles { p50_us: rank(50), p95_us: rank(95) }
    };
    Some(Phases {
        lease: of(|times| times.lease),
        setup: of(|times| times.setup),
        policy: of(|times| times.policy),
        step: of(|times| times.step),
        grade: of(|times| times.grade),
        close: of(|times| times.close),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values: R 4.3, `prop.test(x, n, correct = FALSE)$conf.int`.
    #[test]
    fn wilson_intervals_where_each_task_has_one_episode() {
        let check = |passed: usize, finished: usize, low: f64, high: f64| {
            let mut tasks = vec![Tries { passed: 0, episodes: 1 }; finished];
            tasks[..passed].fill(Tries { passed: 1, episodes: 1 });
            let rate = PassRate::of(&tasks).unwrap();
            assert!(
                (rate.low - low).abs() < 5e-5 && (rate.high - high).abs() < 5e-5,
                "{passed}/{finished}: {rate:?}"
            );
        };
        check(5, 10, 0.2366, 0.7634);
        check(0, 10, 0.0, 0.2775);
        check(10, 10, 0.7225, 1.0);
        check(81, 263, 0.2553, 0.3662);
    }

    #[test]
    fn i2_nothing_is_not_zero() {
        assert_eq!(PassRate::of(&[]), None);
        assert_eq!(Tally::default().counts().mean_reward, None);
        assert_eq!(phases(std::iter::empty()), None);
    }
}
