//! The heartbeat of an attempt: its current phase and the deadline of its next heartbeat.
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
pub(crate) struct Heartbeat(AtomicU64);

/// One reading of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) phase: Phase,
    /// The attempt shows its next sign of life by then.
    pub(crate) until: Duration,
}

impl Heartbeat {
    pub(crate) fn new(sign: Beat) -> Self {
        Self(AtomicU64::new(pack(sign)))
    }

    pub(crate) fn renew(&self, sign: Beat) {
        self.0.store(pack(sign), Relaxed);
    }

    pub(crate) fn read(&self) -> Beat {
        let word = self.0.load(Relaxed);
        let phase = Phase::ALL[(word & ((1 << PHASE_BITS) - 1)) as usize];
        Beat { phase, until: Duration::from_millis(word >> PHASE_BITS) }
    }
}

fn pack(sign: Beat) -> u64 {
    let millis = u64::try_from(sign.until.as_millis()).unwrap_or(u64::MAX).min(u64::MAX >> PHASE_BITS);
    millis << PHASE_BITS | sign.phase as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heartbeat_reads_back(phase in 0..Phase::ALL.len(), millis in 0..u64::MAX >> PHASE_BITS) {
            let sign = Beat { phase: Phase::ALL[phase], until: Duration::from_millis(millis) };
            prop_assert_eq!(Heartbeat::new(sign).read(), sign);
        }
    }
}
