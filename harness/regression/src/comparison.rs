//! Compares a candidate's outcomes with a baseline's: the verdict of each metric, and the decision of each interim analysis.
//!
//! I1. Bad input never passes: missing data makes a metric inconclusive, and a baseline of another plan is refused. I2. All metrics share
//! alpha by Holm, apart from a part reserved for single tasks; a pass is not adjusted, because every metric has to pass. I3. As for
//! [`crate::InterimSchedule`]: interim and final verdicts agree, and the final analysis uses the alpha that is left.
//!
//! Errors: [`AssessError`]. Pure but for reading the record; nothing to cancel.

use clawrl_config::{CiMetric, CiPlan, ConfigError, MetricKind};
use clawrl_core::{PolicySpec, RunId, RunPlan};
use clawrl_gates::{
    Completeness, Decision, EachTask, Gate, GateError, InterimDecision, InterimPlanError, Paired,
    PairingError, Spread, judge_together,
};
use clawrl_record::Run;

use crate::assessment::{EachTaskVerdict, InterimResult, MetricVerdict};
use crate::baseline::{Baseline, BaselineError, policy_word};
use crate::interim::{InterimSchedule, InterimSettings};
use crate::levels::{Levels, tasks_level};
use crate::outcomes::{Outcomes, direction_of, kind_of, outcomes, side, slots_of_a_task, unit_of};

/// Reasons for which a run cannot be judged.
#[derive(Debug, thiserror::Error)]
pub enum AssessError {
    /// No baseline, or a baseline of another plan.
    #[error(transparent)]
    Baseline(#[from] BaselineError),
    /// The gate file does not fit the run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The run is still being written.
    #[error("run {run} is still under way")]
    UnderWay {
        /// The run.
        run: RunId,
    },
    /// The outcomes cannot be paired.
    #[error("{metric} cannot be compared: {source}")]
    Pairing {
        /// Name of the metric.
        metric: String,
        /// The cause.
        source: PairingError,
    },
    /// Invalid gate settings.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// Invalid settings of interim analyses.
    #[error(transparent)]
    InterimPlan(#[from] InterimPlanError),
}

/// A gate with its baseline.
#[derive(Debug, Clone)]
pub struct Comparison {
    gate: CiPlan,
    baseline: Baseline,
    /// Maximum turns of an attempt, if the plan of the run is known.
    most_turns: Option<u32>,
}

/// The analysis for which a run is judged.
#[derive(Debug, Clone, Copy)]
pub enum AnalysisPoint<'a> {
    /// An interim analysis, which may stop the run.
    Interim(&'a InterimSchedule),
    /// The final analysis, at the alpha that earlier interim analyses left.
    Final(Option<&'a InterimSchedule>),
}

/// Verdicts on a candidate's outcomes.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdicts {
    /// One verdict per metric.
    pub metrics: Vec<MetricVerdict>,
    /// The verdict on single tasks, if the gate judges them.
    pub each_task: Option<EachTaskVerdict>,
}

/// The result of an interim analysis.
#[derive(Debug, Clone, PartialEq)]
pub struct InterimAnalysis {
    /// The recorded result.
    pub taken: InterimResult,
    /// Whether it stops the run.
    pub ends: bool,
}

impl Comparison {
    /// Pairs a gate with its baseline.
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

    /// Adapts the comparison to the plan of a run: it takes the turn limit from the plan, and keeps `deterministic` only if the policy
    /// is known to be deterministic or is the accepted one. Other models and programs may not be deterministic.
    #[must_use]
    pub(crate) fn of_run(&self, plan: &RunPlan) -> Self {
        let mut comparison = self.clone();
        let is_known = !matches!(plan.policy, PolicySpec::Remote(_) | PolicySpec::Agent(_));
        comparison.gate.deterministic &= is_known || policy_word(&plan.policy) == self.baseline.policy;
        comparison.with_most_turns(plan.tasks.iter().map(|task| task.max_turns).max().unwrap_or(0))
    }

    /// Sets the turn limit of attempts.
    #[must_use]
    pub fn with_most_turns(self, turns: u32) -> Self {
        Self { most_turns: Some(turns), ..self }
    }

    /// Mean number of graded attempts per task in the baseline.
    pub(crate) fn baseline_repeats(&self) -> f64 {
        let tasks = &self.baseline.outcomes;
        let graded: usize = tasks.values().map(|task| task.episodes.len()).sum();
        graded as f64 / tasks.len().max(1) as f64
    }

    fn levels(&self) -> Levels {
        Levels::of(&self.gate, self.baseline.outcomes.len())
    }

    /// The schedule of interim analyses for a run of `repeats`; `None` for a final analysis only.
    ///
    /// # Errors
    /// [`AssessError::InterimPlan`].
    pub fn schedule(&self, repeats: u32) -> Result<Option<InterimSchedule>, AssessError> {
        Ok(InterimSchedule::new(InterimSettings {
            looks: self.gate.interim_analyses,
            repeats,
            baseline_repeats: self.baseline_repeats(),
            alpha: self.levels().metrics,
            power: self.gate.power,
        })?)
    }

    /// Interim analysis number `at`, from 0, of a run that may still be running.
    ///
    /// # Errors
    /// The errors of [`crate::assess`].
    pub fn look(
        &self,
        run: &Run,
        schedule: &InterimSchedule,
        at: usize,
    ) -> Result<InterimAnalysis, AssessError> {
        let seen = schedule.repeats().get(at).copied().unwrap_or_else(|| slots_of_a_task(run.plan()));
        self.of_run(run.plan()).look_at(&outcomes(run, seen), seen, schedule, at)
    }

    /// The same for outcomes of `seen` repeats of each task.
    ///
    /// # Errors
    /// The errors of [`crate::assess`].
    pub fn look_at(
        &self,
        candidate: &Outcomes,
        seen: u32,
        schedule: &InterimSchedule,
        at: usize,
    ) -> Result<InterimAnalysis, AssessError> {
        let fraction = schedule.plan().boundaries.get(at).map_or(1.0, |boundary| boundary.fraction);
        let taken = |z, said: &str| InterimResult { repeats: seen, fraction, z, said: said.to_owned() };
        let Some(metric) = self.looked_at() else {
            return Ok(InterimAnalysis { taken: taken(None, "no metric to test"), ends: false });
        };
        let paired = self.paired(metric, candidate)?;
        let whole = paired.missing_data().is_empty();
        let z = Spread::of(&paired, direction_of(metric.kind)).z(metric.tolerance).filter(|_| whole);
        let says = schedule.plan().says(at, z.unwrap_or(f64::NAN));
        if at + 1 >= schedule.repeats().len() {
            return Ok(InterimAnalysis { taken: taken(z, "final analysis"), ends: false });
        }
        let when = AnalysisPoint::Interim(schedule);
        let broke = self.tasks_verdict(candidate, when)?.is_some_and(|tasks| tasks.verdict.fails());
        // I3: an interim analysis stops the run only if the verdicts at this point confirm it.
        let verdicts = match says {
            InterimDecision::Continue => Vec::new(),
            InterimDecision::StopForHarm | InterimDecision::StopForFutility => {
                self.metrics(candidate, when)?
            }
        };
        let passes = |verdict: &MetricVerdict| verdict.verdict.decision.is_pass();
        let fails = |verdict: &MetricVerdict| {
            verdict.name == metric.kind.name() && verdict.verdict.decision == Decision::Fail
        };
        let (said, ends) = match says {
            _ if broke => ("stops the run: a task broke", true),
            InterimDecision::Continue => ("continues", false),
            InterimDecision::StopForHarm if verdicts.iter().any(fails) => {
                ("stops the run: the candidate is worse", true)
            }
            InterimDecision::StopForHarm => (
                "continues: the candidate seems worse, but the test over tasks does not confirm it yet",
                false,
            ),
            InterimDecision::StopForFutility if !verdicts.iter().all(passes) => {
                ("continues: the candidate seems no worse, but not every metric confirms it yet", false)
            }
            InterimDecision::StopForFutility if self.suspects_a_task(candidate)? => {
                ("continues: the candidate seems no worse, but a task may have broken", false)
            }
            InterimDecision::StopForFutility => {
                ("stops the run: a worsening by min_effect is ruled out", true)
            }
        };
        Ok(InterimAnalysis { taken: taken(z, said), ends })
    }

    /// Judges every metric and task.
    ///
    /// # Errors
    /// The errors of [`crate::assess`].
    pub fn judge(&self, candidate: &Outcomes, when: AnalysisPoint<'_>) -> Result<Verdicts, AssessError> {
        Ok(Verdicts {
            metrics: self.metrics(candidate, when)?,
            each_task: self.tasks_verdict(candidate, when)?,
        })
    }

    fn tasks_verdict(
        &self,
        candidate: &Outcomes,
        when: AnalysisPoint<'_>,
    ) -> Result<Option<EachTaskVerdict>, AssessError> {
        let Some(alpha) = self.levels().tasks else { return Ok(None) };
        let level = match when {
            AnalysisPoint::Interim(schedule) => tasks_level(alpha, schedule.repeats().len(), false),
            AnalysisPoint::Final(Some(schedule)) => tasks_level(alpha, schedule.repeats().len(), true),
            AnalysisPoint::Final(None) => alpha,
        };
        let verdict = self.each_task(level).judge(&self.passes(candidate)?);
        Ok(Some(EachTaskVerdict { sentence: verdict.to_string(), verdict }))
    }

    /// The test of single tasks at this level.
    fn each_task(&self, alpha: f64) -> EachTask {
        EachTask {
            tolerance: self.gate.pass_rate().map_or(0.0, |metric| metric.tolerance),
            alpha,
            deterministic: self.gate.deterministic,
        }
    }

    /// The test of single tasks in the final analysis of a run of `repeats`; `None` if the gate does not judge single tasks.
    ///
    /// # Errors
    /// The errors of [`Self::schedule`].
    pub fn task_rule(&self, repeats: u32) -> Result<Option<EachTask>, AssessError> {
        let looks = self.schedule(repeats)?.map_or(1, |schedule| schedule.repeats().len());
        Ok(self.levels().tasks.map(|alpha| self.each_task(tasks_level(alpha, looks, true))))
    }

    /// Whether a task is so much worse that the run should not pass early.
    fn suspects_a_task(&self, candidate: &Outcomes) -> Result<bool, AssessError> {
        let Some(alpha) = self.levels().tasks else { return Ok(false) };
        Ok(self.each_task(alpha).suspects(&self.passes(candidate)?))
    }

    fn metrics(
        &self,
        candidate: &Outcomes,
        when: AnalysisPoint<'_>,
    ) -> Result<Vec<MetricVerdict>, AssessError> {
        let looked_at = self.looked_at().map(|metric| metric.kind);
        let metrics_level = self.levels().metrics;
        let level = match when {
            AnalysisPoint::Final(Some(schedule)) => schedule.final_level(metrics_level),
            AnalysisPoint::Final(None) | AnalysisPoint::Interim(_) => metrics_level,
        };
        let pair = |metric: &CiMetric| {
            let gate = Gate {
                metric: metric.kind.name(),
                direction: direction_of(metric.kind),
                tolerance: metric.tolerance,
                min_effect: metric.min_effect,
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

    /// Passes and fails of both sides, independent of the gate's metrics.
    pub(crate) fn passes(&self, candidate: &Outcomes) -> Result<Paired, AssessError> {
        self.paired(&CiMetric { kind: MetricKind::PassRate, tolerance: 0.0, min_effect: 1.0 }, candidate)
    }

    pub(crate) fn paired(&self, metric: &CiMetric, candidate: &Outcomes) -> Result<Paired, AssessError> {
        let rules = Completeness {
            max_fault_share: self.gate.completeness.max_fault_share,
            max_lost_share: self.gate.completeness.max_lost_share,
        };
        let (before, after) = (side(&self.baseline.outcomes, metric.kind), side(candidate, metric.kind));
        let refused = |source| AssessError::Pairing { metric: metric.kind.name(), source };
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
            metrics: vec![CiMetric { kind: MetricKind::PassRate, tolerance: 0.0, min_effect: 0.15 }],
            must_pass: Vec::new(),
            each_task: Some(false),
            alpha: 0.05,
            power: 0.9,
            interim_analyses: looks,
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
        let decided = |outcomes: &Outcomes, when: AnalysisPoint<'_>| {
            comparison.judge(outcomes, when).unwrap().metrics.swap_remove(0).verdict.decision
        };
        let schedule = comparison.schedule(REPEATS).unwrap();
        for (at, seen) in schedule.iter().flat_map(|schedule| schedule.repeats().iter().enumerate()) {
            let (outcomes, schedule) = (told(candidate, *seen), schedule.as_ref().unwrap());
            if comparison.look_at(&outcomes, *seen, schedule, at).unwrap().ends {
                let decision = decided(&outcomes, AnalysisPoint::Interim(schedule));
                return (decision, f64::from(*seen) / f64::from(REPEATS));
            }
        }
        (decided(&told(candidate, REPEATS), AnalysisPoint::Final(schedule.as_ref())), 1.0)
    }

    /// Shares of pipelines that fail and that pass, and the share of attempts used, if the pass rate of every task is multiplied by `kept`.
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
