//! Outcomes of a run by task, and their values for a metric.
//!
//! I1. A fault counts in the fault rate only. I2. A slot counts once, by the attempt that closed it; earlier attempts
//! count in the budget only. I3. Slots of a task are numbered in plan order: an interim analysis sees the first slots of
//! each task. I4. A slot that was not in demand is not missing: if a run was stopped on purpose, a task misses only slots that other
//! tasks have. I5. An attempt without a number for a metric, such as unreported tokens, has no value.
//!
//! Units: rewards as the suite has them, turns, tokens, US dollars, seconds. Pure; nothing to cancel.
//! Source: pass@k and pass^k of [`clawrl_report::success_in`].

use std::collections::BTreeMap;

use clawrl_config::MetricKind;
use clawrl_core::{RunPlan, SlotId};
use clawrl_gates::{Attempts, Direction, Kind, Side};
use clawrl_record::{AttemptSummary, Ending, PhaseMicros, Run, RunEnd, SlotState};
use clawrl_report::{Tries, success_in};
use serde::{Deserialize, Serialize};

use crate::assessment::{Counts, Unit};

/// Outcomes by the id of the task.
pub type Outcomes = BTreeMap<String, TaskOutcomes>;

/// Outcomes of the attempts at one task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskOutcomes {
    /// Name of its suite.
    pub suite: String,
    /// Row of the suite that generated the task.
    pub family: String,
    /// Slots that a graded attempt closed, in the plan's order.
    pub episodes: Vec<Episode>,
    /// Slots that a fault closed.
    pub faults: u32,
    /// Slots that were wanted and are open.
    pub missing: u32,
}

/// A graded attempt.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// Slot of the attempt.
    pub slot: SlotId,
    /// Whether it passed every check.
    pub passed: bool,
    /// Reward for a learner.
    pub reward: f64,
    /// Number of turns.
    pub turns: u32,
    /// Tokens of prompts and replies, from policies that report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost, if the policy has prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Wall clock from the grant of its environment to its grade, in seconds: waiting for room on the machine is not the agent's.
    pub latency_s: f64,
}

/// Slots of each task in a plan.
#[must_use]
pub fn slots_of_a_task(plan: &RunPlan) -> u32 {
    by_task(plan).values().map(|slots| slots.len() as u32).max().unwrap_or(0)
}

/// Current outcomes of a run, for the first slots of each task.
#[must_use]
pub fn outcomes(run: &Run, first: u32) -> Outcomes {
    let untouched = SlotState::default();
    let states = run.state().map(clawrl_record::JournalState::slots).unwrap_or_default();
    let state = |slot: &SlotId| states.get(slot.0 as usize).unwrap_or(&untouched);
    let tasks = by_task(run.plan());
    let wanted = match run.state().and_then(clawrl_record::JournalState::finished) {
        Some(finished) if finished.end == RunEnd::DemandClosed => {
            let tried = |slots: &Vec<SlotId>| {
                slots.iter().rposition(|slot| is_tried(state(slot))).map_or(0, |last| last as u32 + 1)
            };
            tasks.values().map(tried).max().unwrap_or(0)
        }
        _ => u32::MAX,
    };
    let wanted = wanted.min(first) as usize;
    let of = |(task, slots): (usize, Vec<SlotId>)| {
        let spec = run.plan().tasks.get(task)?;
        let mut outcomes = TaskOutcomes {
            suite: spec.suite.clone(),
            family: spec.family.clone(),
            ..TaskOutcomes::default()
        };
        for slot in slots.iter().take(wanted) {
            outcomes.add(*slot, state(slot).closing());
        }
        Some((spec.id.0.clone(), outcomes))
    };
    tasks.into_iter().filter_map(of).collect()
}

/// Slots of each task, by the task's position, in the plan's order.
pub(crate) fn by_task(plan: &RunPlan) -> BTreeMap<usize, Vec<SlotId>> {
    let mut tasks: BTreeMap<usize, Vec<SlotId>> = BTreeMap::new();
    for slot in &plan.slots {
        tasks.entry(slot.task.0 as usize).or_default().push(slot.id);
    }
    tasks
}

fn is_tried(slot: &SlotState) -> bool {
    slot.next_number > 0
}

impl TaskOutcomes {
    fn add(&mut self, slot: SlotId, closing: Option<&AttemptSummary>) {
        let Some(closing) = closing else {
            self.missing += 1;
            return;
        };
        match closing.ending {
            Ending::Finished { passed, reward, .. } => self.episodes.push(Episode {
                slot,
                passed,
                reward,
                turns: closing.turns,
                tokens: closing
                    .usage
                    .as_ref()
                    .map(|usage| usage.input_tokens.saturating_add(usage.output_tokens)),
                cost_usd: closing.usage.as_ref().and_then(|usage| usage.cost_nano_usd).map(usd),
                latency_s: latency_s(closing.times_us),
            }),
            Ending::Faulted { .. } => self.faults += 1,
            // A cancelled attempt never closes a slot, so this is unreachable.
            Ending::Cancelled(_) => self.missing += 1,
        }
    }

    /// Numbers of passed, graded, faulted and missing attempts.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let count = |episodes: usize| u32::try_from(episodes).unwrap_or(u32::MAX);
        Counts {
            passes: count(self.episodes.iter().filter(|episode| episode.passed).count()),
            attempts: count(self.episodes.len()),
            faults: self.faults,
            missing: self.missing,
        }
    }

    /// Slots that an attempt has closed.
    pub(crate) fn tried(&self) -> u32 {
        let Counts { attempts, faults, .. } = self.counts();
        attempts.saturating_add(faults)
    }

    fn attempts(&self, kind: MetricKind) -> Attempts {
        let each = |value: fn(&Episode) -> Option<f64>| self.episodes.iter().filter_map(value).collect();
        let values: Vec<f64> = match kind {
            MetricKind::PassRate => each(|episode| Some(f64::from(u8::from(episode.passed)))),
            MetricKind::PassAtK(k) | MetricKind::PassHatK(k) => self.at_k(kind, k).into_iter().collect(),
            MetricKind::Reward => each(|episode| Some(episode.reward)),
            MetricKind::Turns => each(|episode| Some(f64::from(episode.turns))),
            MetricKind::Tokens => each(|episode| episode.tokens.map(|tokens| tokens as f64)),
            MetricKind::CostUsd => each(|episode| episode.cost_usd),
            MetricKind::LatencyS => each(|episode| Some(episode.latency_s)),
            MetricKind::FaultRate => {
                let faults = std::iter::repeat_n(1.0, self.faults as usize);
                self.episodes.iter().map(|_| 0.0).chain(faults).collect()
            }
        };
        let (graded, faults) = match kind {
            // A fault is a value here.
            MetricKind::FaultRate => (self.tried(), 0),
            _ => (self.counts().attempts, self.faults),
        };
        Attempts { values, graded, faults, missing: self.missing }
    }

    /// The estimate of this task alone; `None` for fewer attempts than `k`.
    fn at_k(&self, kind: MetricKind, k: u32) -> Option<f64> {
        let Counts { passes, attempts, .. } = self.counts();
        let found = success_in(&[Tries { passed: passes, episodes: attempts }], k);
        let mean = if matches!(kind, MetricKind::PassAtK(_)) { found.at_least_one } else { found.all };
        (attempts >= k).then_some(mean.value)
    }
}

/// One side of a comparison by a metric.
#[must_use]
pub fn side(outcomes: &Outcomes, kind: MetricKind) -> Side {
    outcomes.iter().map(|(task, outcomes)| (task.clone(), outcomes.attempts(kind))).collect()
}

/// Type of the values of a metric.
#[must_use]
pub fn kind_of(metric: MetricKind) -> Kind {
    match metric {
        MetricKind::PassRate | MetricKind::FaultRate => Kind::PassFail,
        MetricKind::PassAtK(_) | MetricKind::PassHatK(_) => Kind::Share,
        _ => Kind::Number,
    }
}

/// Optimisation direction of a metric.
#[must_use]
pub fn direction_of(metric: MetricKind) -> Direction {
    match metric {
        MetricKind::PassRate | MetricKind::PassAtK(_) | MetricKind::PassHatK(_) | MetricKind::Reward => {
            Direction::Higher
        }
        MetricKind::Turns
        | MetricKind::Tokens
        | MetricKind::CostUsd
        | MetricKind::LatencyS
        | MetricKind::FaultRate => Direction::Lower,
    }
}

/// Unit of a metric.
#[must_use]
pub fn unit_of(metric: MetricKind) -> Unit {
    match metric {
        MetricKind::PassRate | MetricKind::PassAtK(_) | MetricKind::PassHatK(_) | MetricKind::FaultRate => {
            Unit::Share
        }
        MetricKind::Reward => Unit::Reward,
        MetricKind::Turns => Unit::Turns,
        MetricKind::Tokens => Unit::Tokens,
        MetricKind::CostUsd => Unit::Usd,
        MetricKind::LatencyS => Unit::Seconds,
    }
}

/// US dollars of billionths of them.
pub(crate) fn usd(nano: u64) -> f64 {
    nano as f64 / 1e9
}

fn latency_s(times: PhaseMicros) -> f64 {
    let PhaseMicros { setup, policy, step, grade, .. } = times;
    (setup + policy + step + grade) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(passed: &[bool], faults: u32, missing: u32) -> TaskOutcomes {
        let episode = |(at, passed): (usize, &bool)| Episode {
            slot: SlotId(at as u32),
            passed: *passed,
            reward: 0.5,
            turns: at as u32 + 1,
            tokens: (at > 0).then_some(10),
            cost_usd: None,
            latency_s: 2.0,
        };
        let episodes = passed.iter().enumerate().map(episode).collect();
        TaskOutcomes { suite: "s".to_owned(), family: "f".to_owned(), episodes, faults, missing }
    }

    #[test]
    fn values_of_each_metric() {
        let check = |kind, expected: &[f64], faults| {
            let outcomes = Outcomes::from([("a".to_owned(), task(&[true, false, true], 1, 2))]);
            let found = &side(&outcomes, kind)["a"];
            assert_eq!(
                (found.values.as_slice(), found.faults, found.missing),
                (expected, faults, 2),
                "{kind:?}"
            );
        };
        check(MetricKind::PassRate, &[1.0, 0.0, 1.0], 1);
        check(MetricKind::PassAtK(2), &[1.0], 1);
        check(MetricKind::PassHatK(2), &[1.0 / 3.0], 1);
        check(MetricKind::PassHatK(4), &[], 1);
        check(MetricKind::Reward, &[0.5; 3], 1);
        check(MetricKind::Turns, &[1.0, 2.0, 3.0], 1);
        check(MetricKind::Tokens, &[10.0, 10.0], 1);
        check(MetricKind::CostUsd, &[], 1);
        check(MetricKind::LatencyS, &[2.0; 3], 1);
        // I1.
        check(MetricKind::FaultRate, &[0.0, 0.0, 0.0, 1.0], 0);
    }
}
