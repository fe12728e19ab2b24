//! The warm start: imitation of recorded demonstrations.
//!
//! I1. The result is a function of parameters, demonstrations, plan and number of threads. I2. Every demonstration
//! that finished is learned from, whether or not it passed: what the demonstrator is, is the plan's to say.

use clawrl_config::WarmStartPlan;
use clawrl_core::{AttemptId, SplitMix64, derive_seed};
use clawrl_learn::{Learner, Objective, Segment, TrainBatch, TrainSample};
use clawrl_record::{Metric, MetricRow, Run};
use clawrl_scheduler::Interrupt;
use clawrl_torch::{Chat, TorchLearner};

use super::display::Teller;
use super::evaluation::interrupted;
use super::learning::{gave_up, now_ms};
use super::samples::demonstrated;
use crate::exit_code::Exit;
use crate::failure::Failure;

/// Steps between two lines about the loss.
const TOLD_EVERY: u32 = 50;

/// What was demonstrated.
pub(super) struct Demonstrations {
    segments: Vec<(AttemptId, Segment)>,
    pub(super) attempts: u32,
    pub(super) passed: u32,
}

impl Demonstrations {
    /// Reads them out of their run, in order of slot.
    ///
    /// # Errors
    /// A run that cannot be read, or demonstrations without a single token.
    pub(super) fn read(run: &Run, chat: &Chat) -> Result<Self, Failure> {
        let mut all = Self { segments: Vec::new(), attempts: 0, passed: 0 };
        let plan = run.plan();
        let mut records = Vec::new();
        for record in run.trajectories()? {
            let record = record?;
            if record.closes_slot {
                records.push(record);
            }
        }
        records.sort_by_key(|record| record.attempt);
        for record in &records {
            all.attempts += 1;
            all.passed += u32::from(record.outcome.grade().is_some_and(|grade| grade.passed));
            let segments = demonstrated(chat, plan, record).map_err(|why| {
                let message = format!("demonstration {} cannot be learned from: {why}", record.attempt);
                Failure::new(Exit::Refused, message)
            })?;
            all.segments.extend(segments.into_iter().map(|segment| (record.attempt, segment)));
        }
        if all.segments.is_empty() {
            return Err(Failure::new(
                Exit::TrainingFailed,
                "no demonstration finished: there is nothing to imitate",
            ));
        }
        Ok(all)
    }

    /// Imitates them for as many steps as planned. `interrupted_by` is looked at between steps.
    ///
    /// # Errors
    /// The learner gave up, or a person ended it.
    pub(super) fn imitate(
        &self,
        learner: &mut TorchLearner,
        plan: &WarmStartPlan,
        seed: u64,
        interrupted_by: impl Fn() -> Interrupt,
        teller: &Teller,
    ) -> Result<Vec<MetricRow>, Failure> {
        let mut rows = Vec::new();
        let mut order = Order::new(self.segments.len(), derive_seed(seed, "imitation", &[]));
        for step in 1..=plan.steps {
            if interrupted_by() != Interrupt::None {
                return Err(interrupted());
            }
            let sample = |episode: u32| {
                let (attempt, segment) = &self.segments[order.next()];
                TrainSample {
                    attempt: *attempt,
                    segment: segment.clone(),
                    advantages: vec![0.0; segment.len()],
                    episode,
                }
            };
            let samples = (0..plan.batch).map(sample).collect();
            let batch = TrainBatch { objective: Objective::Imitation, samples, groups: Vec::new(), seed: 0 };
            let report = learner.update(&batch).map_err(|error| gave_up(&error))?;
            let figures = [(Metric::TrainImitationLossNats, report.loss)];
            rows.extend(MetricRow::of_update(now_ms(), u64::from(step), &figures));
            if step.is_multiple_of(TOLD_EVERY) || step == plan.steps {
                teller.say(&format!(
                    "imitation {step:>4}/{}  loss {:.3} nats a token",
                    plan.steps, report.loss
                ));
            }
        }
        Ok(rows)
    }
}

/// Positions without repetition, shuffled anew whenever all were given.
struct Order {
    positions: Vec<usize>,
    left: usize,
    random: SplitMix64,
}

impl Order {
    fn new(len: usize, seed: u64) -> Self {
        Self { positions: (0..len).collect(), left: 0, random: SplitMix64::new(seed) }
    }

    fn next(&mut self) -> usize {
        if self.left == 0 {
            self.left = self.positions.len();
        }
        // Fisher and Yates, one draw at a time.
        let drawn = self.random.below(self.left as u64) as usize;
        self.left -= 1;
        self.positions.swap(drawn, self.left);
        self.positions[self.left]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_comes_once_an_epoch() {
        let mut order = Order::new(7, 3);
        let mut epochs = Vec::new();
        for _ in 0..5 {
            let epoch: Vec<usize> = (0..7).map(|_| order.next()).collect();
            let mut sorted = epoch.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6]);
            epochs.push(epoch);
        }
        assert!(epochs.iter().any(|epoch| *epoch != epochs[0]));
    }
}
