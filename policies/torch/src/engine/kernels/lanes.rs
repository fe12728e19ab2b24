//! Sums and exponentials over lanes.
//!
//! Relative error of [`exp`]: below 2e-7; the result is 0 for arguments below -87.3.
//! Source of the polynomial: Cephes, `expf`.

use crate::engine::audited::Arithmetic;

/// Number of partial sums: two registers of AVX2, four of NEON.
pub(crate) const LANES: usize = 16;

/// Sum of the lanes in a fixed order.
#[inline(always)]
pub(crate) fn total(lanes: &[f32; LANES]) -> f32 {
    // Adds one half to the other: the same order on every machine, and fewer steps than one by one.
    let mut sums = *lanes;
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// Sum of squares.
#[inline(always)]
pub(crate) fn squares<A: Arithmetic>(values: &[f32]) -> f32 {
    dot::<A>(values, values)
}

/// Sum of products of two slices of one length.
#[inline(always)]
pub(crate) fn dot<A: Arithmetic>(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for (sum, (&a, &b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum = A::mul_add(a, b, *sum);
        }
    }
    a_rest.iter().zip(b_rest).fold(total(&sums), |sum, (&a, &b)| A::mul_add(a, b, sum))
}

/// Largest value; ignores NaN.
#[inline(always)]
pub(crate) fn largest(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut best = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        for (best, &value) in best.iter_mut().zip(chunk) {
            *best = larger(*best, value);
        }
    }
    best.iter().chain(rest).fold(f32::NEG_INFINITY, |best, &value| larger(best, value))
}

/// The exponential function. NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<A: Arithmetic>(x: f32) -> f32 {
    const LOWEST: f32 = -87.3;
    const HIGHEST: f32 = 88.0;
    /// Adding this moves the fraction out of the mantissa, which rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Comparisons are faster than `clamp`, which also handles NaN.
    let bounded = if x < LOWEST { LOWEST } else { x };
    let bounded = if bounded > HIGHEST { HIGHEST } else { bounded };
    let shifted = A::mul_add(bounded, std::f32::consts::LOG2_E, ROUND);
    let power = shifted - ROUND;
    let rest = A::mul_add(power, -LN_2_HIGH, bounded);
    let rest = A::mul_add(power, -LN_2_LOW, rest);
    let mut value = 1.987_569_1e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0] {
        value = A::mul_add(value, rest, coefficient);
    }
    // The low bits of `shifted` hold the integer, which becomes the exponent.
    let scale = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    if x < LOWEST { 0.0 } else { value * scale }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::audited::{Kernel, dispatch};

    struct Exp(f32);

    impl Kernel for Exp {
        type Output = f32;

        #[inline(always)]
        fn run<A: Arithmetic>(self) -> f32 {
            exp::<A>(self.0)
        }
    }

    #[test]
    fn exp_is_exp() {
        for step in -8_700..8_700 {
            let x = step as f32 * 0.01;
            let (got, truth) = (f64::from(dispatch(Exp(x))), f64::from(x).exp());
            assert!((got - truth).abs() <= truth * 2e-7, "exp({x}) = {got}, not {truth}");
        }
        assert_eq!(dispatch(Exp(0.0)), 1.0);
        assert_eq!(dispatch(Exp(f32::NEG_INFINITY)), 0.0);
        assert!(dispatch(Exp(f32::NAN)).is_nan());
    }

    #[test]
    fn largest_looks_at_every_place() {
        for place in 0..37 {
            let mut values = vec![-1.0f32; 37];
            values[place] = 2.0;
            assert_eq!(largest(&values), 2.0);
        }
    }
}
