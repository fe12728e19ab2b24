//! Norms, rotation and the gated unit.
//!
//! Shapes: letters of [`crate::ModelConfig`], R rows.

use super::lanes::{exp, squares};
use crate::engine::audited::{Arithmetic, Kernel};

/// `out = x / sqrt(mean(x^2) + eps) * weight` of each row.
pub(crate) struct RmsNorm<'a> {
    /// R x D.
    pub(crate) x: &'a [f32],
    /// D.
    pub(crate) weight: &'a [f32],
    /// Added under the root.
    pub(crate) eps: f32,
    /// R x D.
    pub(crate) out: &'a mut [f32],
}

impl Kernel for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let width = self.weight.len();
        for (x, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            norm::<A>(x, self.weight, self.eps, out);
        }
    }
}

/// `x += y`, then the norm of `x`.
pub(crate) struct AddRmsNorm<'a> {
    /// R x D.
    pub(crate) x: &'a mut [f32],
    /// R x D.
    pub(crate) y: &'a [f32],
    /// D.
    pub(crate) weight: &'a [f32],
    /// Added under the root.
    pub(crate) eps: f32,
    /// R x D.
    pub(crate) out: &'a mut [f32],
}

impl Kernel for AddRmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let width = self.weight.len();
        let rows = self.x.chunks_exact_mut(width).zip(self.y.chunks_exact(width));
        for ((x, y), out) in rows.zip(self.out.chunks_exact_mut(width)) {
            for (x, &y) in x.iter_mut().zip(y) {
                *x += y;
            }
            norm::<A>(x, self.weight, self.eps, out);
        }
    }
}

#[inline(always)]
fn norm<A: Arithmetic>(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = inverse_root::<A>(x, eps);
    for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

/// `1 / sqrt(mean(x^2) + eps)`.
#[inline(always)]
pub(crate) fn inverse_root<A: Arithmetic>(x: &[f32], eps: f32) -> f32 {
    1.0 / (squares::<A>(x) / x.len() as f32 + eps).sqrt()
}

/// Norm of one head, then the rotation of its pairs `(x[i], x[i + E/2])`, in place, then a factor.
pub(crate) struct NormRotate<'a> {
    /// Heads x E.
    pub(crate) heads: &'a mut [f32],
    /// E.
    pub(crate) weight: &'a [f32],
    /// Added under the root.
    pub(crate) eps: f32,
    /// E/2 of the row's position.
    pub(crate) cos: &'a [f32],
    /// E/2 of the row's position.
    pub(crate) sin: &'a [f32],
    /// Multiplies the result.
    pub(crate) factor: f32,
}

impl Kernel for NormRotate<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let half = self.cos.len();
        let (weight_low, weight_high) = self.weight.split_at(half);
        for head in self.heads.chunks_exact_mut(2 * half) {
            let scale = inverse_root::<A>(head, self.eps);
            let (low, high) = head.split_at_mut(half);
            let pairs = low.iter_mut().zip(high).zip(weight_low.iter().zip(weight_high));
            for (((low, high), (&weight_low, &weight_high)), (&cos, &sin)) in
                pairs.zip(self.cos.iter().zip(self.sin))
            {
                let (a, b) = (*low * scale * weight_low, *high * scale * weight_high);
                *low = (a * cos - b * sin) * self.factor;
                *high = (b * cos + a * sin) * self.factor;
            }
        }
    }
}

/// `out = silu(gate) * up` of each row.
pub(crate) struct GatedUnit<'a> {
    /// R x 2 F: gate, up.
    pub(crate) gate_up: &'a [f32],
    /// F.
    pub(crate) width: usize,
    /// R x F.
    pub(crate) out: &'a mut [f32],
}

impl Kernel for GatedUnit<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        for (row, out) in self.gate_up.chunks_exact(2 * self.width).zip(self.out.chunks_exact_mut(self.width))
        {
            let (gate, up) = row.split_at(self.width);
            for ((out, &gate), &up) in out.iter_mut().zip(gate).zip(up) {
                *out = gate / (1.0 + exp::<A>(-gate)) * up;
            }
        }
    }
}
