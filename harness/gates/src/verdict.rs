//! Verdicts of gates: pass, fail, or inconclusive with a reason.
//!
//! I1. Nothing passes without evidence: the upper bound of the harm is below `min_effect`, or a known deterministic
//! policy is within the tolerance. For unbounded numbers that equal the baseline in every attempt, the upper bound is that of
//! the share of attempts that may differ, each by at most the observed range. I2. Nothing fails except by a test at level
//! alpha of "the harm is at most the tolerance", or because the harm is known. I3. With missing data nothing passes or fails. I4. A failing
//! metric does not pass. I5. Several gates of one candidate share their alpha by Holm; all have to pass, so a pass is not adjusted. I6. The
//! proposed repeats or tasks decide, by the judging code itself, if further attempts resemble the observed ones; not checked beyond a thousand tasks.
//!
//! Units: those of the metric; passes as shares here and as percentage points in sentences. Errors: [`GateError`]. Pure; nothing to cancel.
//! Source: both tests by [`SubsetMeans`]; a pass is a test of non-inferiority (Blackwelder, 1982). Deviations: the upper bound of the harm of a
//! bounded number is never closer to the observed harm than that of Clopper and Pearson (1934) for equally many failures and attempts,
//! because rare failures have little spread to resample, and unobserved ones have none. For other numbers this applies if too few
//! tasks differ for resampling.
//!
//! A verdict is about the population that the tasks are sampled from. A change that breaks a few of many tasks is found by
//! [`crate::EachTask`].

use serde::{Deserialize, Serialize};

use crate::distribution::{at_most, upper_point};
use crate::exact::share_below;
use crate::holm::holm;
use crate::null::{or_infinity, or_minus_infinity, or_nan};
use crate::outcomes::{Direction, Kind, MissingData, Paired};
use crate::power::{MAX_REPEATS, fewest_tasks};
use crate::resampling::SubsetMeans;
use crate::variance::Spread;

/// Probability that the proposed repeats decide, if the harm is the observed one.
const DECIDES: f64 = 0.8;
/// Minimum number of tasks with varying attempts that shows how far attempts may differ.
const VARYING_TASKS: usize = 5;
/// Maximum factor of proposed repeats: beyond it, more tasks are proposed.
const MAX_FACTOR: f64 = 100.0;
/// Number of tasks up to which a proposal is exact: a larger one means another suite, and need not be exact.
const MAX_TASKS: usize = 1_000;
/// Factor by which a proposal grows if it would not decide.
const STEP: f64 = 1.25;
/// A share that is all but one.
const NEARLY_ALL: f64 = 0.999;
/// Smaller values are rounding errors of zero.
const NOTHING: f64 = 1e-9;

/// Requirement on a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Name of the metric.
    pub metric: String,
    /// Optimisation direction.
    pub direction: Direction,
    /// Tolerated harm.
    pub tolerance: f64,
    /// The smallest harm that matters; above the tolerance.
    #[serde(rename = "matters")]
    pub min_effect: f64,
    /// Probability of a wrong fail at the tolerance, and of a wrong pass at the harm that matters.
    pub alpha: f64,
    /// Whether both agents are known to be deterministic.
    pub deterministic: bool,
    /// Maximum difference between two attempts, if it is known for an unbounded number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<f64>,
}

/// Reason for which a gate is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GateError {
    /// Not a probability, or `min_effect` not above the tolerance.
    #[error("{what} of {metric:?} is {value}, but must be {expected}")]
    Setting {
        /// Name of the metric.
        metric: String,
        /// Name of the setting.
        what: &'static str,
        /// The refused value.
        value: f64,
        /// The valid values.
        expected: &'static str,
    },
}

/// The numbers of a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Tasks with values of both sides.
    pub tasks: usize,
    /// Values of the side with fewer: one for each attempt, or for each task of a metric that is about all attempts at a task.
    pub attempts: u64,
    /// Tasks whose mean changed.
    #[serde(default)]
    pub differ: usize,
    /// Whether the harm is known instead of estimated, because both agents are deterministic.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
    /// Mean over tasks of the baseline; no number without tasks.
    #[serde(deserialize_with = "or_nan")]
    pub baseline: f64,
    /// Mean over tasks of the candidate.
    #[serde(deserialize_with = "or_nan")]
    pub candidate: f64,
    /// Harm: worsening of the candidate's mean.
    #[serde(deserialize_with = "or_nan")]
    pub harm: f64,
    /// Lower bound of the harm at level alpha; minus infinity without one.
    #[serde(deserialize_with = "or_minus_infinity")]
    pub lower: f64,
    /// Upper bound of the harm; infinity without one.
    #[serde(deserialize_with = "or_infinity")]
    pub upper: f64,
    /// p-value against "the harm is at most the tolerance".
    pub p_harm: f64,
    /// p-value adjusted for the other metrics.
    pub p_adjusted: f64,
    /// p-value against "the harm is `min_effect` or more".
    pub p_pass: f64,
    /// Whether the p-values are exact, that is, over all sign flips.
    pub is_exact: bool,
}

/// Decision on a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Worse by less than `min_effect`.
    Pass,
    /// A deterministic agent did the same everywhere.
    Same,
    /// An agent that draws came out the same in every attempt.
    Copied,
    /// Worse by more than is tolerated.
    Fail,
    /// Neither is shown.
    Inconclusive(InconclusiveReason),
}

impl Decision {
    /// Whether the metric passes.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        matches!(self, Self::Pass | Self::Same | Self::Copied)
    }
}

/// Reason for which a decision is inconclusive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InconclusiveReason {
    /// Outcomes.
    Outcomes(Vec<MissingData>),
    /// More tasks: so few cannot reach the level.
    Tasks {
        /// Number of tasks needed.
        needed: u64,
    },
    /// Repeats of each task, of both sides.
    Repeats {
        /// Number of additional repeats.
        more: u64,
    },
    /// Any variation of a number by which its harm could be bounded.
    Variation,
    /// Attempts that are as before: of so few, too many of any further ones may differ.
    Copies {
        /// Repeats of each task.
        more: u64,
    },
}

/// Verdict on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateVerdict {
    /// The gate.
    pub gate: Gate,
    /// Type of the values.
    pub kind: Kind,
    /// By which numbers.
    pub findings: Findings,
    /// The decision.
    pub decision: Decision,
}

impl Gate {
    /// Judges one metric.
    ///
    /// # Errors
    /// [`GateError`] for an invalid gate.
    pub fn judge(&self, paired: &Paired, seed: u64) -> Result<GateVerdict, GateError> {
        self.check()?;
        let findings = self.findings(paired, seed);
        Ok(self.decide(paired, findings, 1))
    }

    fn check(&self) -> Result<(), GateError> {
        let Self { tolerance, min_effect, alpha, .. } = *self;
        let rules = [
            ("tolerance", tolerance, tolerance >= 0.0 && tolerance.is_finite(), "0 or more"),
            (
                "min_effect",
                min_effect,
                min_effect > tolerance && min_effect.is_finite(),
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
        let attempts = paired.fewer_attempts();
        let differ = harms.iter().filter(|harm| !is_nothing(**harm)).count();
        let found = Findings {
            tasks: harms.len(),
            attempts,
            differ,
            known: self.deterministic && paired.is_steady(),
            baseline,
            candidate,
            harm,
            lower: harm,
            upper: harm,
            p_harm: certain(harm <= self.tolerance + NOTHING),
            p_adjusted: certain(harm <= self.tolerance + NOTHING),
            p_pass: certain(harm >= self.min_effect),
            is_exact: true,
        };
        if found.known {
            return found;
        }
        let means = SubsetMeans::new(&harms, seed);
        let (mut upper, mut p_pass) = (means.upper(self.alpha), means.p_below(self.min_effect));
        if let Some(span) = self.span_of(paired, &harms) {
            let rare = Rare::of(harm, span, attempts);
            upper = upper.max(rare.upper(self.alpha));
            p_pass = p_pass.max(rare.p_below(self.min_effect));
        }
        let p_harm = means.p_above(self.tolerance);
        Findings {
            lower: means.lower(self.alpha),
            upper,
            p_harm,
            p_adjusted: p_harm,
            p_pass,
            is_exact: means.is_exact(),
            ..found
        }
    }

    /// By how much an attempt can be worse, where resampling knows too little of attempts that seldom are.
    fn span_of(&self, paired: &Paired, harms: &[f64]) -> Option<f64> {
        if paired.is_bounded() { Some(1.0) } else { self.span.filter(|_| !self.varies(harms)) }
    }

    /// Whether enough tasks differ to resample an unbounded number; with fewer, the difference may be chance.
    fn varies(&self, harms: &[f64]) -> bool {
        let differ = harms.iter().filter(|harm| !is_nothing(**harm)).count();
        differ >= fewest_tasks(self.alpha) && harms.iter().any(|harm| !is_nothing(harm - harms[0]))
    }

    /// With how many gates that share alpha, itself included.
    fn decide(&self, paired: &Paired, findings: Findings, together: usize) -> GateVerdict {
        let decision = self.decision(paired, &findings, together);
        GateVerdict { gate: self.clone(), kind: paired.kind(), findings, decision }
    }

    fn decision(&self, paired: &Paired, findings: &Findings, together: usize) -> Decision {
        if !paired.missing_data().is_empty() || paired.tasks().is_empty() {
            return Decision::Inconclusive(InconclusiveReason::Outcomes(paired.missing_data().to_vec()));
        }
        if self.deterministic && paired.is_identical() {
            return Decision::Same;
        }
        let fewest = fewest_tasks(self.alpha);
        if findings.tasks < fewest && !findings.known {
            return Decision::Inconclusive(self.lack(paired, findings, together));
        }
        if findings.p_adjusted <= self.alpha {
            return Decision::Fail;
        }
        let copies = self
            .copies_needed(paired)
            .map(|needed| ((needed - findings.attempts as f64) / findings.tasks as f64).ceil());
        match copies {
            Some(more) if more <= 0.0 => return Decision::Copied,
            _ if findings.known => return Decision::Pass,
            _ => {}
        }
        let harms = paired.harms(self.direction);
        if self.span_of(paired, &harms).is_none() && !self.varies(&harms) {
            let lack = copies.map_or(InconclusiveReason::Variation, |more| InconclusiveReason::Copies {
                more: more as u64,
            });
            return Decision::Inconclusive(lack);
        }
        if findings.upper < self.min_effect {
            return Decision::Pass;
        }
        Decision::Inconclusive(self.lack(paired, findings, together))
    }

    /// Number of attempts without a difference after which the share of differing attempts is bounded below `min_effect`, for an unbounded number
    /// that equals the baseline in every attempt. Attempts with shared seeds are not independent, so a few equal attempts are not evidence; many are.
    fn copies_needed(&self, paired: &Paired) -> Option<f64> {
        let varies = paired.copies().is_some_and(|vary| vary >= VARYING_TASKS);
        if !varies || paired.is_bounded() {
            return None;
        }
        let values = || paired.tasks().iter().flat_map(|task| task.baseline.iter().chain(&task.candidate));
        let least = values().copied().fold(f64::INFINITY, f64::min);
        let most = values().copied().fold(f64::NEG_INFINITY, f64::max);
        let share = (self.min_effect / (most - least)).min(NEARLY_ALL);
        // The first number whose bound is strictly below `min_effect`.
        Some((self.alpha.ln() / (-share).ln_1p() * (1.0 + 1e-12)).floor() + 1.0)
    }

    /// The data that would decide, if the harm is the observed one.
    fn lack(&self, paired: &Paired, findings: &Findings, together: usize) -> InconclusiveReason {
        // More repeats do not help if so few tasks cannot fail at the level shared with the other gates.
        let fewest = fewest_tasks(self.alpha / together as f64);
        let spread = Spread::of(paired, self.direction);
        let mut harms = paired.harms(self.direction);
        let span = self.span_of(paired, &harms);
        harms.sort_by(f64::total_cmp);
        let leans_to_pass = self.min_effect - findings.harm >= findings.harm - self.tolerance;
        let seen =
            Seen { gate: self, harms, spread, span, attempts: findings.attempts, leans_to_pass, together };
        let distance = (self.min_effect - findings.harm).max(findings.harm - self.tolerance);
        let largest = (distance / (upper_point(self.alpha) + upper_point(1.0 - DECIDES))).powi(2);
        let (from_attempts, from_tasks) = spread.parts();
        // Attempts that rule out rare failures.
        let sure = span.filter(|_| leans_to_pass).map_or(0.0, |span| {
            self.alpha.ln() / (-(distance / span).min(NEARLY_ALL)).ln_1p() / findings.attempts as f64
        });
        let repeats = findings.attempts as f64 / findings.tasks as f64;
        // A metric with one value per task becomes more precise with more attempts, by an unknown amount.
        if findings.tasks >= fewest && paired.kind() != Kind::Share && largest > from_tasks {
            let mut times = (from_attempts / (largest - from_tasks)).max(sure);
            while times <= MAX_FACTOR && times * repeats <= f64::from(MAX_REPEATS) {
                let more = ((times - 1.0) * repeats).ceil().max(1.0);
                if seen.decides(1.0 + more / repeats, findings.tasks) {
                    return InconclusiveReason::Repeats { more: more as u64 };
                }
                times = (1.0 + more / repeats) * STEP;
            }
        }
        let mut times = ((from_attempts + from_tasks) / largest).max(sure).max(1.0);
        let needed = |times: f64| {
            let tasks = (times * findings.tasks as f64).ceil() as usize;
            tasks.max(findings.tasks + 1).max(fewest)
        };
        while needed(times) <= MAX_TASKS && !seen.decides(1.0, needed(times)) {
            times *= STEP;
        }
        InconclusiveReason::Tasks { needed: needed(times) as u64 }
    }
}

/// The p-value of a known statement: 1 or 0.
fn certain(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// Whether a harm is a rounding error of zero.
fn is_nothing(harm: f64) -> bool {
    harm.abs() <= NOTHING
}

/// Bound for rare or unobserved failures, whose spread is too small to resample: the observed number of failures, each of the whole span, plus
/// the remaining difference.
struct Rare {
    span: f64,
    attempts: u64,
    failures: u64,
    beside: f64,
}

impl Rare {
    fn of(harm: f64, span: f64, attempts: u64) -> Self {
        let count = attempts as f64;
        let failures = ((harm / span).clamp(0.0, 1.0) * count).ceil().min(count);
        Self { span, attempts, failures: failures as u64, beside: harm - span * failures / count }
    }

    fn upper(&self, alpha: f64) -> f64 {
        self.beside + self.span * share_below(self.failures, self.attempts, alpha)
    }

    fn p_below(&self, harm: f64) -> f64 {
        at_most(self.failures, self.attempts, ((harm - self.beside) / self.span).clamp(0.0, 1.0))
    }
}

/// The observations, scaled to a larger number of attempts or tasks.
struct Seen<'a> {
    gate: &'a Gate,
    /// In ascending order.
    harms: Vec<f64>,
    spread: Spread,
    span: Option<f64>,
    /// Attempts of the side with fewer.
    attempts: u64,
    /// Whether the harm is nearer to the tolerance than to `min_effect`.
    leans_to_pass: bool,
    together: usize,
}

impl Seen<'_> {
    /// Whether `attempts` times the attempts at each of `tasks` tasks decide in the direction of the observed harm: more attempts reduce the within-task
    /// spread of harms, and additional tasks repeat the observed ones.
    fn decides(&self, attempts: f64, tasks: usize) -> bool {
        let Spread { seen, between_tasks, harm, .. } = self.spread;
        let left = between_tasks + (seen - between_tasks).max(0.0) / attempts;
        let kept = if seen > 0.0 { (left / seen).sqrt() } else { 1.0 };
        let before = self.harms.len();
        let harms: Vec<f64> =
            (0..tasks).map(|at| harm + kept * (self.harms[at * before / tasks] - harm)).collect();
        let means = SubsetMeans::new(&harms, 0);
        let Gate { alpha, tolerance, min_effect, .. } = *self.gate;
        if !self.leans_to_pass {
            return means.p_above(tolerance) * self.together as f64 <= alpha;
        }
        let values = (self.attempts as f64 * attempts * tasks as f64 / before as f64).round() as u64;
        let rare = self.span.map_or(f64::NEG_INFINITY, |span| Rare::of(harm, span, values).upper(alpha));
        means.upper(alpha).max(rare) < min_effect
    }
}

/// Judges several metrics of one candidate that share alpha.
///
/// # Errors
/// [`GateError`] of the first invalid gate.
pub fn judge_together(gates: &[(Gate, &Paired)], seed: u64) -> Result<Vec<GateVerdict>, GateError> {
    gates.iter().try_for_each(|(gate, _)| gate.check())?;
    let mut found: Vec<Findings> = gates.iter().map(|(gate, paired)| gate.findings(paired, seed)).collect();
    let adjusted = holm(&found.iter().map(|findings| findings.p_harm).collect::<Vec<_>>());
    found.iter_mut().zip(adjusted).for_each(|(findings, p)| findings.p_adjusted = p);
    let decide =
        |((gate, paired), findings): (&(Gate, &Paired), Findings)| gate.decide(paired, findings, gates.len());
    Ok(gates.iter().zip(found).map(decide).collect())
}
