//! Computes the wait before a retry.
//!
//! I1. The wait is between 0 and the smaller of [`CAP`] and [`BASE`] doubled for each earlier try. I2. It is a function of
//! the request's seed and the number of the try, so that different attempts wait differently.
//!
//! Pure; nothing to cancel.
//! Source: "full jitter", M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog 2015.

use std::time::Duration;

use clawrl_core::{SplitMix64, derive_seed};

/// The longest first wait.
const BASE: Duration = Duration::from_millis(500);
/// The longest wait.
const CAP: Duration = Duration::from_secs(30);

/// Interval over which requests are spread after a server's pause.
const SPREAD: Duration = Duration::from_secs(2);

/// The wait after the try of this number, from 1.
pub(crate) fn wait(seed: u64, tries: u32) -> Duration {
    let doubled = BASE.saturating_mul(1 << tries.saturating_sub(1).min(16));
    doubled.min(CAP).mul_f64(share(seed, "remote-backoff", tries))
}

/// Random addition to a wait that the server requested.
pub(crate) fn spread(seed: u64, tries: u32) -> Duration {
    SPREAD.mul_f64(share(seed, "remote-spread", tries))
}

fn share(seed: u64, purpose: &str, tries: u32) -> f64 {
    SplitMix64::new(derive_seed(seed, purpose, &[u64::from(tries)])).unit_f64()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn i1_stays_in_bounds_and_repeats(seed: u64, tries in 1u32..60) {
            let most = BASE.saturating_mul(1 << (tries - 1).min(20)).min(CAP);
            prop_assert!(wait(seed, tries) <= most);
            prop_assert_eq!(wait(seed, tries), wait(seed, tries));
            prop_assert!(spread(seed, tries) <= SPREAD);
        }
    }

    #[test]
    fn i2_attempts_do_not_march_in_step() {
        let waits: std::collections::BTreeSet<Duration> = (0..100).map(|seed| wait(seed, 3)).collect();
        assert!(waits.len() > 95, "{} distinct of 100", waits.len());
        assert!(waits.last().unwrap().saturating_sub(*waits.first().unwrap()) > BASE);
    }
}
