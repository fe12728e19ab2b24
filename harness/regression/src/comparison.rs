//! A candidate's outcomes against a baseline's: the verdict of each metric, and what a look ahead of the end says.
//!
//! I1. Bad input is never a pass: what lacks makes a metric inconclusive, and what is of another plan is refused. I2. All metrics share
//! alpha by Holm, with a part of it for the tasks by themselves; a pass is not adjusted, since all have to pass. I3. As [`crate::LookSchedule`]: looks and judgement agree, and the
//! judgement at the end has the level that looks left.
//!
//! Errors: [`AssessError`]. Pure but for reading the record; nothing to cancel.

use clawrl_config::{CiMetric, CiPlan, ConfigError, MetricKind};
use clawrl_core::{PolicySpec, RunId, RunPlan};
use clawrl_gates::{
    Completeness, Decision, EachTask, Gate, GateError, LookError, Paired, Refused, Says, Spread,
    judge_together,
};
use clawrl_record::Run;

use crate::assessment::{EachTaskVerdict, LookTaken, MetricVerdict};
use crate::baseline::{Baseline, BaselineError, policy_word};
use crate::levels::{Levels, tasks_level};
use crate::looks::{LookSchedule, LookSettings};
use crate::outcomes::{Outcomes, direction_of, kind_of, outcomes, side, slots_of_a_task, unit_of};

/// Why a run cannot be judged at all.
#[derive(Debug, thiserror::Error)]
pub enum AssessError {
    /// No baseline, or none of this plan.
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    /// What the gate file says does not fit the run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It is being written.
    #[error("run {run} is still under way")]
    UnderWay {
        /// Which run.
        run: RunId,
    },
    /// Nothing to compare.
    #[error("{metric} cannot be compared: {source}")]
    Refused {
        /// Which metric.
        metric: String,
        /// Why.
        source: Refused,
    },
    /// The gate is none.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// Its looks are none.
    #[error(transparent)]
    Looks(#[from] LookError),
}

/// A gate and what it compares with.
#[derive(Debug, Clone)]
pub struct Comparison {
    gate: CiPlan,
    baseline: Baseline,
    /// Most turns of an attempt, if the plan of the run is known.
    most_turns: Option<u32>,
}

/// When a run is judged.
#[derive(Debug, Clone, Copy)]
pub enum Judgement<'a> {
    /// At a look, which ends it or is asked whether it may.
    Look(&'a LookSchedule),
    /// At its end, with what the looks left of alpha if there were any.
    End(Option<&'a LookSchedule>),
}

/// What is said of outcomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Of each metric.
    pub metrics: Vec<MetricVerdict>,
    /// Of each task, where the gate judges them.
    pub each_task: Option<EachTaskVerdict>,
}

/// What a look says, and whether the run may end by it.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// What is told of it.
    pub taken: LookTaken,
    /// Whether it ends the run.
    pub ends: bool,
}

impl Comparison {
    /// Of a gate with its baseline.
    #[must_use]
    pub fn new(gate: CiPlan, baseline: Baseline) -> Self {
        Self { gate, baseline, most_turns: None }
    }

    /// The gate.
    #[must_use]
    pub fn gate(&self) -> &CiPlan {
        &self.gate
    }

    /// The baseline.
    #[must_use]
    pub fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// The same, of a run: how many turns an attempt has at most is in its plan, and that a policy does the same each time is the gate file's word for
    /// the policy that was accepted, and for those of which it is known. Of another model or program it is not known.
    #[must_use]
    pub(crate) fn of_run(&self, plan: &RunPlan) -> Self {
        let mut comparison = self.clone();
        let is_known = !matches!(plan.policy, PolicySpec::Remote(_) | PolicySpec::Agent(_));
        comparison.gate.deterministic &= is_known || policy_word(&plan.policy) == self.baseline.policy;
        comparison.with_most_turns(plan.tasks.iter().map(|task| task.max_turns).max().unwrap_or(0))
    }

    /// The same, of attempts that have so many turns at most.
    #[must_use]
    pub fn with_most_turns(self, turns: u32) -> Self {
        Self { most_turns: Some(turns), ..self }
    }

    /// Attempts at each task that the baseline has, on average.
    pub(crate) fn baseline_repeats(&self) -> f64 {
        let tasks = &self.baseline.outcomes;
        let graded: usize = tasks.values().map(|task| task.episodes.len()).sum();
        graded as f64 / tasks.len().max(1) as f64
    }

    fn levels(&self) -> Levels {
        Levels::of(&self.gate, self.baseline.outcomes.len())
    }

    /// When it is looked at a run of so many repeats; `None` for the end alone.
    ///
    /// # Errors
    /// [`AssessError::Looks`].
    pub fn schedule(&self, repeats: u32) -> Result<Option<LookSchedule>, AssessError> {
        Ok(LookSchedule::new(LookSettings {
            looks: self.gate.looks,
            repeats,
            baseline_repeats: self.baseline_repeats(),
            alpha: self.levels().metrics,
            power: self.gate.power,
        })?)
    }

    /// Look `at` of a schedule, from 0, at a run that may be under way.
    ///
    /// # Errors
    /// As [`crate::assess`].
    pub fn look(&self, run: &Run, schedule: &LookSchedule, at: usize) -> Result<Look, AssessError> {
        let seen = schedule.repeats().get(at).copied().unwrap_or_else(|| slots_of_a_task(run.plan()));
        self.of_run(run.plan()).look_at(&outcomes(run, seen), seen, schedule, at)
    }

    /// The same, at outcomes of so many repeats of each task, wherever they come from.
    ///
    /// # Errors
    /// As [`crate::assess`].
    pub fn look_at(
        &self,
        candidate: &Outcomes,
        seen: u32,
        schedule: &LookSchedule,
        at: usize,
    ) -> Result<Look, AssessError> {
        let fraction = schedule.plan().boundaries.get(at).map_or(1.0, |boundary| boundary.fraction);
        let taken = |z, said: &str| LookTaken { repeats: seen, fraction, z, said: said.to_owned() };
        let Some(metric) = self.looked_at() else {
            return Ok(Look { taken: taken(None, "no metric to look at"), ends: false });
        };
        let paired = self.paired(metric, candidate)?;
        let whole = paired.shortfalls().is_empty();
        let z = Spread::of(&paired, direction_of(metric.kind)).z(metric.tolerance).filter(|_| whole);
        let says = schedule.plan().says(at, z.unwrap_or(f64::NAN));
        if at + 1 >= schedule.repeats().len() {
            return Ok(Look { taken: taken(z, "the end"), ends: false });
        }
        let when = Judgement::Look(schedule);
        let broke = self.tasks_verdict(candidate, when)?.is_some_and(|tasks| tasks.verdict.fails());
        // I3: a look that the judgement does not bear out is no reason to end.
        let verdicts = match says {
            Says::GoOn => Vec::new(),
            Says::StopForHarm | Says::StopForFutility => self.metrics(candidate, when)?,
        };
        let passes = |verdict: &MetricVerdict| verdict.verdict.decision.is_pass();
        let fails = |verdict: &MetricVerdict| {
            verdict.name == metric.kind.name() && verdict.verdict.decision == Decision::Fail
        };
        let (said, ends) = match says {
            _ if broke => ("ends the run: a task broke", true),
            Says::GoOn => ("goes on", false),
            Says::StopForHarm if verdicts.iter().any(fails) => ("ends the run: it is worse", true),
            Says::StopForHarm => {
                ("goes on: it seems worse, which the test over tasks does not bear out yet", false)
            }
            Says::StopForFutility if !verdicts.iter().all(passes) => {
                ("goes on: it seems no worse, which not every metric bears out yet", false)
            }
            Says::StopForFutility if self.suspects_a_task(candidate)? => {
                ("goes on: it seems no worse, but a task may have broken", false)
            }
            Says::StopForFutility => ("ends the run: what matters is ruled out", true),
        };
        Ok(Look { taken: taken(z, said), ends })
    }

    /// What is said of every metric and task.
    ///
    /// # Errors
    /// As [`crate::assess`].
    pub fn judge(&self, candidate: &Outcomes, when: Judgement<'_>) -> Result<Judged, AssessError> {
        Ok(Judged {
            metrics: self.metrics(candidate, when)?,
            each_task: self.tasks_verdict(candidate, when)?,
        })
    }

    fn tasks_verdict(
        &self,
        candidate: &Outcomes,
        when: Judgement<'_>,
    ) -> Result<Option<EachTaskVerdict>, AssessError> {
        let Some(alpha) = self.levels().tasks else { return Ok(None) };
        let level = match when {
            Judgement::Look(schedule) => tasks_level(alpha, schedule.repeats().len(), false),
            Judgement::End(Some(schedule)) => tasks_level(alpha, schedule.repeats().len(), true),
            Judgement::End(None) => alpha,
        };
        let verdict = self.each_task(level).judge(&self.passes(candidate)?);
        Ok(Some(EachTaskVerdict { sentence: verdict.to_string(), verdict }))
    }

    /// The rule for single tasks, at this level.
    fn each_task(&self, alpha: f64) -> EachTask {
        EachTask {
            tolerance: self.gate.pass_rate().map_or(0.0, |metric| metric.tolerance),
            alpha,
            deterministic: self.gate.deterministic,
        }
    }

    /// The rule that a run of so many repeats is judged by at its end; nothing of a gate that judges no single tasks.
    ///
    /// # Errors
    /// As [`Self::schedule`].
    pub fn task_rule(&self, repeats: u32) -> Result<Option<EachTask>, AssessError> {
        let looks = self.schedule(repeats)?.map_or(1, |schedule| schedule.repeats().len());
        Ok(self.levels().tasks.map(|alpha| self.each_task(tasks_level(alpha, looks, true))))
    }

    /// Whether a task is so much worse that a run should not pass ahead of its end.
    fn suspects_a_task(&self, candidate: &Outcomes) -> Result<bool, AssessError> {
        let Some(alpha) = self.levels().tasks else { return Ok(false) };
        Ok(self.each_task(alpha).suspects(&self.passes(candidate)?))
    }

    fn metrics(&self, candidate: &Outcomes, when: Judgement<'_>) -> Result<Vec<MetricVerdict>, AssessError> {
        let looked_at = self.looked_at().map(|metric| metric.kind);
        let metrics_level = self.levels().metrics;
        let level = match when {
            Judgement::End(Some(schedule)) => schedule.final_level(metrics_level),
            Judgement::End(None) | Judgement::Look(_) => metrics_level,
        };
        let pair = |metric: &CiMetric| {
            let gate = Gate {
                metric: metric.kind.name(),
                direction: direction_of(metric.kind),
                tolerance: metric.tolerance,
                matters: metric.matters,
                alpha: if looked_at == Some(metric.kind) { level } else { metrics_level },
                deterministic: self.gate.deterministic,
                span: self.most_turns.filter(|_| metric.kind == MetricKind::Turns).map(f64::from),
            };
            Ok((gate, self.paired(metric, candidate)?))
        };
        let pairs: Vec<(Gate, Paired)> =
            self.gate.metrics.iter().map(pair).collect::<Result<_, AssessError>>()?;
        let borrowed: Vec<(Gate, &Paired)> =
            pairs.iter().map(|(gate, paired)| (gate.clone(), paired)).collect();
        let verdicts = judge_together(&borrowed, self.gate.seed)?;
        let told = self.gate.metrics.iter().zip(verdicts).map(|(metric, verdict)| MetricVerdict {
            name: metric.kind.name(),
            unit: unit_of(metric.kind),
            sentence: verdict.to_string(),
            verdict,
        });
        Ok(told.collect())
    }

    /// The first of the metrics that passes or fails by attempt.
    pub(crate) fn looked_at(&self) -> Option<&CiMetric> {
        self.gate.metrics.iter().find(|metric| metric.kind.is_pass_fail())
    }

    /// Passes and fails of both sides, whatever the gate's metrics are.
    pub(crate) fn passes(&self, candidate: &Outcomes) -> Result<Paired, AssessError> {
        self.paired(&CiMetric { kind: MetricKind::PassRate, tolerance: 0.0, matters: 1.0 }, candidate)
    }

    pub(crate) fn paired(&self, metric: &CiMetric, candidate: &Outcomes) -> Result<Paired, AssessError> {
        let rules = Completeness {
            max_fault_share: self.gate.completeness.max_fault_share,
            max_lost_share: self.gate.completeness.max_lost_share,
        };
        let (before, after) = (side(&self.baseline.outcomes, metric.kind), side(candidate, metric.kind));
        let refused = |source| AssessError::Refused { metric: metric.kind.name(), source };
        Paired::new(&before, &after, kind_of(metric.kind), rules).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clawrl_config::{CiBudget, CiCompleteness, Repeats};
    use clawrl_core::{Determinism, SlotId, SplitMix64};

    use super::*;
    use crate::baseline::BASELINE_FORMAT;
    use crate::conditions::Conditions;
    use crate::outcomes::{Episode, TaskOutcomes};

    const TASKS: usize = 24;
    const REPEATS: u32 = 12;

    /// Easy, hard and flaky tasks.
    fn rates() -> Vec<f64> {
        (0..TASKS).map(|task| [1.0, 0.0, 0.95, 0.8, 0.5, 0.3, 0.9, 1.0][task % 8]).collect()
    }

    fn drawn(rates: &[f64], random: &mut SplitMix64) -> Vec<Vec<bool>> {
        let passes = |rate: &f64, random: &mut SplitMix64| (random.below(1_000_000) as f64) < rate * 1e6;
        rates.iter().map(|rate| (0..REPEATS).map(|_| passes(rate, random)).collect()).collect()
    }

    fn told(attempts: &[Vec<bool>], first: u32) -> Outcomes {
        let episode = |passed: &bool| Episode {
            slot: SlotId(0),
            passed: *passed,
            reward: f64::from(u8::from(*passed)),
            turns: 1,
            tokens: None,
            cost_usd: None,
            latency_s: 1.0,
        };
        let task = |(at, attempts): (usize, &Vec<bool>)| {
            let episodes = attempts.iter().take(first as usize).map(episode).collect();
            (format!("{at:02}"), TaskOutcomes { episodes, ..TaskOutcomes::default() })
        };
        attempts.iter().enumerate().map(task).collect()
    }

    fn comparison(baseline: Outcomes, looks: u32) -> Comparison {
        let gate = CiPlan {
            gate: "g".to_owned(),
            file: PathBuf::new(),
            suites: Vec::new(),
            policy: String::new(),
            seed: 1,
            repeats: Repeats::Exactly(REPEATS),
            metrics: vec![CiMetric { kind: MetricKind::PassRate, tolerance: 0.0, matters: 0.15 }],
            must_pass: Vec::new(),
            each_task: Some(false),
            alpha: 0.05,
            power: 0.9,
            looks,
            deterministic: false,
            completeness: CiCompleteness { max_fault_share: 0.1, max_lost_share: 0.0 },
            budget: CiBudget::default(),
        };
        let conditions = Conditions {
            suites: Default::default(),
            tasks: Default::default(),
            seed: 1,
            max_retries: 1,
            determinism: Determinism::default(),
            judge: None,
        };
        let baseline = Baseline {
            format: BASELINE_FORMAT,
            gate: "g".to_owned(),
            run: RunId::new("before").unwrap(),
            accepted_ms: 0,
            program: String::new(),
            policy: String::new(),
            plan_sha256: conditions.sha256(),
            conditions,
            outcomes_sha256: String::new(),
            outcomes: baseline,
        };
        Comparison::new(gate, baseline)
    }

    /// A pipeline: the decision, and the share of the attempts that it took.
    fn pipeline(baseline: &[Vec<bool>], candidate: &[Vec<bool>], looks: u32) -> (Decision, f64) {
        let comparison = comparison(told(baseline, REPEATS), looks);
        let decided = |outcomes: &Outcomes, when: Judgement<'_>| {
            comparison.judge(outcomes, when).unwrap().metrics.swap_remove(0).verdict.decision
        };
        let schedule = comparison.schedule(REPEATS).unwrap();
        for (at, seen) in schedule.iter().flat_map(|schedule| schedule.repeats().iter().enumerate()) {
            let (outcomes, schedule) = (told(candidate, *seen), schedule.as_ref().unwrap());
            if comparison.look_at(&outcomes, *seen, schedule, at).unwrap().ends {
                let decision = decided(&outcomes, Judgement::Look(schedule));
                return (decision, f64::from(*seen) / f64::from(REPEATS));
            }
        }
        (decided(&told(candidate, REPEATS), Judgement::End(schedule.as_ref())), 1.0)
    }

    /// Shares of pipelines that fail and pass, and of the attempts that they take, where every task passes by `kept` less often.
    fn simulated(pipelines: u64, kept: f64, looks: u32) -> (f64, f64, f64) {
        let (mut fails, mut passes, mut used) = (0.0, 0.0, 0.0);
        let worse: Vec<f64> = rates().iter().map(|rate| rate * kept).collect();
        for seed in 0..pipelines {
            let mut random = SplitMix64::new(seed);
            let (before, after) = (drawn(&rates(), &mut random), drawn(&worse, &mut random));
            let (decision, share) = pipeline(&before, &after, looks);
            fails += f64::from(u8::from(decision == Decision::Fail));
            passes += f64::from(u8::from(decision == Decision::Pass));
            used += share;
        }
        let count = pipelines as f64;
        (fails / count, passes / count, used / count)
    }

    /// I3, in small; with 1,000 pipelines, 3.3 % fail where nothing changed (3.0 % without looks), and 99.7 % where the pass rate drops by
    /// the 15 points that matter, with 49 % and 39 % of the attempts.
    #[test]
    fn looks_save_attempts_and_raise_no_false_alarms() {
        let (fails, _, used) = simulated(40, 1.0, 4);
        assert!(
            fails <= 5.0 / 40.0 && used < 0.65,
            "{fails} of the unchanged fail, with {used} of the attempts"
        );
        let (fails, passes, used) = simulated(20, 0.78, 4);
        assert!(fails >= 0.9 && passes <= 0.05 && used < 0.6, "{fails} fail, {passes} pass, with {used}");
    }
}
