//! The clipped policy-gradient loss of one segment, with its derivative by the current log-probabilities.
//!
//! I1. `d_current` is the exact derivative of `loss`: importance weights, proximal and behaviour log-probabilities
//! are constants. I2. A token that is not trained contributes nothing, whatever its columns hold. I3. A segment in
//! which any trained token has o - b below -[`MAX_DROP`], or no number, contributes nothing and is counted: the two
//! log-probabilities are not of the same token. Its tokens stay in the denominator, which is older than this finding.
//!
//! Shapes: every column is T. Units: nats. Arithmetic is in f64; columns come and go in f32. Pure; nothing to cancel.
//! Source: clipping: PPO, arXiv 1707.06347, equation 7, with two sides as in DAPO, 2503.14476; dual clip:
//! 1912.09729; truncated importance weights: 2510.18855 (IcePop) and 2507.18071 (geometric mean over a sequence).
//! Deviations: none.

use crate::loss_config::{PolicyLoss, Weighting};

/// By how much recomputing may lower a log-probability, in nats.
pub const MAX_DROP: f64 = 10.0;

/// The columns of one segment.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// n: by the current parameters.
    pub current: &'a [f32],
    /// o: by the parameters at the start of the batch. The same slice as `current` while those are the current ones.
    pub proximal: &'a [f32],
    /// b: as recorded at sampling.
    pub behaviour: &'a [f32],
    /// A.
    pub advantages: &'a [f32],
    /// m.
    pub mask: &'a [bool],
    /// m / denominator, from [`crate::token_weights`].
    pub weights: &'a [f64],
}

/// What a segment adds to the loss of its optimizer step.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentLoss {
    /// Its share of the aggregated loss.
    pub loss: f64,
    /// Derivative of that by each current log-probability. Shape T; 0 where nothing is trained.
    pub d_current: Vec<f32>,
    /// For the metrics.
    pub figures: LossFigures,
}

/// What the terms of trained tokens looked like. Figures of several segments add up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LossFigures {
    /// Tokens whose terms count.
    pub tokens: u64,
    /// Of those, tokens whose gradient a clip took away.
    pub clipped: u64,
    /// Sum of |o - b| over them.
    pub gap: f64,
    /// Segments dropped by I3.
    pub dropped_segments: u64,
    /// Trained tokens in them.
    pub dropped_tokens: u64,
}

impl LossFigures {
    /// Share of tokens whose gradient a clip took away.
    #[must_use]
    pub fn clip_fraction(&self) -> f64 {
        self.clipped as f64 / self.tokens.max(1) as f64
    }

    /// Mean of |o - b|.
    #[must_use]
    pub fn behaviour_gap(&self) -> f64 {
        self.gap / self.tokens.max(1) as f64
    }
}

impl std::ops::AddAssign for LossFigures {
    fn add_assign(&mut self, other: Self) {
        self.tokens += other.tokens;
        self.clipped += other.clipped;
        self.gap += other.gap;
        self.dropped_segments += other.dropped_segments;
        self.dropped_tokens += other.dropped_tokens;
    }
}

/// The loss of one segment.
///
/// # Panics
/// When the columns differ in length, or [`PolicyLoss::check`] would refuse the settings: faults of the caller.
#[must_use]
pub fn policy_gradient(config: &PolicyLoss, terms: Terms<'_>) -> SegmentLoss {
    let len = terms.current.len();
    let columns = [
        terms.proximal.len(),
        terms.behaviour.len(),
        terms.advantages.len(),
        terms.mask.len(),
        terms.weights.len(),
    ];
    assert!(
        columns.iter().all(|&column| column == len),
        "columns of one segment differ in length: {columns:?}"
    );

    let mut result = SegmentLoss { loss: 0.0, d_current: vec![0.0; len], figures: LossFigures::default() };
    let trained: Vec<usize> = (0..len).filter(|&token| terms.mask[token]).collect();
    let gap = |token: usize| f64::from(terms.proximal[token]) - f64::from(terms.behaviour[token]);
    if !trained.iter().all(|&token| gap(token) >= -MAX_DROP) {
        result.figures.dropped_segments = 1;
        result.figures.dropped_tokens = trained.len() as u64;
        return result;
    }

    let of_segment = segment_weight(config.weighting, trained.iter().map(|&token| gap(token)));
    for &token in &trained {
        let importance = of_segment.unwrap_or_else(|| token_weight(config.weighting, gap(token)));
        let weight = importance * terms.weights[token];
        let log_ratio = f64::from(terms.current[token]) - f64::from(terms.proximal[token]);
        let term = clipped_term(config, log_ratio, f64::from(terms.advantages[token]));
        result.loss += weight * term.value;
        result.d_current[token] = (weight * term.derivative) as f32;
        result.figures.tokens += 1;
        result.figures.clipped += u64::from(term.clipped);
        result.figures.gap += gap(token).abs();
    }
    result
}

/// The surrogate at one token.
struct Term {
    value: f64,
    /// By n.
    derivative: f64,
    clipped: bool,
}

/// max(-rho A, -clip(rho) A) with rho = exp(n - o); for A < 0 at most -`dual_clip` A.
fn clipped_term(config: &PolicyLoss, log_ratio: f64, advantage: f64) -> Term {
    let ratio = log_ratio.exp();
    let plain = -ratio * advantage;
    let bounded = -ratio.clamp(1.0 - config.clip_low, 1.0 + config.clip_high) * advantage;
    // Where both agree the gradient is the plain one's: the clip binds only where it raises the loss.
    let (mut value, mut clipped) = if bounded > plain { (bounded, true) } else { (plain, false) };
    if let Some(bound) = config.dual_clip.filter(|_| advantage < 0.0) {
        let most = -bound * advantage;
        if value > most {
            (value, clipped) = (most, true);
        }
    }
    Term { value, derivative: if clipped { 0.0 } else { plain }, clipped }
}

/// The importance weight that all tokens of a segment share, if this kind has one.
fn segment_weight(weighting: Weighting, gaps: impl ExactSizeIterator<Item = f64>) -> Option<f64> {
    let count = gaps.len().max(1) as f64;
    match weighting {
        Weighting::Sequence { cap } => Some(gaps.sum::<f64>().exp().min(cap)),
        Weighting::Geometric { cap } => Some((gaps.sum::<f64>() / count).exp().min(cap)),
        Weighting::None | Weighting::Token { .. } | Weighting::IcePop { .. } => None,
    }
}

/// The importance weight of one token.
fn token_weight(weighting: Weighting, gap: f64) -> f64 {
    let ratio = gap.exp();
    match weighting {
        Weighting::Token { cap } => ratio.min(cap),
        Weighting::IcePop { low, high } if (low..=high).contains(&ratio) => ratio,
        Weighting::IcePop { .. } => 0.0,
        Weighting::None | Weighting::Sequence { .. } | Weighting::Geometric { .. } => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One trained token with weight 1: the loss and its derivative.
    fn token(config: &PolicyLoss, log_ratio: f32, gap: f32, advantage: f32) -> (f64, f32, LossFigures) {
        let proximal = -1.0;
        let terms = Terms {
            current: &[proximal + log_ratio],
            proximal: &[proximal],
            behaviour: &[proximal - gap],
            advantages: &[advantage],
            mask: &[true],
            weights: &[1.0],
        };
        let result = policy_gradient(config, terms);
        (result.loss, result.d_current[0], result.figures)
    }

    fn check(
        config: &PolicyLoss,
        (ratio, gap, advantage): (f32, f32, f32),
        expected: (f64, f64),
        clipped: u64,
    ) {
        let (loss, derivative, figures) = token(config, ratio.ln(), gap, advantage);
        let close = (loss - expected.0).abs() < 1e-5 && (f64::from(derivative) - expected.1).abs() < 1e-5;
        assert!(close, "ratio {ratio}, gap {gap}, A {advantage}: ({loss}, {derivative}) is not {expected:?}");
        assert_eq!(figures.clipped, clipped, "ratio {ratio}, A {advantage}");
    }

    #[test]
    fn the_clip_binds_where_it_raises_the_loss() {
        let config = PolicyLoss { weighting: Weighting::None, ..PolicyLoss::default() };
        check(&config, (1.0, 0.0, 2.0), (-2.0, -2.0), 0);
        check(&config, (1.5, 0.0, 2.0), (-2.56, 0.0), 1);
        check(&config, (0.5, 0.0, 2.0), (-1.0, -1.0), 0);
        check(&config, (0.5, 0.0, -2.0), (1.6, 0.0), 1);
        check(&config, (1.5, 0.0, -2.0), (3.0, 3.0), 0);
        check(&config, (1.5, 0.0, 0.0), (0.0, 0.0), 0);
        let dual = PolicyLoss { dual_clip: Some(3.0), ..config };
        check(&dual, (2.0, 0.0, -1.0), (2.0, 2.0), 0);
        check(&dual, (4.0, 0.0, -1.0), (3.0, 0.0), 1);
        check(&dual, (4.0, 0.0, 1.0), (-1.28, 0.0), 1);
    }

    #[test]
    fn importance_weights_are_bounded() {
        let two = std::f32::consts::LN_2;
        let with = |weighting| PolicyLoss { weighting, ..PolicyLoss::default() };
        check(&with(Weighting::Token { cap: 2.0 }), (1.0, -two, 1.0), (-0.5, -0.5), 0);
        check(&with(Weighting::Token { cap: 2.0 }), (1.0, 2.0 * two, 1.0), (-2.0, -2.0), 0);
        let icepop = with(Weighting::IcePop { low: 0.5, high: 5.0 });
        check(&icepop, (1.0, 2.0 * two, 1.0), (-4.0, -4.0), 0);
        check(&icepop, (1.0, 3.0 * two, 1.0), (0.0, 0.0), 0);
        check(&icepop, (1.0, -2.0 * two, 1.0), (0.0, 0.0), 0);
    }

    #[test]
    fn sequences_share_one_weight() {
        let two = std::f32::consts::LN_2;
        let weigh = |weighting| {
            let terms = Terms {
                current: &[0.0, -1.0, -1.0],
                proximal: &[0.0, -1.0, -1.0],
                behaviour: &[9.0, -1.0, -1.0 + two],
                advantages: &[9.0, 1.0, 1.0],
                mask: &[false, true, true],
                weights: &[0.0, 0.5, 0.5],
            };
            policy_gradient(&PolicyLoss { weighting, ..PolicyLoss::default() }, terms)
        };
        assert!((weigh(Weighting::Sequence { cap: 2.0 }).loss + 0.5).abs() < 1e-6);
        let geometric = weigh(Weighting::Geometric { cap: 2.0 });
        assert!((geometric.loss + 0.5f64.sqrt()).abs() < 1e-6);
        assert_eq!(geometric.d_current[0], 0.0);
        assert!((geometric.figures.behaviour_gap() - f64::from(two) / 2.0).abs() < 1e-6);
    }

    #[test]
    fn i3_a_segment_that_does_not_match_its_record_is_dropped() {
        for gap in [-10.5, f32::NAN, f32::NEG_INFINITY] {
            let (loss, derivative, figures) = token(&PolicyLoss::default(), 0.0, gap, 1.0);
            assert_eq!((loss, derivative), (0.0, 0.0), "{gap}");
            assert_eq!(
                (figures.dropped_segments, figures.dropped_tokens, figures.tokens),
                (1, 1, 0),
                "{gap}"
            );
        }
        let (_, derivative, figures) = token(&PolicyLoss::default(), 0.0, -9.5, 1.0);
        assert!(derivative < 0.0 && figures.dropped_segments == 0);
    }

    fn weightings() -> impl Strategy<Value = Weighting> {
        prop_oneof![
            Just(Weighting::None),
            Just(Weighting::Token { cap: 2.0 }),
            Just(Weighting::Sequence { cap: 2.0 }),
            Just(Weighting::Geometric { cap: 2.0 }),
            Just(Weighting::IcePop { low: 0.5, high: 5.0 }),
        ]
    }

    proptest! {
        #[test]
        fn i1_the_derivative_is_that_of_the_loss(
            weighting in weightings(),
            dual_clip in prop::option::of(1.5..4.0f64),
            log_ratio in -1.5..1.5f32,
            gap in -1.5..1.5f32,
            advantage in -3.0..3.0f32,
        ) {
            let config = PolicyLoss { weighting, dual_clip, ..PolicyLoss::default() };
            let step = 1.0 / 1024.0;
            let (_, derivative, here) = token(&config, log_ratio, gap, advantage);
            let (above, _, after) = token(&config, log_ratio + step, gap, advantage);
            let (below, _, before) = token(&config, log_ratio - step, gap, advantage);
            // Not across a kink, where the difference says nothing.
            prop_assume!(here.clipped == after.clipped && here.clipped == before.clipped);
            let difference = (above - below) / f64::from(2.0 * step);
            prop_assert!((difference - f64::from(derivative)).abs() < 2e-3 * (1.0 + difference.abs()));
        }

        #[test]
        fn i2_what_is_not_trained_is_not_read(values in prop::collection::vec(any::<f32>(), 4)) {
            let column = |value: f32| vec![value, -1.0];
            let (current, proximal) = (column(values[0]), column(values[1]));
            let (behaviour, advantages) = (column(values[2]), column(values[3]));
            let result = policy_gradient(&PolicyLoss::default(), Terms {
                current: &current,
                proximal: &proximal,
                behaviour: &behaviour,
                advantages: &advantages,
                mask: &[false, true],
                weights: &[0.0, 1.0],
            });
            prop_assert_eq!(result.loss, 1.0);
            prop_assert_eq!(result.d_current, vec![0.0, 1.0]);
        }
    }
}
