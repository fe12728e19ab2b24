//! Draws a token from a row of logits.
//!
//! I1. The drawn token is a function of seed, position and logits. I2. The log-probability is over the full vocabulary at
//! the temperature, before truncation. I3. Greedy sampling takes the largest logit, on a tie the one with the lowest id,
//! and records temperature 1.
//!
//! The distribution is searched in the order of ids, so a small change of the logits changes the token only if the random
//! number lies close to a boundary. Top-k is applied first, then top-p to what is left, renormalised.
//!
//! Units: nats.

use super::audited::dispatch;
use super::kernels::Softmax;
use super::philox::uniform;

/// How a token is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sampling {
    pub(super) temperature: f32,
    pub(super) top_p: f32,
    pub(super) top_k: u32,
    pub(super) seed: u64,
}

impl Sampling {
    /// Whether top-k or top-p is on.
    pub(super) fn truncates(&self) -> bool {
        self.temperature > 0.0 && (self.top_k > 0 || self.top_p < 1.0)
    }
}

/// A token that was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Draw {
    pub(super) id: u32,
    /// Over the full vocabulary (I2).
    pub(super) logprob: f32,
    /// Within the truncated vocabulary; `None` without truncation.
    pub(super) set_logprob: Option<f32>,
}

/// Buffers that are reused.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    weights: Vec<f32>,
    sums: Vec<f64>,
    kept: Vec<u32>,
}

impl Sampler {
    /// Draws the token at a position of a sequence; `None` if a logit is not finite.
    pub(super) fn draw(&mut self, logits: &[f32], sampling: &Sampling, position: u64) -> Option<Draw> {
        let greedy = sampling.temperature == 0.0;
        let inverse_temperature = if greedy { 1.0 } else { 1.0 / sampling.temperature };
        self.weights.resize(logits.len(), 0.0);
        let (weights, sums) = (&mut self.weights, &mut self.sums);
        let highest = dispatch(Softmax { logits, inverse_temperature, weights, sums });
        let total: f64 = self.sums.iter().sum();
        // A single NaN makes the sum NaN, an infinite logit at least one weight.
        if !(total.is_finite() && total > 0.0) {
            return None;
        }
        let truncated = sampling.truncates();
        let (id, set_total) = if greedy {
            (logits.iter().position(|&logit| logit == highest)?, None)
        } else if truncated {
            self.keep(sampling, total);
            let weight = |id: &u32| f64::from(self.weights[*id as usize]);
            let set_total = self.kept.iter().map(weight).sum::<f64>();
            let edge = uniform(sampling.seed, position) * set_total;
            let index = search(self.kept.iter().map(weight), edge)?;
            (self.kept[index] as usize, Some(set_total))
        } else {
            let edge = uniform(sampling.seed, position) * total;
            (self.search_all(edge)?, None)
        };
        let exponent = (f64::from(logits[id]) - f64::from(highest)) * f64::from(inverse_temperature);
        let logprob = |total: f64| (exponent - total.ln()) as f32;
        Some(Draw { id: id as u32, logprob: logprob(total), set_logprob: set_total.map(logprob) })
    }

    /// The first id whose cumulated weight is above `edge`.
    fn search_all(&self, edge: f64) -> Option<usize> {
        let chunk = search(self.sums.iter().copied(), edge)?;
        let before: f64 = self.sums[..chunk].iter().sum();
        let start = chunk * Softmax::CHUNK;
        let weights = &self.weights[start..self.weights.len().min(start + Softmax::CHUNK)];
        Some(start + search(weights.iter().map(|&weight| f64::from(weight)), edge - before)?)
    }

    /// Keeps the tokens that top-k and top-p leave, in order of ids.
    fn keep(&mut self, sampling: &Sampling, mut total: f64) {
        let Self { weights, kept, .. } = self;
        let weight = |id: u32| weights[id as usize];
        let heavier = |a: &u32, b: &u32| weight(*b).total_cmp(&weight(*a)).then(a.cmp(b));
        kept.clear();
        kept.extend(0..weights.len() as u32);
        let top_k = sampling.top_k as usize;
        if top_k > 0 && top_k < kept.len() {
            kept.select_nth_unstable_by(top_k - 1, heavier);
            kept.truncate(top_k);
            total = kept.iter().map(|&id| f64::from(weight(id))).sum();
        }
        if sampling.top_p < 1.0 {
            kept.sort_unstable_by(heavier);
            let edge = f64::from(sampling.top_p) * total;
            let mut sum = 0.0;
            let enough = kept.iter().position(|&id| {
                sum += f64::from(weight(id));
                sum >= edge
            });
            kept.truncate(enough.map_or(kept.len(), |index| index + 1));
        }
        kept.sort_unstable();
    }
}

/// The first index whose cumulated weight is above `edge`; if rounding puts the edge at the end, the last index with a
/// weight above 0.
fn search(weights: impl Iterator<Item = f64>, edge: f64) -> Option<usize> {
    let (mut sum, mut last) = (0.0, None);
    for (index, weight) in weights.enumerate() {
        sum += weight;
        if weight > 0.0 {
            last = Some(index);
            if sum > edge {
                break;
            }
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use clawrl_core::SplitMix64;
    use proptest::prelude::*;

    use super::*;

    fn sampling(temperature: f32, top_p: f32, top_k: u32, seed: u64) -> Sampling {
        Sampling { temperature, top_p, top_k, seed }
    }

    fn logits(count: usize, seed: u64) -> Vec<f32> {
        let mut bits = SplitMix64::new(seed);
        (0..count).map(|_| (bits.unit_f64() * 6.0 - 3.0) as f32).collect()
    }

    fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
        let weights: Vec<f64> = logits.iter().map(|&logit| (f64::from(logit) / temperature).exp()).collect();
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }

    /// Draws often and compares with `expected` by chi-square; panics if the deviation is too large.
    fn check_distribution(logits: &[f32], how: impl Fn(u64) -> Sampling, expected: &[f64]) {
        const DRAWS: u64 = 20_000;
        let mut sampler = Sampler::default();
        let mut counts = vec![0u32; logits.len()];
        for seed in 0..DRAWS {
            let draw = sampler.draw(logits, &how(seed), 17).unwrap();
            counts[draw.id as usize] += 1;
        }
        let mut chi_square = 0.0;
        let mut degrees = -1.0;
        for (&count, &share) in counts.iter().zip(expected) {
            if share == 0.0 {
                assert_eq!(count, 0);
            } else {
                chi_square += (f64::from(count) - share * DRAWS as f64).powi(2) / (share * DRAWS as f64);
                degrees += 1.0;
            }
        }
        // Mean and standard deviation of the chi-square distribution; chance does not exceed four standard deviations.
        assert!(chi_square <= degrees + 4.0 * (2.0f64 * degrees).sqrt(), "{chi_square} of {degrees}");
    }

    #[test]
    fn draws_follow_the_softmax() {
        for (count, temperature) in [(32, 1.0), (700, 0.7), (16, 2.0)] {
            let logits = logits(count, 5);
            let expected = softmax(&logits, f64::from(temperature));
            check_distribution(&logits, |seed| sampling(temperature, 1.0, 0, seed), &expected);
        }
    }

    #[test]
    fn truncation_keeps_the_heaviest_renormalised() {
        let logits: Vec<f32> = [0.1f32, 0.4, 0.3, 0.15, 0.05].iter().map(|p| p.ln()).collect();
        let check = |top_p, top_k, kept: &[f64]| {
            let total: f64 = kept.iter().sum();
            let expected: Vec<f64> = kept.iter().map(|weight| weight / total).collect();
            check_distribution(&logits, |seed| sampling(1.0, top_p, top_k, seed), &expected);
        };
        check(1.0, 2, &[0.0, 0.4, 0.3, 0.0, 0.0]);
        check(0.6, 0, &[0.0, 0.4, 0.3, 0.0, 0.0]);
        check(0.9, 0, &[0.1, 0.4, 0.3, 0.15, 0.0]);
        // 0.4 of 0.7 is more than half.
        check(0.5, 2, &[0.0, 1.0, 0.0, 0.0, 0.0]);
        let draw = Sampler::default().draw(&logits, &sampling(1.0, 1.0, 1, 3), 0).unwrap();
        assert_eq!((draw.id, draw.set_logprob), (1, Some(0.0)));
        assert!((draw.logprob - 0.4f32.ln()).abs() < 1e-6);
    }

    /// I3.
    #[test]
    fn greedy_takes_the_lowest_id_of_the_largest() {
        let draw = |logits: &[f32]| Sampler::default().draw(logits, &sampling(0.0, 1.0, 0, 0), 0);
        let got = draw(&[0.0, 2.0, 2.0, 1.0]).unwrap();
        assert_eq!((got.id, got.set_logprob), (1, None));
        let expected = softmax(&[0.0, 2.0, 2.0, 1.0], 1.0)[1].ln();
        assert!((f64::from(got.logprob) - expected).abs() < 1e-6);
        assert_eq!(draw(&[0.0, f32::NAN, 1.0]), None);
        assert_eq!(draw(&[f32::NAN; 300]), None);
        assert_eq!(draw(&[0.0, f32::INFINITY]), None);
        assert_eq!(draw(&[f32::NEG_INFINITY; 3]), None);
    }

    proptest! {
        /// I1 and I2.
        #[test]
        fn a_draw_is_a_function_with_the_full_logprob(
            seed: u64, position in 0u64..100_000, count in 1usize..600, hot in 1u32..30,
        ) {
            let logits = logits(count, seed ^ 1);
            let temperature = hot as f32 / 10.0;
            let mut used = Sampler::default();
            let _ = used.draw(&[1.0; 700], &sampling(1.0, 0.5, 3, 1), 1);
            for how in [sampling(temperature, 1.0, 0, seed), sampling(temperature, 0.8, 7, seed)] {
                let draw = used.draw(&logits, &how, position).unwrap();
                prop_assert_eq!(Some(draw), Sampler::default().draw(&logits, &how, position));
                let truth = softmax(&logits, f64::from(temperature))[draw.id as usize].ln();
                prop_assert!((f64::from(draw.logprob) - truth).abs() < 2e-5 * truth.abs().max(1.0));
                prop_assert!(draw.set_logprob.unwrap_or(draw.logprob) >= draw.logprob);
            }
        }
    }
}
