//! Seeds that are the same on every machine and in every version.
//!
//! I1. `derive_seed` and `stable_hash` are functions of their arguments' bytes only; golden values below
//! lock them: to change one is to change every recorded run.
//!
//! Source: FNV-1a (64 bit) for hashing, SplitMix64 (Steele, Lea, Flood 2014) for mixing and streams.

/// FNV-1a over the bytes, then one SplitMix64 finalisation, so that all bits are well mixed.
#[must_use]
pub fn stable_hash(bytes: &[u8]) -> u64 {
    let fnv = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(fnv)
}

/// A child seed for a purpose and numbers: independent streams from one parent.
#[must_use]
pub fn derive_seed(parent: u64, purpose: &str, numbers: &[u64]) -> u64 {
    let start = mix(parent ^ stable_hash(purpose.as_bytes()));
    numbers.iter().fold(start, |seed, &number| mix(seed.wrapping_add(mix(number.wrapping_add(GAMMA)))))
}

/// A small random stream for choices that must be repeatable. Not for secrets.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A stream from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        finalise(self.state)
    }

    /// Uniform in `0..bound`, by multiplication with the unbiased tail rejected. `bound` 0 gives 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let threshold = bound.wrapping_neg() % bound;
        loop {
            let wide = u128::from(self.next_u64()) * u128::from(bound);
            if (wide as u64) >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(value: u64) -> u64 {
    finalise(value.wrapping_add(GAMMA))
}

fn finalise(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reference_values() {
        // The first outputs of SplitMix64 for seed 1234567, as printed in Vigna's reference program.
        let mut stream = SplitMix64::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn seeds_differ_by_every_argument() {
        let all = [
            derive_seed(1, "env", &[1, 2]),
            derive_seed(2, "env", &[1, 2]),
            derive_seed(1, "policy", &[1, 2]),
            derive_seed(1, "env", &[2, 1]),
            derive_seed(1, "env", &[1]),
        ];
        let distinct: std::collections::BTreeSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    proptest! {
        #[test]
        fn below_is_below(seed: u64, bound in 1u64..) {
            prop_assert!(SplitMix64::new(seed).below(bound) < bound);
        }
    }
}
