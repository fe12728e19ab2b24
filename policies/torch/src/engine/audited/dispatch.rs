//! Runs a kernel with the widest vector instructions of the processor.
//!
//! I1. A kernel is compiled once for every set of instructions from the same source; it names its lanes and the order of
//! its sums itself, so no choice of the compiler changes a result. I2. The choice is the same for the whole process.
//!
//! Results with and without fused multiply-add differ in the last bits; one machine always uses the same instructions.

#![allow(unsafe_code)]

/// Multiply-add as the kernels use it.
pub(crate) trait Arithmetic {
    /// `a * b + c`, rounded once where the processor can.
    fn mul_add(a: f32, b: f32, c: f32) -> f32;
}

/// A loop over slices that gains from wide instructions.
pub(crate) trait Kernel {
    /// Result of the kernel.
    type Output;

    /// The loop. It and everything that it calls must be `#[inline(always)]`: only code that is inlined gets the wide
    /// instructions of its caller.
    fn run<A: Arithmetic>(self) -> Self::Output;
}

/// Rounds once. Only called where the instruction exists; elsewhere it would become a library call.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
struct Fused;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Arithmetic for Fused {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

/// Rounds twice, on every processor.
#[cfg(any(not(target_arch = "aarch64"), test))]
struct Portable;

#[cfg(any(not(target_arch = "aarch64"), test))]
impl Arithmetic for Portable {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

/// Runs the kernel with AVX2 and FMA where the processor has them, and portably elsewhere.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn wide<K: Kernel>(kernel: K) -> K::Output {
            kernel.run::<Fused>()
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: `wide` requires only these two features, and both have just been detected.
            return unsafe { wide(kernel) };
        }
    }
    kernel.run::<Portable>()
}

/// Runs the kernel; wide instructions are part of the architecture.
#[cfg(target_arch = "aarch64")]
pub(crate) fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    kernel.run::<Fused>()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dot<'a>(&'a [f32], &'a [f32]);

    impl Kernel for Dot<'_> {
        type Output = f32;

        #[inline(always)]
        fn run<A: Arithmetic>(self) -> f32 {
            self.0.iter().zip(self.1).fold(0.0, |sum, (&a, &b)| A::mul_add(a, b, sum))
        }
    }

    #[test]
    fn all_instructions_compute_the_same_function() {
        let a: Vec<f32> = (0..37).map(|i| (i as f32 * 0.37).sin()).collect();
        let b: Vec<f32> = (0..37).map(|i| (i as f32 * 0.11).cos()).collect();
        let truth: f64 = a.iter().zip(&b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
        for got in [dispatch(Dot(&a, &b)), Dot(&a, &b).run::<Portable>()] {
            assert!((f64::from(got) - truth).abs() < 1e-5, "{got} {truth}");
        }
    }
}
