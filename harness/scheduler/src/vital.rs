//! The sign of life of an attempt: what it is doing and until when it may do so.
//!
//! Written by the executor at the start of each operation, which renews the lease's deadline; read by the
//! dispatcher's reaper. I1. Phase and deadline are read together: they share one word.
//!
//! Units: milliseconds since the start of the run.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::progress::Phase;

const PHASE_BITS: u32 = 8;

/// Shared by an executor and the dispatcher.
#[derive(Debug)]
pub(crate) struct Vital(AtomicU64);

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sign {
    pub(crate) phase: Phase,
    /// The attempt shows its next sign of life by then.
    pub(crate) until: Duration,
}

impl Vital {
    pub(crate) fn new(sign: Sign) -> Self {
        Self(AtomicU64::new(pack(sign)))
    }

    pub(crate) fn renew(&self, sign: Sign) {
        self.0.store(pack(sign), Relaxed);
    }

    pub(crate) fn read(&self) -> Sign {
        let word = self.0.load(Relaxed);
        let phase = Phase::ALL[(word & ((1 << PHASE_BITS) - 1)) as usize];
        Sign { phase, until: Duration::from_millis(word >> PHASE_BITS) }
    }
}

fn pack(sign: Sign) -> u64 {
    let millis = u64::try_from(sign.until.as_millis()).unwrap_or(u64::MAX).min(u64::MAX >> PHASE_BITS);
    millis << PHASE_BITS | sign.phase as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reads_what_was_written(phase in 0..Phase::ALL.len(), millis in 0..u64::MAX >> PHASE_BITS) {
            let sign = Sign { phase: Phase::ALL[phase], until: Duration::from_millis(millis) };
            prop_assert_eq!(Vital::new(sign).read(), sign);
        }
    }
}
