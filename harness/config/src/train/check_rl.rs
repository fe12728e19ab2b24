//! Checks of reinforcement learning and the optimizers.

use std::path::Path;

use super::check::Checker;
use super::file::{GuardsFile, OptimizerFile, RlFile, SamplingFile};
use super::plan::{Advantage, GuardPlan, OptimizerPlan, RlPlan, Sampling, Schedule};
use crate::bounds;
use crate::file::Located;
use crate::numbers::Reals;
use crate::problem::Problem;
use crate::source::Span;

pub(super) const LEARNING_RATE: Reals =
    Reals { accepts: |rate| rate > 0.0 && rate <= 1.0, words: "above 0 and up to 1" };
const BETA: Reals = Reals { accepts: |beta| (0.0..1.0).contains(&beta), words: "from 0 to below 1" };
const WEIGHT_DECAY: Reals = Reals { accepts: |decay| (0.0..=10.0).contains(&decay), words: "from 0 to 10" };
const EPSILON: Reals =
    Reals { accepts: |epsilon| epsilon > 0.0 && epsilon <= 1.0, words: "above 0 and up to 1" };
pub(super) const ABOVE_0: Reals = Reals { accepts: |number| number > 0.0, words: "above 0" };
const FRACTION: Reals = Reals { accepts: |fraction| (0.0..=1.0).contains(&fraction), words: "from 0 to 1" };
const PROCESS_WEIGHT: Reals =
    Reals { accepts: |weight| (0.0..=bounds::MAX_PROCESS_WEIGHT).contains(&weight), words: "from 0 to 10" };
const SHARE: Reals = Reals { accepts: |share| (0.0..=1.0).contains(&share), words: "from 0 to 1" };
pub(super) const MULTIPLE: Reals = Reals { accepts: |multiple| multiple >= 1.0, words: "of 1 or more" };
const TEMPERATURE: Reals = Reals {
    accepts: |temperature| (0.001..=bounds::MAX_TEMPERATURE).contains(&temperature),
    words: "from 0.001 to 10",
};

/// AdamW in reinforcement learning, for the preset `tiny`.
const RL_OPTIMIZER: OptimizerPlan = OptimizerPlan {
    learning_rate: 5e-4,
    beta1: 0.9,
    beta2: 0.99,
    weight_decay: 0.0,
    epsilon: 1e-8,
    max_grad_norm: 1.0,
    warm_up_steps: 0,
    final_fraction: 1.0,
};

/// AdamW in imitation, for the preset `tiny`.
const IMITATION_OPTIMIZER: OptimizerPlan = OptimizerPlan {
    learning_rate: 2e-3,
    beta2: 0.95,
    warm_up_steps: 20,
    final_fraction: 0.1,
    ..RL_OPTIMIZER
};

impl Checker {
    pub(super) fn warm_start_optimizer(&mut self, file: Option<&OptimizerFile>, steps: u32) -> OptimizerPlan {
        self.optimizer(file, IMITATION_OPTIMIZER, u64::from(steps))
    }

    fn guards(&mut self, file: Option<&GuardsFile>) -> GuardPlan {
        let usual = GuardPlan::USUAL;
        let Some(file) = file else { return usual };
        let findings = &mut self.findings;
        let mut share = |key, given: &Option<_>, usual| findings.real(key, given.as_ref(), &SHARE, usual);
        let entropy = share("entropy", &file.entropy, usual.entropy);
        let shortest = share("shortest", &file.shortest, usual.shortest);
        let repetition = share("repetition", &file.repetition, usual.repetition);
        let longest = findings.real("longest", file.longest.as_ref(), &MULTIPLE, usual.longest);
        let most = 0..=bounds::MAX_UPDATES;
        let updates = findings.whole("updates", file.updates.as_ref(), most, usual.updates);
        GuardPlan { entropy, shortest, longest, repetition, updates }
    }

    /// `name` is where the training is named: the place of what is wrong with defaults together.
    pub(super) fn rl(&mut self, folder: &Path, file: &RlFile, name: Span) -> RlPlan {
        let findings = &mut self.findings;
        let updates = findings.whole("updates", file.updates.as_ref(), 1..=bounds::MAX_UPDATES, 50);
        let most = bounds::MAX_BATCH_GROUPS;
        let batch_groups = findings.whole("batch_groups", file.batch_groups.as_ref(), 1..=most, 16);
        let objective = file.objective.unwrap_or_default();
        let advantage = file.advantage.as_ref().map_or_else(|| objective.advantage(), |given| given.value);
        // A running baseline gives groups of one member an advantage, so every group is useful.
        let (least, usual_budget) = if advantage == Advantage::Running { (1, 1) } else { (2, 4) };
        let members = least..=bounds::MAX_GROUP;
        let group_size = findings.whole("group_size", file.group_size.as_ref(), members, 8);
        let budget = 1..=bounds::MAX_BUDGET;
        let resample_budget =
            findings.whole("resample_budget", file.resample_budget.as_ref(), budget, usual_budget);
        let skipped = 0..=bounds::MAX_SKIPPED;
        let max_skipped_steps =
            findings.whole("max_skipped_steps", file.max_skipped_steps.as_ref(), skipped, 3);
        let minibatches = self.minibatches(file, batch_groups);
        let (schedule, max_staleness) = self.schedule(file);
        let sampling = self.sampling(file.sampling.as_ref());
        let plan = RlPlan {
            updates,
            batch_groups,
            group_size,
            schedule,
            max_staleness,
            resample_budget,
            minibatches,
            reward: file.reward.unwrap_or_default(),
            advantage,
            process_weight: self.findings.real(
                "process_weight",
                file.process_weight.as_ref(),
                &PROCESS_WEIGHT,
                0.0,
            ),
            outcome_weight: self.outcome_weight(file, objective),
            judging: file.judging.as_ref().map(|judging| self.judging(folder, judging)),
            distillation: self.distillation(folder, file, objective),
            lora: file.lora.as_ref().map(|lora| self.lora(lora)),
            loss: file.loss.as_ref().map_or_else(|| objective.loss(), |loss| self.loss(loss, objective)),
            optimizer: self.optimizer(
                file.optimizer.as_ref(),
                RL_OPTIMIZER,
                u64::from(updates) * u64::from(minibatches),
            ),
            sampling,
            max_skipped_steps,
            guards: self.guards(file.guards.as_ref()),
            overlong: self.overlong(file, sampling.max_new_tokens),
            length: file.length.as_ref().map(|length| self.length(length)),
            curriculum: file.curriculum.as_ref().map(|curriculum| self.curriculum(curriculum)),
            gate: file.gate.as_ref().map(|gate| self.gate(gate, updates)),
        };
        self.terms_fit(file, &plan, name);
        self.overlong_fits(file, &plan);
        self.length_fits(file, &plan);
        self.judging_fits(file, &plan);
        self.remote_teacher_fits(file, &plan);
        let slots = plan.groups().saturating_mul(u64::from(group_size));
        if slots > bounds::MAX_SLOTS {
            let given = [&file.updates, &file.batch_groups, &file.group_size, &file.resample_budget];
            let span = given.into_iter().flatten().next().map_or(name, |number| number.span);
            let message =
                format!("this may take {slots} attempts, and a plan has {} slots at most", bounds::MAX_SLOTS);
            let help =
                "lower `updates`, `batch_groups`, `resample_budget` or `group_size`: they are multiplied";
            self.problem(span, message, "too many", help);
        }
        plan
    }

    fn minibatches(&mut self, file: &RlFile, batch_groups: u32) -> u32 {
        let given = file.minibatches.as_ref();
        let most = bounds::MAX_MINIBATCHES;
        let minibatches = self.findings.whole("minibatches", given, 1..=most, batch_groups.min(2));
        if let Some(given) = given
            && minibatches > batch_groups
        {
            let message =
                format!("a batch of {batch_groups} groups cannot be split into {minibatches} minibatches");
            let help = format!("write `minibatches: {batch_groups}` or less, or raise `batch_groups`");
            let reason = file.batch_groups.as_ref().map(|groups| (groups.span, "the batch"));
            self.contradiction(Problem::new(message, help), (given.span, "more than groups"), reason);
        }
        minibatches
    }

    fn schedule(&mut self, file: &RlFile) -> (Schedule, u32) {
        let default = match self.reproducible {
            Some(_) => Schedule::Synchronous,
            None => Schedule::Asynchronous,
        };
        let schedule = file.schedule.as_ref().map_or(default, |schedule| schedule.value);
        if let (Some(span), Some(given)) = (self.reproducible, &file.schedule)
            && schedule != Schedule::Synchronous
        {
            let help = "write `schedule: synchronous` or leave it out, or write `reproducible: false`";
            let message = "what is learned from then depends on which attempts end first";
            let reason = Some((span, "asked for here"));
            self.contradiction(Problem::new(message, help), (given.span, "not reproducible"), reason);
        }
        let default = match schedule {
            Schedule::Synchronous => 0,
            Schedule::OneStepOff => 1,
            Schedule::Asynchronous => 4,
        };
        let given = file.max_staleness.as_ref();
        let bounds = 0..=bounds::MAX_STALENESS;
        let max_staleness = self.findings.whole("max_staleness", given, bounds, default);
        if let Some(given) = given {
            self.staleness_fits(given, max_staleness, schedule, file.schedule.as_ref());
        }
        (schedule, max_staleness)
    }

    fn staleness_fits(
        &mut self,
        given: &Located<i64>,
        max_staleness: u32,
        schedule: Schedule,
        schedule_given: Option<&Located<Schedule>>,
    ) {
        let (problem, label) = match (schedule, max_staleness) {
            (Schedule::Synchronous, 1..) => {
                let message = "nothing is stale in a synchronous training";
                let help = "write `max_staleness: 0` or leave it out, or choose another schedule";
                (Problem::new(message, help), "never reached")
            }
            (Schedule::OneStepOff | Schedule::Asynchronous, 0) => {
                let message = "what is sampled while the policy is updated would never be trained on";
                let help = "write `max_staleness: 1` or more, or `schedule: synchronous`";
                (Problem::new(message, help), "nothing stale is allowed")
            }
            _ => return,
        };
        let reason = match (schedule_given, self.reproducible) {
            (Some(schedule), _) => Some((schedule.span, "the schedule")),
            (None, Some(span)) => Some((span, "therefore synchronous")),
            (None, None) => None,
        };
        self.contradiction(problem, (given.span, label), reason);
    }

    fn optimizer(
        &mut self,
        file: Option<&OptimizerFile>,
        default: OptimizerPlan,
        steps: u64,
    ) -> OptimizerPlan {
        // A default warm-up never takes more than half of the steps.
        let half = u32::try_from(steps / 2).unwrap_or(u32::MAX);
        let default = OptimizerPlan { warm_up_steps: default.warm_up_steps.min(half), ..default };
        let Some(file) = file else { return default };
        let findings = &mut self.findings;
        let mut real = |key: &str, number: &Option<Located<f64>>, rule: &Reals, default: f64| {
            findings.real(key, number.as_ref(), rule, default)
        };
        let mut plan = OptimizerPlan {
            learning_rate: real("learning_rate", &file.learning_rate, &LEARNING_RATE, default.learning_rate),
            beta1: real("beta1", &file.beta1, &BETA, default.beta1),
            beta2: real("beta2", &file.beta2, &BETA, default.beta2),
            weight_decay: real("weight_decay", &file.weight_decay, &WEIGHT_DECAY, default.weight_decay),
            epsilon: real("epsilon", &file.epsilon, &EPSILON, default.epsilon),
            max_grad_norm: real("max_grad_norm", &file.max_grad_norm, &ABOVE_0, default.max_grad_norm),
            final_fraction: real("final_fraction", &file.final_fraction, &FRACTION, default.final_fraction),
            ..default
        };
        let Some(given) = &file.warm_up_steps else { return plan };
        let bounds = 0..=bounds::MAX_STEPS;
        plan.warm_up_steps = self.findings.whole("warm_up_steps", Some(given), bounds, default.warm_up_steps);
        if u64::from(plan.warm_up_steps) >= steps {
            let message = format!("the step size would still rise at the last of {steps} steps");
            let help = format!("write `warm_up_steps: {half}` or less, or make more steps");
            self.problem(given.span, message, "longer than the training", help);
        }
        plan
    }

    fn sampling(&mut self, file: Option<&SamplingFile>) -> Sampling {
        let findings = &mut self.findings;
        let temperature = file.and_then(|file| file.temperature.as_ref());
        let tokens = file.and_then(|file| file.max_new_tokens.as_ref());
        let most = bounds::MAX_NEW_TOKENS;
        let max_new_tokens = findings.whole("max_new_tokens", tokens, 1..=most, super::check::NEW_TOKENS);
        let thousandths = findings.real("temperature", temperature, &TEMPERATURE, 1.0) * 1_000.0;
        if let Some(given) = temperature
            && (thousandths - thousandths.round()).abs() > 1e-6
        {
            let message = "a temperature has three decimals at most";
            let help = format!("write `temperature: {}`", thousandths.round() / 1_000.0);
            self.problem(given.span, message, "more exact than it is kept", help);
        }
        // Within bounds, or a problem was found.
        Sampling { temperature_milli: thousandths.round() as u32, max_new_tokens }
    }
}
