//! Delay of a slot before its retry.
//!
//! I1. The delay is between [`BASE`] and [`CAP`]. I2. It is a function of seed, slot and retry only, so a repeated
//! run has the same delays. I3. Different slots have different delays: a provider that failed for many slots at once
//! does not receive all their retries at once.
//!
//! Pure; nothing to cancel.
//! Source: "decorrelated jitter", M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog 2015.

use std::time::Duration;

use clawrl_core::{SlotId, SplitMix64, derive_seed};

/// The shortest rest.
const BASE: Duration = Duration::from_millis(50);
/// The longest rest.
const CAP: Duration = Duration::from_secs(10);

/// The rest before retry number `retry` (from 0) of a slot.
pub(crate) fn rest(run_seed: u64, slot: SlotId, retry: u32) -> Duration {
    let mut stream = SplitMix64::new(derive_seed(run_seed, "backoff", &[u64::from(slot.0)]));
    let mut rest = BASE;
    for _ in 0..=retry {
        let above = rest.saturating_mul(3).saturating_sub(BASE);
        rest = (BASE + above.mul_f64(stream.unit_f64())).min(CAP);
    }
    rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stays_in_bounds_and_repeats(seed: u64, slot: u32, retry in 0u32..50) {
            let first = rest(seed, SlotId(slot), retry);
            prop_assert!((BASE..=CAP).contains(&first));
            prop_assert_eq!(first, rest(seed, SlotId(slot), retry));
        }
    }

    #[test]
    fn slots_do_not_march_in_step() {
        let rests: std::collections::BTreeSet<Duration> =
            (0..100).map(|slot| rest(1, SlotId(slot), 0)).collect();
        assert!(rests.len() > 90, "{} distinct of 100", rests.len());
    }
}
