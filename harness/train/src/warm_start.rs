//! The warm start: imitation of recorded demonstrations.
//!
//! I1. The result is a function of parameters, demonstrations, plan, seed and number of threads. I2. Every finished demonstration
//! is imitated, passed or not: the plan decides what the demonstrator does.

use std::sync::Arc;

use clawrl_config::WarmStartPlan;
use clawrl_core::{AttemptId, AttemptRecord, Outcome, SplitMix64, TaskSpec, Trajectory, derive_seed};
use clawrl_learn::{Learner, Objective, Segment, TrainBatch, TrainSample};
use clawrl_record::{Metric, MetricRow, Run};
use clawrl_scheduler::Interrupt;
use clawrl_torch::{Chat, TorchLearner};

use super::evaluation::interrupted;
use super::learning::{gave_up, now_ms};
use super::name_shuffle::NameShuffle;
use super::samples::{Showing, demonstrated};
use clawrl_runtime::Progress;
use clawrl_runtime::training::TrainError;

/// Steps between two reports of the loss.
const TOLD_EVERY: u32 = 50;

/// The demonstrations to imitate.
pub(super) struct Demonstrations {
    /// Finished demonstrations with at least one segment, in the order of slots.
    shown: Vec<Shown>,
    pub(super) attempts: u32,
    pub(super) passed: u32,
}

struct Shown {
    attempt: AttemptId,
    task: Arc<TaskSpec>,
    trajectory: Trajectory,
}

impl Shown {
    /// A training sample for each segment of one episode; all tokens have the same weight.
    fn samples(
        &self,
        chat: &Chat,
        shuffle: &mut NameShuffle<'_>,
        showing: Showing<'_>,
        most_tokens: usize,
        episode: u32,
    ) -> Result<Vec<TrainSample>, TrainError> {
        let trajectory = shuffle.of(&self.trajectory, &self.task.family, &self.task.instruction);
        let mut segments = self.segments(chat, &trajectory, showing)?;
        // A segment that fits the model without a hint may not fit with one.
        if segments.iter().any(|segment| segment.len() > most_tokens) {
            segments = self.segments(chat, &trajectory, Showing::Plain)?;
        }
        let sample = |segment: Segment| TrainSample {
            attempt: self.attempt,
            advantages: vec![0.0; segment.len()],
            segment,
            episode,
            teacher: Vec::new(),
            candidates: Vec::new(),
        };
        Ok(segments.into_iter().map(sample).collect())
    }

    fn segments(
        &self,
        chat: &Chat,
        trajectory: &Trajectory,
        showing: Showing<'_>,
    ) -> Result<Vec<Segment>, TrainError> {
        demonstrated(chat, &self.task, trajectory, showing).map_err(|why| {
            let message = format!("demonstration {} cannot be learned from: {why}", self.attempt);
            TrainError::refused(message)
        })
    }
}

impl Demonstrations {
    /// Reads the demonstrations from their run.
    ///
    /// # Errors
    /// The run cannot be read, a demonstration cannot be expressed in its task's action format, or none finished.
    pub(super) fn read(run: &Run, chat: &Chat) -> Result<Self, TrainError> {
        let mut all = Self { shown: Vec::new(), attempts: 0, passed: 0 };
        let plan = run.plan();
        for record in run.trajectories()? {
            let AttemptRecord { attempt, closes_slot, outcome, mut trajectory, .. } = record?;
            if !closes_slot {
                continue;
            }
            let missing = || TrainError::storage(format!("the plan has no slot {}", attempt.slot));
            let slot = plan.slots.get(attempt.slot.0 as usize).ok_or_else(missing)?;
            all.attempts += 1;
            all.passed += u32::from(outcome.grade().is_some_and(|grade| grade.passed));
            if matches!(outcome, Outcome::Finished { .. }) {
                trajectory.cast = None;
                let shown = Shown { attempt, task: Arc::clone(plan.task_of(slot)), trajectory };
                // Demonstrations that cannot be expressed are found before training starts; empty ones are not imitated.
                if !shown.segments(chat, &shown.trajectory, Showing::Plain)?.is_empty() {
                    all.shown.push(shown);
                }
            }
        }
        if all.shown.is_empty() {
            return Err(TrainError::aborted("no demonstration finished: there is nothing to imitate"));
        }
        all.shown.sort_by_key(|shown| shown.attempt);
        Ok(all)
    }

    /// Imitates the demonstrations for the planned number of steps. `interrupted_by` is checked between steps.
    ///
    /// # Errors
    /// The learner failed, a demonstration cannot be expressed in its task's action format, or a signal ended the training.
    pub(super) fn imitate(
        &self,
        learner: &mut TorchLearner,
        imitation: &Imitation<'_>,
        interrupted_by: impl Fn() -> Interrupt,
        progress: &dyn Progress,
    ) -> Result<Vec<MetricRow>, TrainError> {
        let &Imitation { plan, chat, interchangeable, seed } = imitation;
        let mut rows = Vec::new();
        let most_tokens = learner.params().layout().config().max_position_embeddings;
        let most_tokens = usize::try_from(most_tokens).unwrap_or_default();
        let mut order = Order::new(self.shown.len(), derive_seed(seed, "imitation", &[]));
        let mut shuffle = NameShuffle::new(interchangeable, derive_seed(seed, "exchange", &[]));
        let mut hinting = SplitMix64::new(derive_seed(seed, "hinting", &[]));
        for step in 1..=plan.steps {
            if interrupted_by() != Interrupt::None {
                return Err(interrupted());
            }
            let mut samples = Vec::with_capacity(plan.batch as usize);
            for episode in 0..plan.batch {
                let at = order.next();
                let showing = self.showing(at, plan, &mut hinting);
                let shown = &self.shown[at];
                samples.extend(shown.samples(chat, &mut shuffle, showing, most_tokens, episode)?);
            }
            let batch = TrainBatch { objective: Objective::Imitation, samples, groups: Vec::new(), seed: 0 };
            let report = learner.update(&batch).map_err(|error| gave_up(&error))?;
            let figures = [(Metric::TrainImitationLossNats, report.loss)];
            rows.extend(MetricRow::of_update(now_ms(), u64::from(step), &figures));
            if step.is_multiple_of(TOLD_EVERY) || step == plan.steps {
                progress.step(format_args!(
                    "imitation {step:>4}/{}  loss {:.3} nats a token",
                    plan.steps, report.loss
                ));
            }
        }
        Ok(rows)
    }
}

impl Demonstrations {
    /// Draws whether the demonstration at this index is shown with a hint, and under which prompt.
    fn showing(&self, at: usize, plan: &WarmStartPlan, random: &mut SplitMix64) -> Showing<'_> {
        let mut chance = |percent: u8| percent > 0 && random.below(100) < u64::from(percent);
        if !chance(plan.hinted_percent) {
            Showing::Plain
        } else if chance(plan.contradicted_percent) && self.shown.len() > 1 {
            let others = self.shown.len() as u64 - 1;
            let other = (at + 1 + random.below(others) as usize) % self.shown.len();
            Showing::Contradicted(&self.shown[other].trajectory.prompt)
        } else {
            Showing::Hinted
        }
    }
}

/// Settings of imitation.
#[derive(Clone, Copy)]
pub(super) struct Imitation<'a> {
    pub(super) plan: &'a WarmStartPlan,
    pub(super) chat: &'a Chat,
    /// Lists of interchangeable words.
    pub(super) interchangeable: &'a [Vec<String>],
    pub(super) seed: u64,
}

/// Draws indices without repetition, and shuffles again after each pass.
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
        // Fisher-Yates shuffle, one draw at a time.
        let drawn = self.random.below(self.left as u64) as usize;
        self.left -= 1;
        self.positions.swap(drawn, self.left);
        self.positions[self.left]
    }
}

#[cfg(test)]
mod tests {
    use clawrl_config::OptimizerPlan;
    use clawrl_core::{Message, Observation, Role, SlotId};

    use super::*;

    fn plan(hinted_percent: u8, contradicted_percent: u8) -> WarmStartPlan {
        let optimizer = OptimizerPlan {
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.95,
            weight_decay: 0.0,
            epsilon: 1e-8,
            max_grad_norm: 1.0,
            warm_up_steps: 0,
            final_fraction: 1.0,
        };
        WarmStartPlan {
            demonstrations: 3,
            oracle_percent: 50,
            steps: 1,
            batch: 1,
            interchangeable: Vec::new(),
            max_skipped_steps: 3,
            hinted_percent,
            contradicted_percent,
            optimizer,
        }
    }

    #[test]
    fn hints_are_shown_as_often_as_planned_and_contradicted_by_others_alone() {
        let shown = |number: u32| Shown {
            attempt: AttemptId { slot: SlotId(number), number: 0 },
            task: Arc::new(clawrl_testkit::task("look")),
            trajectory: Trajectory {
                prompt: vec![Message::text(Role::User, number.to_string())],
                reset: Observation::default(),
                turns: Vec::new(),
                cast: None,
            },
        };
        let all = Demonstrations { shown: (0..3).map(shown).collect(), attempts: 3, passed: 0 };
        let mut random = SplitMix64::new(5);
        let (mut hinted, mut contradicted) = (0, 0);
        for at in (0..3).cycle().take(3_000) {
            match all.showing(at, &plan(40, 25), &mut random) {
                Showing::Plain => {}
                Showing::Hinted => hinted += 1,
                Showing::Contradicted(prompt) => {
                    assert_ne!(prompt[0].joined_text(), at.to_string(), "by itself");
                    contradicted += 1;
                }
            }
        }
        // Of 3,000: 30 % and 10 %.
        assert!(
            (800..1_000).contains(&hinted) && (230..370).contains(&contradicted),
            "{hinted} {contradicted}"
        );
        assert!((0..100).all(|_| matches!(all.showing(0, &plan(0, 0), &mut random), Showing::Plain)));
    }

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
