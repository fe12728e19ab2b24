//! What a gate says: pass, fail, or inconclusive and what it lacks.
//!
//! I1. Nothing passes without evidence: the upper bound of the harm is below the harm that matters, or a policy that is known to be
//! deterministic did the same everywhere. Of numbers without bounds that came out as before in every attempt, the upper bound is that of the share
//! of attempts that may be otherwise, each by as much as attempts were seen to differ at most. I2. Nothing fails but by a test at level alpha of "the harm is at most the tolerance".
//! I3. Where outcomes are too few, nothing passes or fails. I4. What fails does not pass. I5. Several gates of one candidate share their alpha
//! by Holm; all of them have to pass, so a pass is not adjusted.
//!
//! Units: those of the metric; of passes, shares here and points of a percentage in words. Errors: [`GateError`]. Pure; nothing to cancel.
//! Source: both tests by [`SubsetMeans`]; a pass is a test of non-inferiority (Blackwelder, 1982). Deviations: the upper bound of the harm of a
//! number within [0, 1] is never closer to what was seen than that of Clopper and Pearson (1934) for as many failures in as many attempts, because rare
//! failures have little spread to resample, and none that was seen has none.
//!
//! A verdict is about the tasks of the suite. Of a change that breaks few tasks of many a suite knows nothing that has none of them.

use serde::{Deserialize, Serialize};

use crate::distribution::{at_most, upper_point};
use crate::exact::share_below;
use crate::holm::holm;
use crate::null::{or_infinity, or_minus_infinity, or_nan};
use crate::outcomes::{Direction, Kind, Paired, Shortfall};
use crate::power::fewest_tasks;
use crate::resampling::SubsetMeans;
use crate::variance::Spread;

/// With which probability as many repeats as are asked for decide, if the harm is what was seen.
const DECIDES: f64 = 0.8;
/// Tasks whose attempts differ, for what was seen to say how far attempts may be apart.
const VARYING_TASKS: usize = 5;
/// Asking for more than so many times the attempts is asking for other tasks.
const MOST_TIMES: f64 = 100.0;

/// What a metric has to keep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Name of the metric.
    pub metric: String,
    /// Which way it is better.
    pub direction: Direction,
    /// Harm up to which nothing is wrong.
    pub tolerance: f64,
    /// The smallest harm that matters; above the tolerance.
    pub matters: f64,
    /// Probability of a wrong fail at the tolerance, and of a wrong pass at the harm that matters.
    pub alpha: f64,
    /// Whether both agents are known to do the same each time.
    pub deterministic: bool,
}

/// Why a gate is none.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GateError {
    /// No such probability, or nothing between what is tolerated and what matters.
    #[error("{what} of {metric:?} is {value}, and has to be {expected}")]
    Setting {
        /// Of which metric.
        metric: String,
        /// Which setting.
        what: &'static str,
        /// What it is.
        value: f64,
        /// What it may be.
        expected: &'static str,
    },
}

/// The numbers of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Tasks with values of both sides.
    pub tasks: usize,
    /// Attempts of the side with fewer.
    pub attempts: u64,
    /// Mean over tasks of the baseline; no number without tasks.
    #[serde(deserialize_with = "or_nan")]
    pub baseline: f64,
    /// That of the candidate.
    #[serde(deserialize_with = "or_nan")]
    pub candidate: f64,
    /// How much worse the candidate is.
    #[serde(deserialize_with = "or_nan")]
    pub harm: f64,
    /// Lower bound of the harm at level alpha; minus infinity where there is none.
    #[serde(deserialize_with = "or_minus_infinity")]
    pub lower: f64,
    /// Upper bound; infinity where there is none.
    #[serde(deserialize_with = "or_infinity")]
    pub upper: f64,
    /// p-value against "the harm is at most the tolerance".
    pub p_harm: f64,
    /// The same, adjusted for the other gates.
    pub p_adjusted: f64,
    /// p-value against "the harm is what matters, or more".
    pub p_pass: f64,
    /// Whether the p-values are of all ways to flip signs.
    pub is_exact: bool,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Not worse by what matters.
    Pass,
    /// A deterministic agent did the same everywhere.
    Same,
    /// An agent that draws came out the same in every attempt.
    Copied,
    /// Worse by more than is tolerated.
    Fail,
    /// Neither is shown.
    Inconclusive(Lack),
}

impl Decision {
    /// Whether it is one of those by which a metric passes.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        matches!(self, Self::Pass | Self::Same | Self::Copied)
    }
}

/// What a decision lacks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// Outcomes.
    Outcomes(Vec<Shortfall>),
    /// Tasks: so few reach no such level.
    Tasks {
        /// How many it takes.
        needed: u64,
    },
    /// Repeats of each task, of both sides.
    Repeats {
        /// How many more.
        more: u64,
    },
    /// Any variation of a number by which its harm could be bounded.
    Variation,
}

/// What a gate says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Of which gate.
    pub gate: Gate,
    /// Of which values.
    pub kind: Kind,
    /// By which numbers.
    pub findings: Findings,
    /// What was decided.
    pub decision: Decision,
}

impl Gate {
    /// Judges one metric.
    ///
    /// # Errors
    /// [`GateError`] where the gate is none.
    pub fn judge(&self, paired: &Paired, seed: u64) -> Result<Verdict, GateError> {
        self.check()?;
        let findings = self.findings(paired, seed);
        Ok(self.decide(paired, findings))
    }

    fn check(&self) -> Result<(), GateError> {
        let Self { tolerance, matters, alpha, .. } = *self;
        let rules = [
            ("tolerance", tolerance, tolerance >= 0.0 && tolerance.is_finite(), "0 or more"),
            (
                "the harm that matters",
                matters,
                matters > tolerance && matters.is_finite(),
                "above the tolerance",
            ),
            ("alpha", alpha, alpha > 0.0 && alpha < 0.5, "between 0 and 0.5"),
        ];
        match rules.into_iter().find(|(_, _, holds, _)| !holds) {
            Some((what, value, _, expected)) => {
                Err(GateError::Setting { metric: self.metric.clone(), what, value, expected })
            }
            None => Ok(()),
        }
    }

    fn findings(&self, paired: &Paired, seed: u64) -> Findings {
        let harms = paired.harms(self.direction);
        let (baseline, candidate) = paired.means();
        let harm =
            if self.direction == Direction::Higher { baseline - candidate } else { candidate - baseline };
        let means = SubsetMeans::new(&harms, seed);
        let attempts = paired.fewer_attempts();
        let (mut upper, mut p_pass) = (means.upper(self.alpha), means.p_below(self.matters));
        if paired.is_bounded() {
            // Failures that are rare, or were not seen at all, are further off than their own spread says.
            let count = attempts as f64;
            let failures = (harm.clamp(0.0, 1.0) * count).ceil().min(count);
            let beside = harm - failures / count;
            upper = upper.max(beside + share_below(failures as u64, attempts, self.alpha));
            let share = (self.matters - beside).clamp(0.0, 1.0);
            p_pass = p_pass.max(at_most(failures as u64, attempts, share));
        }
        let p_harm = means.p_above(self.tolerance);
        Findings {
            tasks: harms.len(),
            attempts,
            baseline,
            candidate,
            harm,
            lower: means.lower(self.alpha),
            upper,
            p_harm,
            p_adjusted: p_harm,
            p_pass,
            is_exact: means.is_exact(),
        }
    }

    fn decide(&self, paired: &Paired, findings: Findings) -> Verdict {
        let decision = self.decision(paired, &findings);
        Verdict { gate: self.clone(), kind: paired.kind(), findings, decision }
    }

    fn decision(&self, paired: &Paired, findings: &Findings) -> Decision {
        if !paired.shortfalls().is_empty() || paired.tasks().is_empty() {
            return Decision::Inconclusive(Lack::Outcomes(paired.shortfalls().to_vec()));
        }
        if self.deterministic && paired.is_identical() {
            return Decision::Same;
        }
        let needed = fewest_tasks(self.alpha);
        if findings.tasks < needed {
            return Decision::Inconclusive(Lack::Tasks { needed: needed as u64 });
        }
        if findings.p_adjusted <= self.alpha {
            return Decision::Fail;
        }
        if self.is_copied(paired, findings) {
            return Decision::Copied;
        }
        let harms = paired.harms(self.direction);
        // Of numbers without bounds that differ at few tasks nothing is known: what they are elsewhere may be a chance of few attempts.
        let vary = harms.iter().filter(|harm| **harm != 0.0).count() >= needed || self.deterministic;
        if !paired.is_bounded() && (!vary || harms.iter().all(|harm| *harm == harms[0])) {
            return Decision::Inconclusive(Lack::Variation);
        }
        if findings.upper < self.matters {
            return Decision::Pass;
        }
        Decision::Inconclusive(self.lack(paired, findings))
    }

    /// Whether a number without bounds came out as before so often that no more than what matters can be otherwise. Attempts that share
    /// their seeds are not independent, so that it is not by chance that few are alike; many are.
    fn is_copied(&self, paired: &Paired, findings: &Findings) -> bool {
        let varies = paired.copies().is_some_and(|vary| vary >= VARYING_TASKS);
        let values = || paired.tasks().iter().flat_map(|task| task.baseline.iter().chain(&task.candidate));
        let least = values().copied().fold(f64::INFINITY, f64::min);
        let most = values().copied().fold(f64::NEG_INFINITY, f64::max);
        let otherwise = share_below(0, findings.attempts, self.alpha);
        varies && !paired.is_bounded() && otherwise * (most - least) < self.matters
    }

    /// What would decide, if the harm is what was seen.
    fn lack(&self, paired: &Paired, findings: &Findings) -> Lack {
        let spread = Spread::of(paired, self.direction);
        let leans_to_pass = self.matters - findings.harm >= findings.harm - self.tolerance;
        let distance = (self.matters - findings.harm).max(findings.harm - self.tolerance);
        let largest = (distance / (upper_point(self.alpha) + upper_point(1.0 - DECIDES))).powi(2);
        let (from_attempts, from_tasks) = spread.parts();
        let room = largest - from_tasks;
        let mut times = from_attempts / room;
        if leans_to_pass && paired.is_bounded() {
            let attempts = self.alpha.ln() / (-distance.min(0.999)).ln_1p();
            times = times.max(attempts / findings.attempts as f64);
        }
        if room <= 0.0 || times > MOST_TIMES {
            let needed = (from_attempts + from_tasks) / largest * spread.tasks as f64;
            return Lack::Tasks { needed: (needed.ceil() as u64).max(spread.tasks as u64 + 1) };
        }
        let repeats = findings.attempts as f64 / findings.tasks as f64;
        Lack::Repeats { more: (((times - 1.0) * repeats).ceil() as u64).max(1) }
    }
}

/// Judges several metrics of one candidate, which share alpha among them.
///
/// # Errors
/// [`GateError`] of the first gate that is none.
pub fn judge_together(gates: &[(Gate, &Paired)], seed: u64) -> Result<Vec<Verdict>, GateError> {
    gates.iter().try_for_each(|(gate, _)| gate.check())?;
    let mut found: Vec<Findings> = gates.iter().map(|(gate, paired)| gate.findings(paired, seed)).collect();
    let adjusted = holm(&found.iter().map(|findings| findings.p_harm).collect::<Vec<_>>());
    found.iter_mut().zip(adjusted).for_each(|(findings, p)| findings.p_adjusted = p);
    // The smallest p-value of all is held against so much of alpha.
    let fewest = |gate: &Gate| fewest_tasks(gate.alpha / gates.len() as f64);
    let decide = |(gate, paired): &(Gate, &Paired), findings| {
        let mut verdict = gate.decide(paired, findings);
        // No number of repeats helps where so few tasks cannot fail together with the other gates.
        if let (Decision::Inconclusive(Lack::Repeats { .. }), true) =
            (&verdict.decision, verdict.findings.tasks < fewest(gate))
        {
            verdict.decision = Decision::Inconclusive(Lack::Tasks { needed: fewest(gate) as u64 });
        }
        verdict
    };
    Ok(gates.iter().zip(found).map(|(gate, findings)| decide(gate, findings)).collect())
}
