//! Norms, rotation and the gated unit: the counterparts of the engine's loops, and their backward passes.
//!
//! I1. A sum over rows goes from the first to the last.
//!
//! Shapes: letters of [`crate::ModelConfig`], R rows.

use super::attention::Heads;
use crate::engine::audited::{Arithmetic, Kernel};
use crate::engine::kernels::{LANES, NormRotate, exp, inverse_root, total};

/// Backward pass of `out = x / sqrt(mean(x^2) + eps) * weight` for each row.
pub(super) struct NormBack<'a> {
    /// R x D: the input of the forward pass.
    pub(super) x: &'a [f32],
    /// D.
    pub(super) weight: &'a [f32],
    /// Added under the root.
    pub(super) eps: f32,
    /// R x D: derivative with respect to `out`.
    pub(super) d_out: &'a [f32],
    /// R x D: the derivative with respect to `x` is added.
    pub(super) d_x: &'a mut [f32],
    /// D: the derivative with respect to the weight is added.
    pub(super) d_weight: &'a mut [f32],
}

impl Kernel for NormBack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let width = self.weight.len();
        let rows = self.x.chunks_exact(width).zip(self.d_out.chunks_exact(width));
        for ((x, d_out), d_x) in rows.zip(self.d_x.chunks_exact_mut(width)) {
            let (scale, pull) = back_factors::<A>(x, self.weight, self.eps, d_out);
            let values = x.iter().zip(d_out).zip(self.weight);
            for (((&x, &d_out), &weight), (d_x, d_weight)) in
                values.zip(d_x.iter_mut().zip(self.d_weight.iter_mut()))
            {
                *d_x += A::mul_add(d_out * weight, scale, -(x * pull));
                *d_weight = A::mul_add(d_out * x, scale, *d_weight);
            }
        }
    }
}

/// For one row: `1 / sqrt(mean(x^2) + eps)`, and the coefficient of `x` in the derivative.
#[inline(always)]
fn back_factors<A: Arithmetic>(x: &[f32], weight: &[f32], eps: f32, d_out: &[f32]) -> (f32, f32) {
    let scale = inverse_root::<A>(x, eps);
    let along = triple::<A>(d_out, weight, x);
    (scale, along * scale * scale * scale / x.len() as f32)
}

/// Sum of products of three slices of one length.
#[inline(always)]
fn triple<A: Arithmetic>(a: &[f32], b: &[f32], c: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let (c_chunks, c_rest) = c.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for ((a, b), c) in a_chunks.iter().zip(b_chunks).zip(c_chunks) {
        for (sum, ((&a, &b), &c)) in sums.iter_mut().zip(a.iter().zip(b).zip(c)) {
            *sum = A::mul_add(a * b, c, *sum);
        }
    }
    let rest = a_rest.iter().zip(b_rest).zip(c_rest);
    rest.fold(total(&sums), |sum, ((&a, &b), &c)| A::mul_add(a * b, c, sum))
}

/// Positions of rows, and the norms of their heads.
#[derive(Clone, Copy)]
pub(super) struct Turning<'a> {
    pub(super) heads: Heads,
    /// R.
    pub(super) positions: &'a [usize],
    /// P x E/2.
    pub(super) cos: &'a [f32],
    /// P x E/2.
    pub(super) sin: &'a [f32],
    /// E.
    pub(super) q_norm: &'a [f32],
    /// E.
    pub(super) k_norm: &'a [f32],
    /// Added under the root.
    pub(super) eps: f32,
}

impl<'a> Turning<'a> {
    /// Cosines and sines of a position.
    #[inline(always)]
    fn angles(&self, position: usize) -> (&'a [f32], &'a [f32]) {
        let half = self.heads.size / 2;
        let angles = position * half..(position + 1) * half;
        (&self.cos[angles.clone()], &self.sin[angles])
    }

    /// Factor of the queries after the rotation.
    #[inline(always)]
    fn query_factor(&self) -> f32 {
        1.0 / (self.heads.size as f32).sqrt()
    }
}

/// Norms and rotates queries and keys, scales queries and copies values.
pub(super) struct Turn<'a> {
    pub(super) how: Turning<'a>,
    /// R x (H + 2 K) E.
    pub(super) qkv: &'a [f32],
    /// R x (H + 2 K) E.
    pub(super) out: &'a mut [f32],
}

impl Kernel for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let Self { how, qkv, out } = self;
        let (q_size, kv_size) = (how.heads.queries * how.heads.size, how.heads.keys * how.heads.size);
        out.copy_from_slice(qkv);
        for (row, &position) in out.chunks_exact_mut(how.heads.width()).zip(how.positions) {
            let (cos, sin) = how.angles(position);
            let (query, rest) = row.split_at_mut(q_size);
            let (key, _) = rest.split_at_mut(kv_size);
            let (eps, factor) = (how.eps, how.query_factor());
            NormRotate { heads: query, weight: how.q_norm, eps, cos, sin, factor }.run::<A>();
            NormRotate { heads: key, weight: how.k_norm, eps, cos, sin, factor: 1.0 }.run::<A>();
        }
    }
}

/// Backward pass.
pub(super) struct TurnBack<'a> {
    pub(super) how: Turning<'a>,
    /// R x (H + 2 K) E: the input of the forward pass.
    pub(super) qkv: &'a [f32],
    /// R x (H + 2 K) E: derivative with respect to the output, replaced by that with respect to the input.
    pub(super) d_qkv: &'a mut [f32],
    /// E: the derivative is added.
    pub(super) d_q_norm: &'a mut [f32],
    /// E: the derivative is added.
    pub(super) d_k_norm: &'a mut [f32],
}

impl Kernel for TurnBack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let Self { how, qkv, d_qkv, d_q_norm, d_k_norm } = self;
        let (size, width) = (how.heads.size, how.heads.width());
        let rows = qkv.chunks_exact(width).zip(d_qkv.chunks_exact_mut(width));
        for ((row, d_row), &position) in rows.zip(how.positions) {
            let (cos, sin) = how.angles(position);
            let heads = row.chunks_exact(size).zip(d_row.chunks_exact_mut(size));
            for (index, (head, d_head)) in heads.take(how.heads.queries + how.heads.keys).enumerate() {
                let (factor, weight, d_weight) = if index < how.heads.queries {
                    (how.query_factor(), how.q_norm, &mut *d_q_norm)
                } else {
                    (1.0, how.k_norm, &mut *d_k_norm)
                };
                let (low, high) = d_head.split_at_mut(size / 2);
                for ((low, high), (&cos, &sin)) in low.iter_mut().zip(high).zip(cos.iter().zip(sin)) {
                    let (a, b) = (*low * factor, *high * factor);
                    *low = a * cos + b * sin;
                    *high = b * cos - a * sin;
                }
                let (scale, pull) = back_factors::<A>(head, weight, how.eps, d_head);
                let values = head.iter().zip(weight);
                for ((&x, &weight), (d_x, d_weight)) in values.zip(d_head.iter_mut().zip(d_weight.iter_mut()))
                {
                    let d_out = *d_x;
                    *d_x = A::mul_add(d_out * weight, scale, -(x * pull));
                    *d_weight = A::mul_add(d_out * x, scale, *d_weight);
                }
            }
        }
    }
}

/// Backward pass of `unit = silu(gate) * up` for each row.
pub(super) struct GatedBack<'a> {
    /// R x 2 F: gate and up, replaced by the derivatives with respect to them.
    pub(super) gate_up: &'a mut [f32],
    /// F.
    pub(super) width: usize,
    /// R x F: derivative with respect to the unit, replaced by the unit.
    pub(super) unit: &'a mut [f32],
}

impl Kernel for GatedBack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let rows = self.gate_up.chunks_exact_mut(2 * self.width);
        for (row, unit) in rows.zip(self.unit.chunks_exact_mut(self.width)) {
            let (gate, up) = row.split_at_mut(self.width);
            for ((gate, up), unit) in gate.iter_mut().zip(up).zip(unit) {
                let chance = 1.0 / (1.0 + exp::<A>(-*gate));
                let silu = *gate * chance;
                let (d_unit, up_value) = (*unit, *up);
                *unit = silu * up_value;
                *up = d_unit * silu;
                // silu' = chance + gate * chance * (1 - chance).
                *gate = d_unit * up_value * A::mul_add(silu, 1.0 - chance, chance);
            }
        }
    }
}
