//! Attention of one row over the keys and values of its sequence.
//!
//! Prefill and decode use the same code: a row at position p sees keys 0..=p. Scores, their softmax and the weighted sum of
//! values are computed from the first position to the last, regardless of the rest of the batch.
//!
//! Shapes: H query heads, K key heads, E head size; query head h reads key head h / (H / K).

use super::lanes::{LANES, exp, largest, total};
use crate::engine::audited::{Arithmetic, Kernel};
use crate::engine::kv::{KvPage, PAGE};

// A page's keys of one dimension fill the lanes exactly.
const _: () = assert!(PAGE == LANES);

/// One row of one layer.
pub(in crate::engine) struct AttendRow<'a> {
    /// Index of the layer.
    pub(in crate::engine) layer: usize,
    /// H x E, scaled by 1 / sqrt(E).
    pub(in crate::engine) query: &'a [f32],
    /// K.
    pub(in crate::engine) key_heads: usize,
    /// E.
    pub(in crate::engine) head_dim: usize,
    /// Pages of the sequence, at least up to `position`.
    pub(in crate::engine) pages: &'a [std::rc::Rc<KvPage>],
    /// p.
    pub(in crate::engine) position: usize,
    /// Buffer for scores; any length.
    pub(in crate::engine) scores: &'a mut Vec<[f32; LANES]>,
    /// H x E.
    pub(in crate::engine) out: &'a mut [f32],
}

impl Kernel for AttendRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let Self { layer, head_dim, position, scores, .. } = self;
        let pages = &self.pages[..=position / PAGE];
        scores.resize(pages.len().max(scores.len()), [0.0; LANES]);
        let scores = &mut scores[..pages.len()];
        let per_key = self.query.len() / head_dim / self.key_heads;
        let heads = self.query.chunks_exact(head_dim).zip(self.out.chunks_exact_mut(head_dim));
        for (head, (query, out)) in heads.enumerate() {
            let key_head = head / per_key;
            for (page, scores) in pages.iter().zip(scores.iter_mut()) {
                *scores = dots::<A>(query, page.keys(layer, key_head));
            }
            // Positions after the row's own are empty or were written by a later row of the same step.
            if let Some(last) = scores.last_mut() {
                last[position % PAGE + 1..].fill(f32::NEG_INFINITY);
            }
            let sum = to_weights::<A>(scores);
            weighted_values::<A>(pages, layer, key_head, scores, position, out);
            for value in out {
                *value /= sum;
            }
        }
    }
}

/// Products of the query with the keys of a page. `keys` is E x PAGE.
#[inline(always)]
fn dots<A: Arithmetic>(query: &[f32], keys: &[f32]) -> [f32; LANES] {
    let mut sums = [0.0; LANES];
    for (&query, keys) in query.iter().zip(keys.as_chunks::<LANES>().0) {
        for (sum, &key) in sums.iter_mut().zip(keys) {
            *sum = A::mul_add(query, key, *sum);
        }
    }
    sums
}

/// Replaces scores by exp(score - max) and returns their sum.
#[inline(always)]
fn to_weights<A: Arithmetic>(scores: &mut [[f32; LANES]]) -> f32 {
    let highest = largest(scores.as_flattened());
    let mut sums = [0.0; LANES];
    for scores in scores {
        for (score, sum) in scores.iter_mut().zip(&mut sums) {
            *score = exp::<A>(*score - highest);
            *sum += *score;
        }
    }
    total(&sums)
}

/// `out = sum over positions of weight * value`.
#[inline(always)]
fn weighted_values<A: Arithmetic>(
    pages: &[std::rc::Rc<KvPage>],
    layer: usize,
    key_head: usize,
    weights: &[[f32; LANES]],
    position: usize,
    out: &mut [f32],
) {
    let head_dim = out.len();
    let mut from = 0;
    // Wide pieces stay in registers over all positions.
    while from + 2 * LANES <= head_dim {
        let piece =
            value_piece::<A, { 2 * LANES }>(pages, layer, key_head, weights, position, head_dim, from);
        out[from..from + 2 * LANES].copy_from_slice(&piece);
        from += 2 * LANES;
    }
    while from < head_dim {
        let piece = value_piece::<A, 2>(pages, layer, key_head, weights, position, head_dim, from);
        out[from..from + 2].copy_from_slice(&piece);
        from += 2;
    }
}

#[inline(always)]
fn value_piece<A: Arithmetic, const N: usize>(
    pages: &[std::rc::Rc<KvPage>],
    layer: usize,
    key_head: usize,
    weights: &[[f32; LANES]],
    position: usize,
    head_dim: usize,
    from: usize,
) -> [f32; N] {
    let mut sums = [0.0; N];
    let mut left = position + 1;
    for (page, weights) in pages.iter().zip(weights) {
        let values = page.values(layer, key_head);
        for (&weight, value) in weights.iter().zip(values.chunks_exact(head_dim)).take(left) {
            if let Some(value) = value.get(from..).and_then(|rest| rest.first_chunk::<N>()) {
                for (sum, &value) in sums.iter_mut().zip(value) {
                    *sum = A::mul_add(weight, value, *sum);
                }
            }
        }
        left = left.saturating_sub(PAGE);
    }
    sums
}
