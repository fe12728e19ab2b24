//! On-policy distillation: a teacher scores the tokens that the policy sampled, or its most probable candidates.
//!
//! The teacher reads more than the policy did (a hint, a demonstration, what came next), so it is another distribution over
//! the same tokens.
//!
//! I1. A token without a score of the teacher contributes nothing. I2. Terms lie within the bound for all log-probabilities.
//! I3. `d_current` of [`top_k`] is the exact derivative of its loss by each candidate's current log-probability.
//!
//! Shapes: T tokens, K candidates of each. Units: nats, at the temperature that the token was sampled at. Pure; nothing to cancel.
//! Source: OpenClaw-RL, arXiv 2603.10165; SDFT, 2601.19897; SDPO, 2601.20802. Deviations: both forms are bounded, and have a
//! weight relative to the outcome's term.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::loss_config::Clip;

/// How the scores of a teacher enter the loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Distillation {
    /// Factor on the term of the teacher, above 0. [`crate::PolicyLoss::outcome_weight`] is the factor on the outcome.
    pub weight: f64,
    /// Bound of a difference of log-probabilities, nats; over 0.
    pub bound: f64,
    /// The tokens that the teacher scores.
    pub form: DistillationForm,
    /// Versions in which the weight falls along a line to 0; `None` keeps it.
    pub fade: Option<NonZeroU32>,
}

impl Default for Distillation {
    fn default() -> Self {
        Self { weight: 1.0, bound: 1.0, form: DistillationForm::default(), fade: None }
    }
}

/// The tokens that the teacher scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DistillationForm {
    /// The sampled token: d = clip(teacher - o) is added to its advantage.
    #[default]
    Sampled,
    /// The most probable tokens of the policy, with a separate loss.
    TopK {
        /// Number of candidates.
        k: NonZeroU32,
        /// The weight of each candidate.
        weight: CandidateWeight,
    },
}

/// The weight of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateWeight {
    /// The probability among the candidates, which sums to 1.
    #[default]
    Renormalised,
    /// The probability of the candidate.
    Mass,
}

impl Distillation {
    /// The configuration for the update of these parameters; `None` once the weight has fallen to 0.
    #[must_use]
    pub fn at(self, version: u64) -> Option<Self> {
        let share = self.fade.map_or(1.0, |fade| 1.0 - version as f64 / f64::from(fade.get()));
        (share > 0.0).then_some(Self { weight: share * self.weight, ..self })
    }

    /// d: how much more probable the teacher finds a token than the policy did, bounded.
    #[must_use]
    pub fn difference(&self, teacher: f32, proximal: f32) -> f64 {
        (f64::from(teacher) - f64::from(proximal)).clamp(-self.bound, self.bound)
    }
}

/// The candidates at one token: log-probabilities of each, in one order.
#[derive(Debug, Clone, Copy)]
pub struct Candidates<'a> {
    /// By the current parameters (K).
    pub current: &'a [f32],
    /// By the parameters at the start of the batch (K).
    pub proximal: &'a [f32],
    /// By the teacher (K).
    pub teacher: &'a [f32],
}

/// The loss terms of the candidates of a segment.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateLoss {
    /// The segment's share of the aggregated loss.
    pub loss: f64,
    /// Derivative of the loss by each current log-probability (T x K); rows without candidates are empty.
    pub d_current: Vec<Vec<f32>>,
    /// Sum over tokens of the squared contribution of the teacher, averaged over the candidates by their weights.
    pub square: f64,
}

/// The loss over candidates of one segment: sum over t of w_t times the sum over v of max(-A rho, -A clip(rho)), with
/// A = clip(teacher - o) times the weight of the candidate. `weights` as [`crate::token_weights`] makes them (T).
///
/// # Panics
/// If columns differ in length, which is an error of the caller.
#[must_use]
pub fn top_k(
    config: &Distillation,
    counts: CandidateWeight,
    clip: Clip,
    candidates: &[Option<Candidates<'_>>],
    weights: &[f64],
) -> CandidateLoss {
    assert_eq!(candidates.len(), weights.len(), "columns of one segment differ in length");
    let (mut loss, mut square) = (0.0, 0.0);
    let d_current = candidates
        .iter()
        .zip(weights)
        .map(|(candidates, &weight)| {
            let Some(candidates) = candidates.filter(|_| weight != 0.0) else { return Vec::new() };
            let (of_token, of_square, mut derivatives) = of_token(config, counts, clip, candidates);
            loss += config.weight * weight * of_token;
            square += config.weight * config.weight * of_square;
            for derivative in &mut derivatives {
                *derivative *= config.weight * weight;
            }
            derivatives.into_iter().map(|derivative| derivative as f32).collect()
        })
        .collect();
    CandidateLoss { loss, d_current, square }
}

fn of_token(
    config: &Distillation,
    counts: CandidateWeight,
    clip: Clip,
    candidates: Candidates<'_>,
) -> (f64, f64, Vec<f64>) {
    let Candidates { current, proximal, teacher } = candidates;
    assert!(current.len() == proximal.len() && current.len() == teacher.len(), "candidates differ in number");
    let probabilities: Vec<f64> = proximal.iter().map(|&logprob| f64::from(logprob).exp()).collect();
    let total = match counts {
        CandidateWeight::Renormalised => probabilities.iter().sum(),
        CandidateWeight::Mass => 1.0,
    };
    let (mut loss, mut square) = (0.0, 0.0);
    let derivatives = (0..current.len()).map(|at| {
        let (difference, share) = (config.difference(teacher[at], proximal[at]), probabilities[at] / total);
        let advantage = difference * share;
        square += difference * difference * share;
        let ratio = (f64::from(current[at]) - f64::from(proximal[at])).exp();
        let plain = -ratio * advantage;
        let bounded = -ratio.clamp(1.0 - clip.low, 1.0 + clip.high) * advantage;
        loss += plain.max(bounded);
        if bounded > plain { 0.0 } else { plain }
    });
    let derivatives = derivatives.collect();
    (loss, square, derivatives)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row<'a>(current: &'a [f32], proximal: &'a [f32], teacher: &'a [f32]) -> Option<Candidates<'a>> {
        Some(Candidates { current, proximal, teacher })
    }

    #[test]
    fn a_weight_that_fades_falls_along_a_line_and_is_gone() {
        let weight = |fade, version| {
            let config = Distillation { weight: 0.5, fade: NonZeroU32::new(fade), ..Distillation::default() };
            config.at(version).map(|at| at.weight)
        };
        assert_eq!([0, 1, 2, 3].map(|version| weight(4, version)), [0.5, 0.375, 0.25, 0.125].map(Some));
        assert_eq!([weight(4, 4), weight(4, 5), weight(1, 1)], [None; 3]);
        assert_eq!(weight(0, 1_000), Some(0.5), "0 stands for none");
    }

    #[test]
    fn by_hand() {
        let (half, quarter) = (0.5f32.ln(), 0.25f32.ln());
        let proximal = [half, quarter];
        // Differences ln 1.5 and a bounded -1.
        let teacher = [0.75f32.ln(), -9.0];
        let config = Distillation { weight: 2.0, ..Distillation::default() };
        let of = |counts| {
            let candidates = [None, row(&proximal, &proximal, &teacher)];
            top_k(&config, counts, Clip::TOKEN, &candidates, &[0.5, 0.5])
        };
        let renormalised = of(CandidateWeight::Renormalised);
        let (first, second) = (1.5f64.ln() * 2.0 / 3.0, -1.0 / 3.0);
        assert!((renormalised.loss + first + second).abs() < 1e-6, "{renormalised:?}");
        assert_eq!(renormalised.d_current[0], Vec::<f32>::new());
        // The weight's square, times the mean of both differences' squares.
        let square = 4.0 * (1.5f64.ln().powi(2) * 2.0 / 3.0 + 1.0 / 3.0);
        assert!((renormalised.square - square).abs() < 1e-6, "{renormalised:?}");
        let row = &renormalised.d_current[1];
        assert!(
            (f64::from(row[0]) + first).abs() < 1e-6 && (f64::from(row[1]) + second).abs() < 1e-6,
            "{row:?}"
        );
        let mass = of(CandidateWeight::Mass);
        assert!((mass.loss - renormalised.loss * 0.75).abs() < 1e-6, "{mass:?}");
    }

    #[test]
    fn i1_who_was_not_asked_says_nothing() {
        let candidates = [None, row(&[0.0], &[0.0], &[-1.0])];
        let result =
            top_k(&Distillation::default(), CandidateWeight::Mass, Clip::TOKEN, &candidates, &[1.0, 0.0]);
        assert_eq!(result, CandidateLoss { loss: 0.0, d_current: vec![Vec::new(), Vec::new()], square: 0.0 });
    }

    #[test]
    fn i2_differences_are_bounded() {
        let config = Distillation { bound: 0.5, ..Distillation::default() };
        assert_eq!(config.difference(0.0, -9.0), 0.5);
        assert_eq!(config.difference(f32::NEG_INFINITY, -1.0), -0.5);
        assert_eq!(config.difference(-1.25, -1.0), -0.25);
    }

    proptest! {
        #[test]
        fn i3_the_derivative_is_that_of_the_loss(
            rows in prop::collection::vec((-3.0..-0.1f32, -4.0..0.0f32, -0.5..0.5f32), 1..5),
            at in 0usize..4,
            mass in any::<bool>(),
        ) {
            let at = at % rows.len();
            let counts = if mass { CandidateWeight::Mass } else { CandidateWeight::Renormalised };
            let proximal: Vec<f32> = rows.iter().map(|row| row.0).collect();
            let teacher: Vec<f32> = rows.iter().map(|row| row.1).collect();
            let step = 1.0 / 4096.0;
            let with = |by: f32| {
                let mut current: Vec<f32> = rows.iter().map(|row| row.0 + row.2).collect();
                current[at] += by;
                top_k(&Distillation::default(), counts, Clip::TOKEN, &[row(&current, &proximal, &teacher)], &[0.25])
            };
            let (above, here, below) = (with(step), with(0.0), with(-step));
            let kinks = [&above, &here, &below].map(|result| result.d_current[0][at] == 0.0);
            prop_assume!(kinks[0] == kinks[1] && kinks[1] == kinks[2]);
            let numeric = (above.loss - below.loss) / f64::from(2.0 * step);
            prop_assert!((numeric - f64::from(here.d_current[0][at])).abs() < 1e-3);
        }
    }
}
