//! The policy-gradient loss of one segment, with its derivative by the current log-probabilities.
//!
//! I1. `d_current` is the exact derivative of `loss`: importance weights, proximal, behaviour, reference and teacher
//! log-probabilities are constants. (With a ratio of segments this holds if the advantages of a segment are equal; otherwise it is
//! the derivative of the token form, see below.) I2. A token that is not trained contributes nothing, for all values in its columns. I3. A
//! segment in which any trained token has o - b below -[`MAX_DROP`], or NaN, contributes nothing and is counted: the two
//! log-probabilities are not of the same token. Its tokens stay in the denominator, which is computed before this check.
//!
//! Shapes: every column is T. Units: nats. Arithmetic is in f64; columns come and go in f32. Pure; nothing to cancel.
//! Source: clipping: PPO, arXiv 1707.06347, equation 7, with two sides as in DAPO, 2503.14476; dual clip:
//! 1912.09729; ratios of segments: GSPO, 2507.18071, equations 5 to 7, and its token form, equations 13 and 14, where advantages
//! differ within a segment; bounded weights of log-probabilities: CISPO, 2506.13585, equations 4 and 5, without its lower bound, as
//! there; truncated importance weights: 2510.18855 (IcePop) and 2507.18071 (geometric mean over a sequence). The cost of a
//! distance: [`crate::divergence`]. Deviations: none.

use crate::distillation::DistillationForm;
use crate::divergence::kl_term;
use crate::loss_config::{Clip, PolicyLoss, Surrogate, Weighting};

/// Maximum drop of a log-probability when it is recomputed, in nats.
pub const MAX_DROP: f64 = 10.0;

/// Bound of the detached ratio e^(n-b), the weight of the distance penalty.
const KL_WEIGHT_CAP: f64 = 2.0;

/// The columns of one segment.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// n: log-probabilities by the current parameters.
    pub current: &'a [f32],
    /// o: log-probabilities by the parameters at the start of the batch; the same slice as `current` before the first step.
    pub proximal: &'a [f32],
    /// b: log-probabilities recorded at sampling.
    pub behaviour: &'a [f32],
    /// A: advantages.
    pub advantages: &'a [f32],
    /// m: the mask of trained tokens.
    pub mask: &'a [bool],
    /// m / denominator: weights from [`crate::token_weights`].
    pub weights: &'a [f64],
    /// Log-probabilities by the reference policy; required by [`PolicyLoss::kl`].
    pub reference: Option<&'a [f32]>,
    /// Log-probabilities by the teacher, of the tokens that it scored; required by [`PolicyLoss::distillation`].
    pub teacher: Option<&'a [Option<f32>]>,
}

/// The loss terms of a segment in its optimizer step.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentLoss {
    /// The segment's share of the aggregated loss.
    pub loss: f64,
    /// Derivative of the loss by each current log-probability. Shape T; 0 for tokens that are not trained.
    pub d_current: Vec<f32>,
    /// Statistics for the metrics.
    pub figures: LossFigures,
}

/// Statistics of the terms of trained tokens. Those of several segments add up.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LossFigures {
    /// Tokens whose terms count.
    pub tokens: u64,
    /// Of those, tokens whose gradient a clip took away, or whose weight a cap made smaller.
    pub clipped: u64,
    /// Sum of |o - b| over them.
    pub gap: f64,
    /// Sum of the estimates of the divergence from the reference over them, nats.
    pub kl: f64,
    /// Sum of the squares of the outcome's contributions to the advantage of each token.
    pub outcome_square: f64,
    /// Sum of the squares of the teacher's contributions.
    pub teacher_square: f64,
    /// Segments dropped by I3.
    pub dropped_segments: u64,
    /// Trained tokens in them.
    pub dropped_tokens: u64,
}

impl LossFigures {
    /// Share of tokens whose gradient a clip took away, or whose weight a cap made smaller.
    #[must_use]
    pub fn clip_fraction(&self) -> f64 {
        self.clipped as f64 / self.tokens.max(1) as f64
    }

    /// Mean estimate of the divergence from the reference, nats.
    #[must_use]
    pub fn kl_mean(&self) -> f64 {
        self.kl / self.tokens.max(1) as f64
    }

    /// Root mean squares of the contributions of outcome and teacher to an advantage.
    #[must_use]
    pub fn advantage_rms(&self) -> (f64, f64) {
        let rms = |sum: f64| (sum / self.tokens.max(1) as f64).sqrt();
        (rms(self.outcome_square), rms(self.teacher_square))
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
        self.kl += other.kl;
        self.outcome_square += other.outcome_square;
        self.teacher_square += other.teacher_square;
        self.dropped_segments += other.dropped_segments;
        self.dropped_tokens += other.dropped_tokens;
    }
}

/// The loss of one segment.
///
/// # Panics
/// If the columns differ in length, [`PolicyLoss::check`] would refuse the settings, or a distance penalty has no reference:
/// errors of the caller.
#[must_use]
pub fn policy_gradient(config: &PolicyLoss, terms: Terms<'_>) -> SegmentLoss {
    let len = terms.current.len();
    let columns = [
        terms.proximal.len(),
        terms.behaviour.len(),
        terms.advantages.len(),
        terms.mask.len(),
        terms.weights.len(),
        terms.reference.map_or(len, <[f32]>::len),
        terms.teacher.map_or(len, <[Option<f32>]>::len),
    ];
    assert!(
        columns.iter().all(|&column| column == len),
        "columns of one segment differ in length: {columns:?}"
    );
    assert!(config.kl.is_none() || terms.reference.is_some(), "there is no reference to keep near to");

    let mut result = SegmentLoss { loss: 0.0, d_current: vec![0.0; len], figures: LossFigures::default() };
    let trained: Vec<usize> = (0..len).filter(|&token| terms.mask[token]).collect();
    let difference =
        |left: &[f32], right: &[f32], token: usize| f64::from(left[token]) - f64::from(right[token]);
    let gap = |token: usize| difference(terms.proximal, terms.behaviour, token);
    if !trained.iter().all(|&token| gap(token) >= -MAX_DROP) {
        result.figures.dropped_segments = 1;
        result.figures.dropped_tokens = trained.len() as u64;
        return result;
    }

    let of_segment = segment_weight(config.weighting, trained.iter().map(|&token| gap(token)));
    let log_ratio = |token: usize| difference(terms.current, terms.proximal, token);
    let mean_log_ratio =
        trained.iter().map(|&token| log_ratio(token)).sum::<f64>() / trained.len().max(1) as f64;
    for &token in &trained {
        let importance = of_segment.unwrap_or_else(|| token_weight(config.weighting, gap(token)));
        let outcome = config.outcome_weight * f64::from(terms.advantages[token]);
        let taught = teaching(config, &terms, token);
        let advantage = outcome + taught;
        let off_policy = difference(terms.current, terms.behaviour, token).exp();
        let term = match config.surrogate {
            Surrogate::Token { clip, dual_clip } => {
                clipped_term(clip, dual_clip, log_ratio(token), advantage)
            }
            Surrogate::Sequence { clip } => clipped_term(clip, None, mean_log_ratio, advantage),
            Surrogate::Cispo { cap } => {
                weighed_term(off_policy, cap, f64::from(terms.current[token]), advantage)
            }
        };
        let weight = importance * terms.weights[token];
        let (mut loss, mut derivative) = (weight * term.value, weight * term.derivative);
        if let (Some(penalty), Some(reference)) = (config.kl, terms.reference) {
            let kl = kl_term(penalty.estimator, difference(reference, terms.current, token));
            let weight = terms.weights[token] * penalty.coefficient * off_policy.min(KL_WEIGHT_CAP);
            loss += weight * kl.value;
            derivative += weight * kl.derivative;
            result.figures.kl += kl.value;
        }
        result.loss += loss;
        result.d_current[token] = derivative as f32;
        result.figures.tokens += 1;
        result.figures.clipped += u64::from(term.clipped);
        result.figures.gap += gap(token).abs();
        result.figures.outcome_square += outcome * outcome;
        result.figures.teacher_square += taught * taught;
    }
    result
}

/// The contribution of a teacher to the advantage of a sampled token; 0 if the teacher did not score the token.
fn teaching(config: &PolicyLoss, terms: &Terms<'_>, token: usize) -> f64 {
    let Some(distillation) = config.distillation.filter(|it| it.form == DistillationForm::Sampled) else {
        return 0.0;
    };
    let said = terms.teacher.and_then(|teacher| teacher[token]);
    said.map_or(0.0, |said| distillation.weight * distillation.difference(said, terms.proximal[token]))
}

/// The surrogate at one token.
struct Term {
    value: f64,
    /// Derivative by n.
    derivative: f64,
    clipped: bool,
}

/// max(-rho A, -clip(rho) A) with rho = e^`log_ratio`; for A < 0 at most -`dual_clip` A.
fn clipped_term(clip: Clip, dual_clip: Option<f64>, log_ratio: f64, advantage: f64) -> Term {
    let ratio = log_ratio.exp();
    let plain = -ratio * advantage;
    let bounded = -ratio.clamp(1.0 - clip.low, 1.0 + clip.high) * advantage;
    // If both agree, the gradient is that of the unclipped term: the clip binds only if it raises the loss.
    let (mut value, mut clipped) = if bounded > plain { (bounded, true) } else { (plain, false) };
    if let Some(bound) = dual_clip.filter(|_| advantage < 0.0) {
        let most = -bound * advantage;
        if value > most {
            (value, clipped) = (most, true);
        }
    }
    Term { value, derivative: if clipped { 0.0 } else { plain }, clipped }
}

/// -min(e^(n-b), cap) A n, where only the factor n is not a constant: every token has a gradient.
fn weighed_term(off_policy: f64, cap: f64, current: f64, advantage: f64) -> Term {
    let weight = off_policy.min(cap);
    Term { value: -weight * advantage * current, derivative: -weight * advantage, clipped: off_policy > cap }
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
    use crate::distillation::Distillation;
    use crate::loss_config::{KlEstimator, KlPenalty};

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
            reference: None,
            teacher: None,
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
    fn the_clip_of_sequences_is_a_thousand_times_narrower() {
        let of = |surrogate| PolicyLoss { surrogate, weighting: Weighting::None, ..PolicyLoss::default() };
        let sequence = of(Surrogate::Sequence { clip: Clip::SEQUENCE });
        check(&sequence, (1.0003, 0.0, 1.0), (-1.0003, -1.0003), 0);
        check(&sequence, (1.001, 0.0, 1.0), (-1.0004, 0.0), 1);
        check(&sequence, (0.999, 0.0, -1.0), (0.9997, 0.0), 1);
        check(&of(Surrogate::default()), (1.001, 0.0, 1.0), (-1.001, -1.001), 0);
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
        let surrogate = Surrogate::Token { clip: Clip::TOKEN, dual_clip: Some(3.0) };
        let dual = PolicyLoss { surrogate, ..config };
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
                reference: None,
                teacher: None,
            };
            policy_gradient(&PolicyLoss { weighting, ..PolicyLoss::default() }, terms)
        };
        assert!((weigh(Weighting::Sequence { cap: 2.0 }).loss + 0.5).abs() < 1e-6);
        let geometric = weigh(Weighting::Geometric { cap: 2.0 });
        assert!((geometric.loss + 0.5f64.sqrt()).abs() < 1e-6);
        assert_eq!(geometric.d_current[0], 0.0);
        assert!((geometric.figures.behaviour_gap() - f64::from(two) / 2.0).abs() < 1e-6);
    }

    /// Three trained tokens of one advantage and weight 1/3 behind one that is not trained.
    fn segment(config: &PolicyLoss, current: [f32; 4], advantage: f32) -> SegmentLoss {
        let terms = Terms {
            current: &current,
            proximal: &[-1.0; 4],
            behaviour: &[-1.0; 4],
            advantages: &[advantage; 4],
            mask: &[false, true, true, true],
            weights: &[0.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0],
            reference: Some(&[-1.5; 4]),
            teacher: Some(&[Some(9.0), Some(-0.75), None, Some(-5.0)]),
        };
        policy_gradient(config, terms)
    }

    #[test]
    fn tokens_of_a_segment_share_a_ratio() {
        let config = PolicyLoss {
            surrogate: Surrogate::Sequence { clip: Clip { low: 0.1, high: 0.1 } },
            weighting: Weighting::None,
            ..PolicyLoss::default()
        };
        // The mean of n - o is 0.05, although single tokens differ from it.
        let inside = segment(&config, [9.0, -1.5, -0.35, -1.0], 1.0);
        let ratio = 0.05f64.exp();
        assert!((inside.loss + ratio).abs() < 1e-6, "{inside:?}");
        assert!(
            inside.d_current[1..].iter().all(|&d| (f64::from(d) + ratio / 3.0).abs() < 1e-6),
            "{inside:?}"
        );
        assert_eq!((inside.d_current[0], inside.figures.clipped), (0.0, 0));
        let outside = segment(&config, [9.0, -1.0, -0.4, -1.0], 1.0);
        assert!((outside.loss + 1.1).abs() < 1e-6, "{outside:?}");
        assert_eq!((&outside.d_current[..], outside.figures.clipped), (&[0.0; 4][..], 3));
    }

    #[test]
    fn cispo_bounds_weights_and_keeps_gradients() {
        let surrogate = Surrogate::Cispo { cap: 2.0 };
        let config = PolicyLoss { surrogate, weighting: Weighting::None, ..PolicyLoss::default() };
        // n is -1 + ln(ratio), and b is o.
        check(&config, (1.5, 0.0, 2.0), (3.0 * (1.0 - 1.5f64.ln()), -3.0), 0);
        check(&config, (4.0, 0.0, -1.0), (-2.0 * (1.0 - 4.0f64.ln()), 2.0), 1);
        check(&config, (0.1, 0.0, 1.0), (0.1 * (1.0 - 0.1f64.ln()), -0.1), 0);
    }

    #[test]
    fn a_distance_costs_beside_the_surrogate() {
        let kl = Some(KlPenalty { coefficient: 0.5, estimator: KlEstimator::K2 });
        let config = PolicyLoss { kl, weighting: Weighting::None, ..PolicyLoss::default() };
        // q is -0.5 and the weight of the cost 1.
        let result = segment(&config, [9.0, -1.0, -1.0, -1.0], 0.0);
        assert!((result.loss - 0.5 * 0.125).abs() < 1e-9, "{result:?}");
        assert!((result.figures.kl_mean() - 0.125).abs() < 1e-9);
        assert!(
            result.d_current[1..].iter().all(|&d| (f64::from(d) - 0.25 / 3.0).abs() < 1e-7),
            "{result:?}"
        );
    }

    #[test]
    fn a_teacher_adds_to_the_advantage_of_what_it_was_asked_about() {
        let distillation = Some(Distillation { weight: 2.0, ..Distillation::default() });
        let config = PolicyLoss {
            outcome_weight: 0.5,
            distillation,
            weighting: Weighting::None,
            ..PolicyLoss::default()
        };
        let result = segment(&config, [9.0, -1.0, -1.0, -1.0], 3.0);
        // 1.5 of the outcome; 2 times 0.25, nothing, and 2 times -1.
        let expected: [f64; 3] = [2.0, 1.5, -0.5];
        for (got, expected) in result.d_current[1..].iter().zip(expected) {
            assert!((f64::from(*got) + expected / 3.0).abs() < 1e-6, "{result:?}");
        }
        let (outcome, teacher) = result.figures.advantage_rms();
        assert!((outcome - 1.5).abs() < 1e-9 && (teacher - (4.25f64 / 3.0).sqrt()).abs() < 1e-6);
        let alone = PolicyLoss { outcome_weight: 0.0, ..config };
        assert_eq!(segment(&alone, [9.0, -1.0, -1.0, -1.0], 3.0).d_current[2], 0.0);
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

    fn surrogates() -> impl Strategy<Value = Surrogate> {
        let dual_clip = prop::option::of(1.5..4.0f64);
        prop_oneof![
            dual_clip.prop_map(|dual_clip| Surrogate::Token { clip: Clip::TOKEN, dual_clip }),
            Just(Surrogate::Sequence { clip: Clip::TOKEN }),
        ]
    }

    fn penalties() -> impl Strategy<Value = Option<KlPenalty>> {
        let estimator = prop_oneof![Just(KlEstimator::K3), Just(KlEstimator::K2)];
        prop::option::of(estimator.prop_map(|estimator| KlPenalty { coefficient: 0.5, estimator }))
    }

    proptest! {
        #[test]
        fn i1_the_derivative_is_that_of_the_loss(
            weighting in weightings(),
            surrogate in surrogates(),
            log_ratio in -1.5..1.5f32,
            gap in -1.5..1.5f32,
            advantage in -3.0..3.0f32,
        ) {
            prop_assume!(weighting.goes_with(surrogate));
            let config = PolicyLoss { surrogate, weighting, ..PolicyLoss::default() };
            let step = 1.0 / 1024.0;
            let (_, derivative, here) = token(&config, log_ratio, gap, advantage);
            let (above, _, after) = token(&config, log_ratio + step, gap, advantage);
            let (below, _, before) = token(&config, log_ratio - step, gap, advantage);
            // Not across a kink, where the difference quotient is meaningless.
            prop_assume!(here.clipped == after.clipped && here.clipped == before.clipped);
            let difference = (above - below) / f64::from(2.0 * step);
            prop_assert!((difference - f64::from(derivative)).abs() < 2e-3 * (1.0 + difference.abs()));
        }

        /// The weight of a distance is a constant of the derivative, so it is kept at 1 here: n is b.
        #[test]
        fn i1_of_a_distance_and_of_a_ratio_that_tokens_share(
            surrogate in surrogates(),
            kl in penalties(),
            token in 1usize..4,
            advantage in -3.0..3.0f32,
        ) {
            let config = PolicyLoss { surrogate, weighting: Weighting::None, kl, ..PolicyLoss::default() };
            let step = 1.0 / 4096.0;
            let at = |by: f32| {
                let mut current = [-1.0; 4];
                current[token] += by;
                segment(&config, current, advantage)
            };
            let numeric = (at(step).loss - at(-step).loss) / f64::from(2.0 * step);
            let exact = f64::from(at(0.0).d_current[token]);
            // The derivative of the weight itself is left out.
            let weight_part = kl.map_or(0.0, |kl| kl.coefficient / 3.0 * kl_term(kl.estimator, -0.5).value);
            prop_assert!((numeric - weight_part - exact).abs() < 2e-3 * (1.0 + exact.abs()), "{numeric} {exact}");
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
                reference: None,
                teacher: None,
            });
            prop_assert_eq!(result.loss, 1.0);
            prop_assert_eq!(result.d_current, vec![0.0, 1.0]);
        }
    }
}
