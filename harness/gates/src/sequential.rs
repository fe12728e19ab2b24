//! Interim analyses: boundaries for harm and futility, and the expected savings.
//!
//! I1. The probability of ever stopping for harm without harm is alpha, whether or not stops for futility are obeyed: they are
//! non-binding. I2. At the drift of the plan it stops for futility with probability beta. I3. The final analysis always stops. I4. A NaN z
//! stops nothing before the end, and never counts as harm.
//!
//! Shapes: one boundary per analysis. Units: z of the harm against the tolerance, as in [`crate::Spread::z`]; information as a fraction of
//! that of the final analysis, which for repeats is their share. Errors: [`InterimPlanError`]. Pure; nothing to cancel.
//! Source: Lan and DeMets (1983) for spending functions of the O'Brien-Fleming and the Pocock type; Armitage,
//! McPherson and Rowe (1969) for the recursion; Pampallona, Tsiatis and Kim (2001) for spending beta. Deviations: alpha is one-sided, and
//! the O'Brien-Fleming type is that of a one-sided test: `2 - 2 Phi(z_{alpha/2} / sqrt(t))`.

use serde::{Deserialize, Serialize};

use crate::brownian::Motion;
use crate::distribution::{falling_root, upper_point, upper_tail};

/// Maximum number of analyses, and minimum information between two of them, which keep the integrals short.
const MAX_INTERIM_ANALYSES: usize = 20;
const MIN_STEP: f64 = 0.01;
/// Boundaries that are never crossed.
const MAX_BOUNDARY: f64 = 12.0;

/// Spending function of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spending {
    /// Spends little early, so that the final analysis is almost that of a fixed design.
    ObrienFleming,
    /// Nearly even.
    Pocock,
}

/// Times of the interim analyses, and error spending.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterimAnalyses {
    /// Shares of the information at the looks, ascending to 1.
    pub fractions: Vec<f64>,
    /// Probability of stopping for harm without harm, one-sided.
    pub alpha: f64,
    /// Spending function of alpha.
    pub spending: Spending,
    /// Probability of stopping for futility at the promised drop, and its spending; `None` for no futility stops before the end.
    pub futility: Option<(f64, Spending)>,
}

/// Reason for which there is no plan.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InterimPlanError {
    /// The number of analyses is 0 or too large.
    #[error("{looks} interim analyses are planned, but 1 to {MAX_INTERIM_ANALYSES} are possible")]
    Count {
        /// Number of analyses.
        looks: usize,
    },
    /// Not ascending to 1.
    #[error(
        "interim analyses at {fractions:?} of the information do not ascend to 1 in steps of {MIN_STEP} or more"
    )]
    Fractions {
        /// When.
        fractions: Vec<f64>,
    },
    /// The probability is invalid.
    #[error("{what} is {value}, but must be between 0 and 0.5")]
    Probability {
        /// The setting.
        what: &'static str,
        /// The refused value.
        value: f64,
    },
}

/// Boundaries of one analysis.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Boundary {
    /// Share of the information.
    pub fraction: f64,
    /// From this z on it stops for harm.
    pub harm: f64,
    /// The run stops for futility up to this z; minus infinity for never.
    pub futility: f64,
}

/// Decision of an interim analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InterimDecision {
    /// Neither is shown.
    Continue,
    /// The harm is above the tolerance.
    StopForHarm,
    /// The promised drop is improbable, or the final analysis showed no harm.
    StopForFutility,
}

/// Boundaries of all looks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InterimPlan {
    /// By look.
    pub boundaries: Vec<Boundary>,
    /// Total drift of z at the promised drop, if beta is spent.
    pub drift: Option<f64>,
    /// Factor by which the attempts exceed those of a fixed design with the same errors; at least 1.
    pub inflation: f64,
}

impl Boundary {
    /// Level of a single test that rejects from the boundary on: the rest of alpha for the verdict at this analysis.
    #[must_use]
    pub fn level(&self) -> f64 {
        upper_tail(self.harm)
    }
}

impl Spending {
    /// Part of `error` that is spent up to an information fraction.
    #[must_use]
    pub fn spent(self, error: f64, fraction: f64) -> f64 {
        match self {
            _ if fraction >= 1.0 => error,
            Self::ObrienFleming => 2.0 * upper_tail(upper_point(error / 2.0) / fraction.sqrt()),
            Self::Pocock => error * (1.0 + (std::f64::consts::E - 1.0) * fraction).ln(),
        }
    }
}

impl InterimAnalyses {
    /// Computes the boundaries.
    ///
    /// # Errors
    /// [`InterimPlanError`] for invalid analyses or errors.
    pub fn plan(&self) -> Result<InterimPlan, InterimPlanError> {
        self.check()?;
        let harm = self.harm_levels();
        let (futility, drift) = match self.futility {
            Some((beta, spending)) => self.futility_levels(&harm, beta, spending),
            None => (vec![f64::NEG_INFINITY; harm.len()], None),
        };
        let plain = self.futility.map(|(beta, _)| upper_point(self.alpha) + upper_point(beta));
        let inflation = drift.zip(plain).map_or(1.0, |(drift, plain)| (drift / plain).powi(2).max(1.0));
        let scaled = self.fractions.iter().zip(harm.iter().zip(&futility));
        let boundaries = scaled
            .map(|(fraction, (harm, futility))| Boundary {
                fraction: *fraction,
                harm: harm / fraction.sqrt(),
                futility: futility / fraction.sqrt(),
            })
            .collect();
        Ok(InterimPlan { boundaries, drift, inflation })
    }

    fn check(&self) -> Result<(), InterimPlanError> {
        let looks = self.fractions.len();
        if looks == 0 || looks > MAX_INTERIM_ANALYSES {
            return Err(InterimPlanError::Count { looks });
        }
        let before = std::iter::once(&0.0).chain(&self.fractions);
        let ascends = before.zip(&self.fractions).all(|(before, after)| after - before >= MIN_STEP - 1e-12);
        if !ascends || self.fractions.last().is_none_or(|last| (last - 1.0).abs() > 1e-12) {
            return Err(InterimPlanError::Fractions { fractions: self.fractions.clone() });
        }
        let beta = self.futility.map_or(0.1, |(beta, _)| beta);
        match [("alpha", self.alpha), ("beta", beta)].into_iter().find(|(_, p)| !(*p > 0.0 && *p < 0.5)) {
            Some((what, value)) => Err(InterimPlanError::Probability { what, value }),
            None => Ok(()),
        }
    }

    /// Levels of the motion, not of z; as if futility never stopped (I1).
    fn harm_levels(&self) -> Vec<f64> {
        let mut motion = Motion::new(0.0);
        let (mut levels, mut spent) = (Vec::new(), 0.0);
        for (at, &fraction) in self.fractions.iter().enumerate() {
            let total = self.spending.spent(self.alpha, fraction);
            let step = motion.step(fraction);
            let now = total - spent;
            let level = falling_root(-MAX_BOUNDARY, MAX_BOUNDARY, |level| step.above(level) - now);
            let stays = step.between(f64::NEG_INFINITY, level, self.next(at));
            levels.push(level);
            (motion, spent) = (stays, total);
        }
        levels
    }

    /// Levels at the drift at which the final level is that of harm, so that nothing remains open.
    fn futility_levels(&self, harm: &[f64], beta: f64, spending: Spending) -> (Vec<f64>, Option<f64>) {
        let plain = upper_point(self.alpha) + upper_point(beta);
        let left = |drift: f64| self.futility_at(drift, harm, beta, spending).1;
        let drift = falling_root(plain, 3.0 * plain, left);
        (self.futility_at(drift, harm, beta, spending).0, Some(drift))
    }

    /// Levels at a drift, and by how much more than beta it would then miss harm.
    fn futility_at(&self, drift: f64, harm: &[f64], beta: f64, spending: Spending) -> (Vec<f64>, f64) {
        let mut motion = Motion::new(drift);
        let (mut levels, mut spent, mut missed) = (Vec::new(), 0.0, 0.0);
        for (at, (&fraction, &harm)) in self.fractions.iter().zip(harm).enumerate() {
            let step = motion.step(fraction);
            let total = spending.spent(beta, fraction);
            let now = total - spent;
            let is_last = at + 1 == self.fractions.len();
            let level = if is_last {
                harm
            } else {
                falling_root(-MAX_BOUNDARY, harm, |level| now - step.below(level))
            };
            missed += step.below(level);
            let stays = step.between(level, harm, self.next(at));
            levels.push(level);
            (motion, spent) = (stays, total);
        }
        (levels, missed - beta)
    }

    fn next(&self, at: usize) -> f64 {
        self.fractions.get(at + 1).map_or(1.0, |next| next - self.fractions[at])
    }
}

impl InterimPlan {
    /// Decision of analysis `at`, from 0, for a z; numbers beyond the final analysis mean the final one.
    #[must_use]
    pub fn says(&self, at: usize, z: f64) -> InterimDecision {
        let is_last = at + 1 >= self.boundaries.len();
        match self.boundaries.get(at.min(self.boundaries.len().saturating_sub(1))) {
            Some(boundary) if z >= boundary.harm => InterimDecision::StopForHarm,
            Some(boundary) if is_last || z <= boundary.futility => InterimDecision::StopForFutility,
            Some(_) => InterimDecision::Continue,
            None => InterimDecision::StopForFutility,
        }
    }

    /// The probabilities of stopping for harm and for futility at each analysis, if z moves by `drift` over all the information.
    #[must_use]
    pub fn stops(&self, drift: f64) -> Vec<(f64, f64)> {
        let mut motion = Motion::new(drift);
        let mut stops = Vec::new();
        for (at, boundary) in self.boundaries.iter().enumerate() {
            let scale = boundary.fraction.sqrt();
            let (low, high) = (boundary.futility * scale, boundary.harm * scale);
            let next = self.boundaries.get(at + 1);
            let step = motion.step(boundary.fraction);
            stops.push((step.above(high), if next.is_some() { step.below(low) } else { step.below(high) }));
            let stays = step.between(low, high, next.map_or(1.0, |next| next.fraction - boundary.fraction));
            motion = stays;
        }
        stops
    }

    /// The share of the information that is used on average at that drift.
    #[must_use]
    pub fn expected_fraction(&self, drift: f64) -> f64 {
        let stops = self.stops(drift);
        stops.iter().zip(&self.boundaries).map(|((harm, futility), at)| (harm + futility) * at.fraction).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(count: u32, spending: Spending) -> InterimAnalyses {
        let fractions = (1..=count).map(|look| f64::from(look) / f64::from(count)).collect();
        InterimAnalyses { fractions, alpha: 0.025, spending, futility: None }
    }

    #[test]
    fn boundaries_of_five_looks() {
        let check = |spending, expected: &[f64]| {
            let plan = looks(5, spending).plan().unwrap();
            for (boundary, expected) in plan.boundaries.iter().zip(expected) {
                assert!((boundary.harm - expected).abs() < 1e-3, "{boundary:?} is not {expected}");
            }
        };
        // With these boundaries, scipy's five-dimensional normal distribution gives the spent alpha, up to its own error of 5e-6.
        check(Spending::ObrienFleming, &[4.877, 3.357, 2.680, 2.290, 2.031]);
        check(Spending::Pocock, &[2.438, 2.427, 2.410, 2.397, 2.386]);
    }

    #[test]
    fn one_look_is_a_test() {
        let plan = looks(1, Spending::Pocock).plan().unwrap();
        assert!((plan.boundaries[0].harm - 1.959_963_984_540_054).abs() < 1e-9);
        assert!((plan.boundaries[0].level() - 0.025).abs() < 1e-9);
        let with = InterimAnalyses { futility: Some((0.1, Spending::Pocock)), ..looks(1, Spending::Pocock) }
            .plan()
            .unwrap();
        assert!((with.inflation - 1.0).abs() < 1e-6, "{}", with.inflation);
    }

    /// I1, I2.
    #[test]
    fn errors_are_spent() {
        for spending in [Spending::ObrienFleming, Spending::Pocock] {
            let looks = InterimAnalyses { futility: Some((0.1, spending)), ..looks(4, spending) };
            let plan = looks.plan().unwrap();
            let total = |drift, of: fn(&(f64, f64)) -> f64| plan.stops(drift).iter().map(of).sum::<f64>();
            let binding = total(0.0, |stop| stop.0);
            assert!(binding < 0.025 && binding > 0.02, "{binding}");
            let drift = plan.drift.unwrap();
            assert!((total(drift, |stop| stop.1) - 0.1).abs() < 1e-6);
            assert!((total(drift, |stop| stop.0) - 0.9).abs() < 1e-6);
            let mut obeyed = plan.clone();
            obeyed.boundaries.iter_mut().for_each(|boundary| boundary.futility = f64::NEG_INFINITY);
            let ignored: f64 = obeyed.stops(0.0).iter().map(|stop| stop.0).sum();
            assert!((ignored - 0.025).abs() < 1e-7, "{ignored}");
            assert!(plan.inflation > 1.0 && plan.inflation < 1.6, "{}", plan.inflation);
            assert!(plan.boundaries.iter().all(|at| at.futility <= at.harm));
            // Twice the promised drop is seen with well under 70 % of the attempts.
            assert!(plan.expected_fraction(2.0 * drift) < 0.6, "{}", plan.expected_fraction(2.0 * drift));
        }
    }

    /// I3, I4.
    #[test]
    fn interim_decisions_follow_boundaries() {
        let plan = InterimAnalyses { futility: Some((0.1, Spending::Pocock)), ..looks(3, Spending::Pocock) }
            .plan()
            .unwrap();
        let check = |at, z, expected| assert_eq!(plan.says(at, z), expected, "{z} at {at}");
        check(0, 3.0, InterimDecision::StopForHarm);
        check(0, 1.0, InterimDecision::Continue);
        check(0, -3.0, InterimDecision::StopForFutility);
        check(0, f64::NAN, InterimDecision::Continue);
        check(2, 3.0, InterimDecision::StopForHarm);
        check(2, 1.9, InterimDecision::StopForFutility);
        check(2, f64::NAN, InterimDecision::StopForFutility);
        check(7, 3.0, InterimDecision::StopForHarm);
    }

    #[test]
    fn looks_that_are_none() {
        let check = |looks: InterimAnalyses, expected: &str| {
            let told = looks.plan().unwrap_err().to_string();
            assert!(told.contains(expected), "{told:?} says nothing of {expected:?}");
        };
        let good = || looks(2, Spending::Pocock);
        check(InterimAnalyses { fractions: Vec::new(), ..good() }, "0 interim analyses");
        check(InterimAnalyses { fractions: vec![0.5, 0.4, 1.0], ..good() }, "do not ascend to 1");
        check(InterimAnalyses { fractions: vec![0.5], ..good() }, "do not ascend to 1");
        check(InterimAnalyses { fractions: vec![f64::NAN, 1.0], ..good() }, "do not ascend to 1");
        check(InterimAnalyses { alpha: 0.0, ..good() }, "alpha is 0");
        check(InterimAnalyses { futility: Some((0.7, Spending::Pocock)), ..good() }, "beta is 0.7");
    }
}
